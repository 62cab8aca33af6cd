import SanguineTesting
import TestSupport
import Testing

@testable import SanguineAuthority

@Suite("Deadlines", .bounded)
struct DeadlinesTests {
    private let clock = DelayClock()
    private let called = WatchedState<[Int]>([])

    private func add(_ seconds: Int, to deadlines: Deadlines) -> Deadlines.Ticket {
        deadlines.add(at: deadlines.moment(after: .seconds(seconds))) { [called] in
            called.withLock { $0.append(seconds) }
        }
    }

    private func wait(for seconds: [Int]) async throws {
        try await called.wait(for: "\(seconds)", found: { "\($0)" }) { $0 == seconds }
    }

    @Test func `one task sleeps for any number of deadlines, which fire in order`() async throws {
        let deadlines = Deadlines(clock)
        let tickets = [30, 10, 20, 20].map { add($0, to: deadlines) }
        try await clock.waitForSleepers(1)
        clock.advance(by: .seconds(10))
        try await wait(for: [10])
        try await clock.waitForSleepers(1)
        clock.advance(by: .seconds(20))
        try await wait(for: [10, 20, 20, 30])
        #expect(deadlines.count == 0)
        for ticket in tickets { deadlines.cancel(ticket) }
        #expect(clock.sleeperCount == 0)
    }

    @Test func `after most of thousands of deadlines are removed, the rest fire in order`()
        async throws
    {
        let deadlines = Deadlines(clock)
        var random = SplitMix64(seed: 11)
        var kept: [Int] = []
        for _ in 1...5_000 {
            let seconds = Int.random(in: 1...1_000, using: &random)
            let ticket = add(seconds, to: deadlines)
            if Int.random(in: 0..<10, using: &random) == 0 {
                kept.append(seconds)
            } else {
                deadlines.cancel(ticket)
            }
        }
        #expect(deadlines.count == kept.count)
        try await clock.waitForSleepers(1)
        clock.advance(by: .seconds(1_000))
        try await wait(for: kept.sorted())
        #expect(deadlines.count == 0)
    }

    @Test func `a removed deadline does not fire`() async throws {
        let deadlines = Deadlines(clock)
        let first = add(10, to: deadlines)
        let second = add(20, to: deadlines)
        deadlines.cancel(first)
        try await clock.waitForSleepers(1)
        clock.advance(by: .seconds(20))
        try await wait(for: [20])
        deadlines.cancel(second)
        #expect(deadlines.count == 0)
    }

    @Test func `a task that sleeps for a removed deadline also sleeps for the next one`()
        async throws
    {
        let deadlines = Deadlines(clock)
        deadlines.cancel(add(10, to: deadlines))
        let later = add(20, to: deadlines)
        try await clock.waitForSleepers(1)
        clock.advance(by: .seconds(10))
        try await clock.waitForSleepers(1)
        #expect(called.value.isEmpty)
        clock.advance(by: .seconds(10))
        try await wait(for: [20])
        // An earlier deadline shortens the sleep.
        _ = add(20, to: deadlines)
        _ = add(5, to: deadlines)
        clock.advance(by: .seconds(5))
        try await wait(for: [20, 5])
        deadlines.cancel(later)
    }

    @Test func `no task sleeps after all deadlines have fired or were removed before the wake-up`()
        async throws
    {
        let deadlines = Deadlines(clock)
        deadlines.cancel(add(10, to: deadlines))
        try await clock.waitForSleepers(1)
        clock.advance(by: .seconds(10))
        try await clock.waitForNoSleepers()
        #expect(called.value.isEmpty && deadlines.count == 0)
    }

    @Test func `a deadline in the past fires`() async throws {
        let deadlines = Deadlines(clock)
        _ = add(0, to: deadlines)
        try await wait(for: [0])
        #expect(deadlines.count == 0)
    }

    @Test func `a wait ends at its deadline or with its task`() async throws {
        let deadlines = Deadlines(clock)
        let first = Task { await deadlines.sleep(for: .seconds(5)) }
        let second = Task { await deadlines.sleep(for: .seconds(9)) }
        try await eventually("both tasks wait") { deadlines.count == 2 }
        second.cancel()
        try await second.finished("the wait that was cancelled")
        #expect(deadlines.count == 1)
        clock.advance(by: .seconds(5))
        try await first.finished("the wait whose deadline has passed")
        #expect(deadlines.count == 0)
    }

    @Test func `deadlines that are close together fire together, after the first one`()
        async throws
    {
        let deadlines = Deadlines(clock)
        let second = Duration.seconds(1)
        for number in 0..<3 {
            _ = deadlines.add(at: second + .microseconds(number)) { [called] in
                called.withLock { $0.append(number) }
            }
        }
        try await clock.waitForSleepers(1)
        clock.advance(by: second)
        try await wait(for: [0])
        try await eventually("the next sleep") { clock.timeToNextWake == Deadlines.spacing }
        clock.advance(by: Deadlines.spacing)
        try await wait(for: [0, 1, 2])
        #expect(deadlines.count == 0)
    }
}
