import HostileUpstream
import SanguineModel
import SanguineTesting
import Synchronization
import TestSupport
import Testing

@testable import SanguineServer

/// Which upstream is called, and when the next one is.
@Suite("Upstream fallback", .bounded)
struct UpstreamFallbackTests {
    private typealias Fault = HostileUpstream.Fault

    @Test(
        arguments: [
            .refuses(status: 401), .refuses(status: 403), .refuses(status: 404),
            .refuses(status: 429),
            .refuses(status: 500), .refuses(status: 503), .garbage, .cut(bytes: 0),
            .reset(bytes: 0),
        ] as [HostileUpstream.Fault],
        [true, false]
    )
    func `a failure before any output falls back`(
        fault: HostileUpstream.Fault,
        streamed: Bool
    ) async throws {
        try await UpstreamWorld.with([{ _ in fault }, { _ in .none }]) { world in
            let asked = await world.ask(streamed: streamed)
            #expect(asked.answer?.text == HostileAnswer(to: "id=a words=5").text)
            #expect(world.asked == ["u1", "u2"])
        }
    }

    @Test(arguments: [400, 413, 422])
    func `a failure of the request itself does not fall back`(status: Int) async throws {
        try await UpstreamWorld.with([{ _ in .refuses(status: status) }, { _ in .none }]) { world in
            let error = await world.ask().error?.withoutWords
            #expect(error == .refused(status: status, retryAfterSeconds: nil))
            #expect(world.asked == ["u1"])
        }
    }

    @Test(arguments: [.cut(bytes: 600), .errorInStream(words: 2)] as [HostileUpstream.Fault])
    func `a failure after the first output does not fall back`(
        fault: HostileUpstream.Fault
    ) async throws {
        try await UpstreamWorld.with([{ _ in fault }, { _ in .none }]) { world in
            let asked = await world.ask()
            #expect(asked.error != nil)
            #expect(!asked.pieces.isEmpty)
            #expect(world.asked == ["u1"])
            #expect(world.upstreams[1].total.requests == 0)
        }
    }

    @Test func `an unreachable upstream falls back`() async throws {
        try await UpstreamWorld.with([{ _ in .none }, { _ in .none }]) { world in
            try await world.upstreams[0].close()
            #expect(await world.ask().answer != nil)
            #expect(world.outcomes == [.failed, .answered])
        }
    }

    @Test func `an upstream's own timeout leaves time for the next`() async throws {
        let timeouts: [Duration] = [.seconds(15), .seconds(60)]
        try await UpstreamWorld.with(
            [{ _ in .silence }, { _ in .none }],
            timeouts: timeouts
        ) { world in
            async let asked = world.ask(within: .seconds(60))
            try await world.upstreams[0].state.wait(for: "the request") { $0.requests == 1 }
            try await world.clock.waitForSleepers(1)
            world.clock.advance(by: .seconds(15))
            #expect(await asked.answer != nil)
            #expect(world.outcomes == [.timeout, .answered])
        }
    }

    @Test func `the timeout includes fallbacks`() async throws {
        try await UpstreamWorld.with(
            [{ _ in .silence }, { _ in .silence }],
            timeouts: [.seconds(15), .seconds(60)]
        ) { world in
            async let asked = world.ask(within: .seconds(20))
            try await world.upstreams[0].state.wait(for: "the first request") { $0.requests == 1 }
            try await world.clock.waitForSleepers(1)
            world.clock.advance(by: .seconds(15))
            try await world.upstreams[1].state.wait(for: "the second request") { $0.requests == 1 }
            try await world.clock.waitForSleepers(1)
            world.clock.advance(by: .seconds(5))
            #expect(await asked.error == .timeout(mayHaveBeenSent: true))
        }
    }

    @Test func `a call whose time is up calls no upstream`() async throws {
        try await UpstreamWorld.with(.none) { world in
            #expect(await world.ask(within: .zero).error == .timeout(mayHaveBeenSent: false))
            #expect(world.asked.isEmpty)
        }
    }

    @Test func `the reported error is that of the upstream that may have done work`()
        async throws
    {
        try await UpstreamWorld.with([{ _ in .cut(bytes: 0) }, { _ in .refuses(status: 500) }]) {
            world in
            #expect(await world.ask().error == .failed(mayHaveBeenSent: true))
            #expect(world.outcomes == [.failed, .refused])
        }
    }

    @Test func `only the named upstreams are called, in the order of the names`() async throws {
        let faults: [@Sendable (HostileUpstream.Request) -> HostileUpstream.Fault] = [
            { _ in .none }, { _ in .none }, { _ in .refuses(status: 500) },
        ]
        try await UpstreamWorld.with(faults) { world in
            #expect(await world.ask(among: ["u3", "nobody", "u2"]).answer != nil)
            #expect(world.asked == ["u3", "u2"])
        }
    }

    @Test func `each upstream gets its own model, unless the prompt names one`() async throws {
        let models = Mutex<[String?]>([])
        try await UpstreamWorld.with([
            { request in
                models.withLock { $0.append(request.body["model"]?.string) }
                return request.number == 1 ? .refuses(status: 500) : .none
            },
            { request in
                models.withLock { $0.append(request.body["model"]?.string) }
                return .none
            },
        ]) { world in
            _ = await world.ask()
            var prompt = UpstreamWorld.prompt("id=b")
            prompt.model = "special"
            _ = try await world.pool.answer(.prompt(prompt), within: .seconds(9))
            #expect(models.withLock { $0 } == ["m-1", "m-2", "special"])
        }
    }

    // MARK: - Breakers

    @Test func `an upstream is skipped after five failures`() async throws {
        try await UpstreamWorld.with([{ _ in .refuses(status: 500) }, { _ in .none }]) { world in
            for _ in 0..<7 { #expect(await world.ask().answer != nil) }
            #expect(world.upstreams[0].total.requests == 5)
            #expect(world.upstreams[1].total.requests == 7)
            #expect(world.reported.withLock { $0.phases } == [.open])
            #expect(world.pool.phases.map(\.phase) == [.open, .closed])
        }
    }

    @Test func `a call with all breakers open is refused and calls no upstream`() async throws {
        try await UpstreamWorld.with(.refuses(status: 500)) { world in
            #expect(world.pool.unavailable() == nil)
            for _ in 0..<5 { _ = await world.ask() }
            let problem = world.pool.unavailable()
            #expect(problem?.code == .overloaded)
            #expect(problem?.status == 503)
            #expect(problem?.retryAfter == 5)
            #expect(await world.ask().error == .unavailable(retryAfterSeconds: 5))
            #expect(world.upstreams[0].total.requests == 5)
        }
    }

    @Test func `an excluded account can be refused before its call, and no other account is`()
        async throws
    {
        try await UpstreamWorld.with(.refuses(status: 500)) { world in
            let numbers = 1...2 as ClosedRange<Int64>
            let accounts = numbers.map { Identifier(at: Timestamp(millisecondsSince1970: $0)) }
            for _ in 0..<7 { _ = await world.ask(for: accounts[0]) }
            #expect(world.upstreams[0].total.requests == 5)
            let problem = world.pool.unavailable(for: accounts[0])
            #expect(problem?.code == .overloaded && problem?.retryAfter == 5)
            #expect(world.pool.unavailable(for: accounts[1]) == nil)
            #expect(world.pool.unavailable() == nil)
        }
    }

    @Test func `a pool without upstreams reports that it has none`() {
        let pool = Upstreams([])
        #expect(pool.unavailable()?.code == .upstreamMissing)
    }

    @Test func `exactly one of several concurrent calls probes an open upstream`() async throws {
        let isWell = Mutex(false)
        let gate = WatchedState(false)
        try await UpstreamWorld.with([
            { _ in
                isWell.withLock { $0 } ? .none : .refuses(status: 500)
            }
        ]) { world in
            for _ in 0..<5 { _ = await world.ask() }
            isWell.withLock { $0 = true }
            world.clock.advance(by: .seconds(5))
            let probing = WatchedState(0)
            async let probe = world.ask { _ in
                probing.withLock { $0 += 1 }
                try? await gate.wait(for: "refusals of the other calls") { $0 }
            }
            try await probing.wait(for: "the probe") { $0 == 1 }
            for _ in 0..<10 {
                #expect(await world.ask().error == .unavailable(retryAfterSeconds: 1))
            }
            gate.withLock { $0 = true }
            #expect(await probe.answer != nil)
            #expect(world.pool.phases[0].phase == .closed)
            #expect(await world.ask().answer != nil)
            #expect(world.reported.withLock { $0.phases } == [.open, .halfOpen, .closed])
        }
    }

    @Test func `a failed probe opens the breaker again for longer`() async throws {
        try await UpstreamWorld.with(.refuses(status: 500)) { world in
            for _ in 0..<5 { _ = await world.ask() }
            world.clock.advance(by: .seconds(5))
            let error = await world.ask().error?.withoutWords
            #expect(error == .refused(status: 500, retryAfterSeconds: nil))
            #expect(world.pool.unavailable()?.retryAfter == 10)
        }
    }

    @Test(arguments: [400, 404, 422])
    func `invalid requests do not open the breaker`(status: Int) async throws {
        try await UpstreamWorld.with(.refuses(status: status)) { world in
            for _ in 0..<30 { _ = await world.ask() }
            #expect(world.pool.unavailable() == nil)
            #expect(world.upstreams[0].total.requests == 30)
        }
    }

    @Test(
        arguments: [
            ("1500", nil, .milliseconds(1_500)), ("0.4", nil, .milliseconds(1)),
            ("250", "7", .milliseconds(250)), ("soon", "7", .seconds(7)),
            ("-1", "7", .seconds(7)), (nil, "0.5", .milliseconds(500)),
            ("nan", nil, nil), (nil, nil, nil),
        ] as [(String?, String?, Duration?)]
    )
    func `retry-after-ms precedes Retry-After if it is valid`(
        milliseconds: String?,
        seconds: String?,
        pause: Duration?
    ) {
        let now = Timestamp(millisecondsSince1970: 784_111_777_000)
        let found = UpstreamRefusal.pause(milliseconds: milliseconds, seconds: seconds, now: now)
        #expect(found == pause)
    }

    @Test func `Retry-After pauses the upstream, and the next one takes over`() async throws {
        try await UpstreamWorld.with([
            { $0.number == 1 ? .refuses(status: 429, retryAfter: "30") : .none },
            { _ in .none },
        ]) { world in
            for _ in 0..<3 { #expect(await world.ask().answer != nil) }
            #expect(world.asked == ["u1", "u2", "u2", "u2"])
            #expect(world.pool.unavailable(["u1"])?.retryAfter == 30)
            world.clock.advance(by: .seconds(30))
            #expect(await world.ask().answer != nil)
            #expect(world.asked.last == "u1")
        }
    }

    @Test func `a caller with too short a timeout does not open the breaker for others`()
        async throws
    {
        try await UpstreamWorld.with(.silence) { world in
            for number in 1...8 {
                async let asked = world.ask(within: .seconds(1))
                try await world.upstreams[0].state.wait(for: "the request") {
                    $0.requests == number
                }
                try await world.clock.waitForSleepers(1)
                world.clock.advance(by: .seconds(1))
                #expect(await asked.error == .timeout(mayHaveBeenSent: true))
            }
            #expect(world.pool.unavailable() == nil)
        }
    }

    @Test func `a silence of ten seconds counts as a failure`() async throws {
        try await UpstreamWorld.with(.silence) { world in
            for number in 1...5 {
                async let asked = world.ask(within: .seconds(10))
                try await world.upstreams[0].state.wait(for: "the request") {
                    $0.requests == number
                }
                try await world.clock.waitForSleepers(1)
                world.clock.advance(by: .seconds(10))
                #expect(await asked.error == .timeout(mayHaveBeenSent: true))
            }
            #expect(world.pool.unavailable()?.code == .overloaded)
        }
    }

    @Test func `the time to the first byte is reported`() async throws {
        try await UpstreamWorld.with([
            { $0.number == 1 ? .refuses(status: 500) : .none }, { _ in .silence },
        ]) { world in
            _ = await world.ask(among: ["u1"])
            _ = await world.ask(among: ["u1"], streamed: false)
            let times = world.reported.withLock { $0.firstBytes }
            #expect(times == [.zero, .zero])
            #expect(world.outcomes == [.refused, .answered])
        }
    }

    @Test(arguments: 1...40 as ClosedRange<UInt64>)
    func `an answer is complete and from one upstream under all faults`(seed: UInt64) async throws {
        let faults = (0..<3).map { HostileUpstream.Fault.seeded(seed * 3 + $0) }
        try await UpstreamWorld.with(faults) { world in
            for number in 0..<12 {
                let prompt = "id=\(seed)-\(number) words=15"
                let asked = await world.ask(prompt)
                let honest = HostileAnswer(to: prompt).text
                #expect(honest.hasPrefix(asked.pieces.joined()))
                if let answer = asked.answer {
                    #expect(answer.text == honest)
                    #expect(asked.pieces.joined() == honest)
                }
                world.clock.advance(by: .milliseconds(500))
            }
            // Every attempt has reported its end, so no breaker is half-open.
            world.clock.advance(by: .seconds(300))
            #expect(world.pool.unavailable() == nil)
            let billed = world.upstreams.map(\.total.requests).reduce(0, +)
            // A request that takes a connection at the moment of its reset does not arrive.
            #expect(world.asked.count >= billed)
        }
    }
}
