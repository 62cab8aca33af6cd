import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineAuthority

/// A jump of the wall clock ends no call that runs in this process.
@Suite("Clock jumps", .bounded(.seconds(60)))
struct ClockJumpTests {
    private let gate = WatchedState(false)

    private func function(streams: Bool = true) -> ScriptedFunction {
        let rules = FunctionRules(price: .fixed(500), streams: streams)
        var function = ScriptedFunction("f", rules) { [gate] _, context async throws(Problem) in
            await context.write("a", 1)
            try await gate.pass()
            return .init(output: "made", charge: 405)
        }
        function.cost = { _ in 4 }
        return function
    }

    @Test(arguments: [true, false])
    func `a call keeps its actual price after a jump of an hour`(streams: Bool) async throws {
        let function = function()
        let world = CallWorld(function)
        let who = try await world.account(tokens: 1_000)
        let call = Task { () -> Int64? in
            guard streams else { return await world.answer(who, "k").charged }
            return try await world.stream(who, "k").read().body["charged"]?.integer
        }
        try await function.waitForRuns(1)
        world.wall.advance(by: .seconds(3_600))
        #expect(try await world.runner.expireHolds() == 0)
        gate.open()
        #expect(try await call.finished() == 405)
        #expect(try await world.balance(who).available == 595)
        #expect(try await world.isSound())
    }

    @Test func `a call ends by its own limit, measured by a monotonic clock`()
        async throws
    {
        let function = function(streams: false)
        let world = CallWorld(function)
        let who = try await world.account(tokens: 1_000)
        let call = Task { await world.answer(who, "k") }
        try await function.waitForRuns(1)
        world.wall.advance(by: .seconds(3_600))
        world.delay.advance(by: .seconds(599))
        #expect(try await world.runner.expireHolds() == 0)
        world.delay.advance(by: .seconds(1))
        #expect(try await world.runner.expireHolds() == 1)
        gate.open()
        #expect(try await call.finished().code == "upstream_timeout")
        #expect(try await world.balance(who).available == 500)
        #expect(try await world.isSound())
    }

    @Test func `the hold of a call in another process expires by the wall clock`()
        async throws
    {
        let storage = MemoryStorage()
        let function = function()
        let first = CallWorld(function, over: storage)
        let who = try await first.account(tokens: 1_000)
        let call = Task { await first.answer(who, "k") }
        try await function.waitForRuns(1)
        let second = CallWorld(function, over: storage, wall: first.wall)
        #expect(await second.answer(who, "k").problem?.retryAfter == 60)
        first.wall.advance(by: .seconds(590))
        #expect(await second.answer(who, "k").problem?.retryAfter == 11)
        first.wall.advance(by: .seconds(10))
        #expect(try await second.runner.expireHolds() == 1)
        gate.open()
        _ = try await call.finished()
        #expect(try await second.isSound())
    }

    @Test func `a call that waits for its turn is sent after a jump`() async throws {
        let function = function(streams: false)
        let world = CallWorld(function, limits: .init(running: 4))
        let who = try await world.account(tokens: 1_000)
        let first = Task { await world.answer(who, "a") }
        try await function.waitForRuns(1)
        let second = Task { await world.answer(who, "b") }
        try await eventually("a call waits") { world.runner.counts.waiting == 1 }
        world.wall.advance(by: .seconds(3_600))
        #expect(try await world.runner.expireHolds() == 0)
        gate.open()
        #expect(try await first.finished().charged == 405)
        #expect(try await second.finished().charged == 405)
        #expect(try await world.balance(who).available == 190)
    }

    @Test func `a jump does not start a new minute of repetitions`() async throws {
        let rules = FunctionRules(price: .fixed(1), limits: FunctionLimits(repeatsPerMinute: 1))
        let world = CallWorld(ScriptedFunction("f", rules))
        let who = try await world.account()
        #expect(await world.answer(who, "a").status == 200)
        world.wall.advance(by: .seconds(3_600))
        #expect(await world.answer(who, "b").code == "rate_limited")
        world.delay.advance(by: .seconds(60))
        #expect(await world.answer(who, "b").status == 200)
    }

    @Test func `the parts of an active stream survive a jump of days`() async throws {
        let function = function()
        let world = CallWorld(function)
        let who = try await world.account(tokens: 1_000)
        let events = try await world.stream(who, "k")
        _ = try await events.read(1)
        try await world.waitForWaits(2)
        world.delay.advance(by: RunExecution.storeInterval)
        try await world.storage.state.wait(for: "a stored part") { !$0.parts.isEmpty }
        world.wall.advance(by: .seconds(10 * 86_400))
        _ = try await world.runner.sweep(limit: 100)
        let run = try #require(world.storage.state.value.parts.first?.run)
        #expect(try await world.authority.parts(of: run, from: 0, limit: 1).count == 1)
        gate.open()
        #expect(try await events.read().body["charged"] == 405)
        // Readers get the last event a moment before the run is removed from the running ones.
        await world.runner.waitUntilIdle()
        world.wall.advance(by: .seconds(10 * 86_400))
        world.delay.advance(by: .seconds(10 * 86_400))
        _ = try await world.runner.sweep(limit: 100)
        #expect(try await world.authority.parts(of: run, from: 0, limit: 1).isEmpty)
    }

    @Test func `a clock that is temporarily three days ahead removes no stored answer`()
        async throws
    {
        let world = CallWorld()
        let who = try await world.account(tokens: 100)
        let spend = Submission("spend", SpendRequest(amount: 3, reason: "tea"))
        let first = try await world.authority.spend(who.account, spend)
        #expect(try await world.runner.sweep(limit: 100) == 0)
        world.wall.advance(by: .seconds(3 * 86_400))
        for _ in 1...23 {
            #expect(try await world.runner.sweep(limit: 100) == 0)
            world.wall.advance(by: .seconds(3_600))
            world.delay.advance(by: .seconds(3_600))
        }
        world.wall.advance(by: .seconds(-3 * 86_400))
        #expect(try await world.runner.sweep(limit: 100) == 0)
        let again = try await world.authority.spend(who.account, spend)
        #expect(again.replayed && again.stored == first.stored)
        #expect(try await world.balance(who).available == 97)
    }

    @Test func `a jump of the clock affects the sweep after a day`()
        async throws
    {
        let world = CallWorld()
        let who = try await world.account(tokens: 100)
        let spend = Submission("spend", SpendRequest(amount: 3, reason: "tea"))
        _ = try await world.authority.spend(who.account, spend)
        _ = try await world.runner.sweep(limit: 100)
        world.wall.advance(by: .seconds(3 * 86_400))
        #expect(try await world.runner.sweep(limit: 100) == 0)
        world.wall.advance(by: .seconds(86_400))
        world.delay.advance(by: .seconds(86_400))
        #expect(try await world.runner.sweep(limit: 100) == 1)
        // The answer is removed, and its key still counts as used.
        let problem = await #expect(throws: Problem.self) {
            try await world.authority.spend(who.account, spend)
        }
        #expect(problem?.code == .idempotencyExpired)
        #expect(try await world.balance(who).available == 97)
    }

    @Test func `a further jump takes effect after another day`() {
        let start = Timestamp(millisecondsSince1970: 1_700_000_000_000)
        let hours = { (count: Int64) in Duration.seconds(count * 3_600) }
        var time = ConfirmedTime()
        #expect(time.read(start, at: .zero) == start)
        #expect(time.read(start + hours(2), at: .zero) == start)
        // Ten more days, shortly before the first jump takes effect.
        #expect(time.read(start + hours(265), at: hours(23)) == start + hours(23))
        #expect(time.read(start + hours(266), at: hours(24)) == start + hours(26))
        #expect(time.read(start + hours(289), at: hours(47)) == start + hours(49))
        #expect(time.read(start + hours(290), at: hours(48)) == start + hours(290))
    }

    @Test func `a clock that jumps every night lags by less than three nights`() {
        let start = Timestamp(millisecondsSince1970: 1_700_000_000_000)
        var time = ConfirmedTime()
        var lag = Duration.zero
        // The machine sleeps for 8 hours a day, and its elapsed time stops.
        for hour in 0..<(100 * 16) {
            let elapsed = Duration.seconds(hour * 3_600)
            let now = start + elapsed + .seconds(hour / 16 * 8 * 3_600)
            lag = max(lag, now - time.read(now, at: elapsed))
        }
        #expect(lag > .zero && lag <= .seconds(24 * 3_600))
    }

    @Test func `a file that is being added survives a jump`() async throws {
        let world = CallWorld()
        let who = try await world.account()
        let (wall, authority) = (world.wall, world.authority)
        let swept = WatchedState(-1)
        world.storage.state.withLock { state in
            state.delay = { keys in
                guard keys.contains(where: { if case .blob = $0 { true } else { false } }) else {
                    return
                }
                wall.advance(by: .seconds(7_200))
                let count = try? await authority.sweepBlobs(limit: 10)
                swept.withLock { $0 = count ?? -2 }
            }
        }
        let (facts, isNew) = try await authority.addBlob(
            SampleFile.png.bytes(),
            to: who.account
        )
        #expect(isNew && swept.value == 0)
        let id = try #require(BlobID(facts.id))
        #expect(try await !authority.readBlob(id, from: 0).isEmpty)
    }
}
