import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

@Suite("Feed connection state", .bounded)
struct FeedConnectionStateTests {
    private var state = FeedConnectionState(isForeground: true, isOnline: true)
    private var random = SplitMix64(seed: 1)

    private mutating func end(
        _ number: UInt64,
        _ ending: FeedConnectionState.Ending,
        at seconds: Int = 0
    ) -> [FeedConnectionState.Action] {
        state.ended(number, ending, at: .seconds(seconds), using: &random)
    }

    /// Returns the wait among the actions.
    private func wait(_ actions: [FeedConnectionState.Action]) -> (UInt64, Duration)? {
        for case .wait(let number, let duration) in actions { return (number, duration) }
        return nil
    }

    @Test mutating func `a started feed connects and reports when it is live`() {
        #expect(state.start() == [.connect(1)])
        #expect(state.start() == [])
        #expect(state.opened(1, at: .zero) == [.setLive(true)])
        #expect(state.isConnected)
    }

    @Test mutating func `there is no connection in the background or without a network`() {
        var away = FeedConnectionState(isForeground: false, isOnline: true)
        #expect(away.start() == [])
        #expect(away.setForeground(true) == [.connect(1)])
        #expect(away.setForeground(false) == [.cancel(1)])
        #expect(away.opened(1, at: .zero) == [])
        #expect(away.setOnline(false) == [])
        #expect(away.setForeground(true) == [])
        #expect(away.setOnline(true) == [.connect(2)])
    }

    @Test mutating func `the network's return ends a wait`() throws {
        #expect(state.start() == [.connect(1)])
        let waiting = try #require(wait(end(1, .failed(retryAfter: nil))))
        #expect(state.setOnline(false) == [.cancel(waiting.0)])
        #expect(state.setOnline(true) == [.connect(3)])
        #expect(state.waited(waiting.0) == [])
    }

    @Test mutating func `connections that stay silent lead to polling`() throws {
        var actions = state.start()
        for attempt in 1...FeedLimits.failuresBeforePolling {
            guard case .connect(let number)? = actions.first else {
                Issue.record("No connection in attempt \(attempt)")
                return
            }
            _ = state.opened(number, at: .seconds(attempt * 1_000))
            let ended = end(number, .failed(retryAfter: nil), at: attempt * 1_000 + 50)
            let isLast = attempt == FeedLimits.failuresBeforePolling
            #expect(ended.contains(.setLive(false)) == isLast)
            actions = state.waited(try #require(wait(ended)).0)
        }
    }

    @Test mutating func `after silent connections a feed is live only once bytes arrive`() throws {
        var actions = state.start()
        for attempt in 1...FeedLimits.failuresBeforePolling {
            guard case .connect(let number)? = actions.first else { break }
            let opened = state.opened(number, at: .seconds(attempt * 1_000))
            #expect(opened == (attempt == 1 ? [.setLive(true)] : []))
            let ended = end(number, .failed(retryAfter: nil), at: attempt * 1_000 + 50)
            actions = state.waited(try #require(wait(ended)).0)
        }
        guard case .connect(let number)? = actions.first else {
            Issue.record("No connection after silent ones")
            return
        }
        #expect(state.opened(number, at: .seconds(9_000)) == [])
        // Nothing was received over another network either.
        #expect(state.setOnline(false) == [.cancel(number)])
        #expect(state.setOnline(true) == [.connect(number + 1)])
        #expect(state.opened(number + 1, at: .seconds(9_001)) == [])
        #expect(state.heard(number + 1) == [.setLive(true)])
        #expect(state.heard(number + 1) == [])
    }

    @Test mutating func `a connection ended by the server is reopened after its retry time`()
        throws
    {
        #expect(state.start() == [.connect(1)])
        _ = state.opened(1, at: .zero)
        state.setRetryDelay(1, retry: .seconds(4))
        let actions = end(1, .ended, at: 900)
        let (number, duration) = try #require(wait(actions))
        #expect((.seconds(4) ... .seconds(6)).contains(duration))
        #expect(actions.count == 1)
        #expect(state.waited(number) == [.connect(3)])
    }

    @Test mutating func `repeated failures lengthen the waits up to a limit and start polling`()
        throws
    {
        var actions = state.start()
        var waits: [Duration] = []
        var polledAfter: Int?
        for failures in 1...12 {
            guard case .connect(let number)? = actions.last else { break }
            if failures == 1 { _ = state.opened(number, at: .zero) }
            let ended = end(number, .failed(retryAfter: nil))
            if ended.contains(.setLive(false)) { polledAfter = polledAfter ?? failures }
            let (waiting, duration) = try #require(wait(ended))
            waits.append(duration)
            actions = state.waited(waiting)
        }
        #expect(polledAfter == FeedLimits.failuresBeforePolling)
        for (failures, duration) in waits.enumerated() {
            let least = min(FeedLimits.retry * (1 << failures), FeedLimits.longestRetry)
            #expect((least...least * 1.5).contains(duration))
        }
    }

    @Test mutating func `a retry time from the server is honored`() throws {
        #expect(state.start() == [.connect(1)])
        let (_, duration) = try #require(wait(end(1, .failed(retryAfter: .seconds(30)))))
        #expect((.seconds(30) ... .seconds(45)).contains(duration))
    }

    @Test mutating func `short connections count as failures`() throws {
        var actions = state.start()
        for _ in 1...3 {
            guard case .connect(let number)? = actions.last else { break }
            _ = state.opened(number, at: .zero)
            _ = state.heard(number)
            let (waiting, _) = try #require(wait(end(number, .ended, at: 1)))
            actions = state.waited(waiting)
        }
        guard case .connect(let number)? = actions.last else { return }
        let (_, duration) = try #require(wait(end(number, .failed(retryAfter: nil))))
        #expect(duration >= .seconds(16))
    }

    @Test mutating func `a connection that lasted resets the failures`() throws {
        #expect(state.start() == [.connect(1)])
        let (waiting, _) = try #require(wait(end(1, .failed(retryAfter: nil))))
        #expect(state.waited(waiting) == [.connect(3)])
        _ = state.opened(3, at: .zero)
        _ = state.heard(3)
        let (_, duration) = try #require(wait(end(3, .failed(retryAfter: nil), at: 10)))
        #expect(duration <= .seconds(3))
    }

    @Test mutating func `a reset pulls, and a server without a live feed is retried rarely`()
        throws
    {
        #expect(state.start() == [.connect(1)])
        #expect(end(1, .reset).last == .pull)
        var other = FeedConnectionState(isForeground: true, isOnline: true)
        _ = other.start()
        let actions = other.ended(1, .unavailable, at: .zero, using: &random)
        #expect(try #require(wait(actions)).1 >= FeedLimits.longestRetry)
    }

    @Test mutating func `a first connection is opened when a pull has returned a position`() throws
    {
        #expect(state.start() == [.connect(1)])
        let actions = end(1, .noPosition)
        let (waiting, duration) = try #require(wait(actions))
        #expect(!actions.contains(.pull) && duration <= .seconds(3))
        #expect(state.pullEnded() == [.cancel(waiting), .connect(3)])
        #expect(state.pullEnded() == [])
        #expect(state.opened(3, at: .zero) == [.setLive(true)])
    }

    @Test mutating func `a pull that returns no position for too long is repeated`() throws {
        #expect(state.start() == [.connect(1)])
        let (waiting, _) = try #require(wait(end(1, .noPosition)))
        #expect(state.waited(waiting) == [.connect(3)])
        #expect(end(3, .noPosition).last == .pull)
    }

    @Test mutating func `a pull does not end a wait after a failure`() {
        #expect(state.start() == [.connect(1)])
        _ = end(1, .failed(retryAfter: .seconds(30)))
        #expect(state.pullEnded() == [])
    }

    @Test mutating func `an abandoned connection changes nothing`() {
        #expect(state.start() == [.connect(1)])
        #expect(state.setOnline(false) == [.cancel(1)])
        #expect(state.setOnline(true) == [.connect(2)])
        #expect(state.opened(1, at: .zero) == [])
        #expect(end(1, .failed(retryAfter: nil)) == [])
        #expect(state.opened(2, at: .zero) == [.setLive(true)])
    }

    @Test mutating func `a closed feed does nothing`() {
        #expect(state.start() == [.connect(1)])
        #expect(state.close() == [.cancel(1)])
        #expect(state.start() == [])
        #expect(state.setForeground(false) == [])
        #expect(state.setForeground(true) == [])
    }

    @Test(arguments: 1...100)
    func `at most one task is running at any time`(seed: UInt64) {
        var random = SplitMix64(seed: seed)
        var state = FeedConnectionState(isForeground: true, isOnline: true)
        var underWay: Set<UInt64> = []
        var known: [UInt64] = [0]
        var actions = state.start()
        for step in 0..<300 {
            for action in actions {
                switch action {
                case .connect(let number), .wait(let number, _):
                    underWay.insert(number)
                    known.append(number)
                case .cancel(let number): underWay.remove(number)
                case .setLive, .pull: break
                }
            }
            #expect(underWay.count <= 1)
            let number = known.suffix(3).randomElement(using: &random) ?? 0
            switch Int.random(in: 0..<7, using: &random) {
            case 0: actions = state.setForeground(Bool.random(using: &random))
            case 1: actions = state.setOnline(Bool.random(using: &random))
            case 2, 3: actions = state.opened(number, at: .seconds(step))
            case 4:
                actions = state.waited(number)
                if !actions.isEmpty { underWay.remove(number) }
            default:
                actions = state.ended(number, .ended, at: .seconds(step), using: &random)
                if !actions.isEmpty { underWay.remove(number) }
            }
        }
    }
}
