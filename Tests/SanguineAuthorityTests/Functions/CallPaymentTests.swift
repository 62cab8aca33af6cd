import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineAuthority

/// The payment of calls, and refunds.
@Suite("Payment of calls", .bounded(.seconds(60)))
struct CallPaymentTests {
    private let gate = WatchedState(false)

    private func function(_ price: Price, charge: Int64 = .max) -> ScriptedFunction {
        ScriptedFunction("f", FunctionRules(price: price)) {
            [gate] input, _ async throws(Problem) in
            try await gate.pass()
            guard input["fail"] == nil else { throw .upstreamFailed }
            return .init(output: "made", charge: charge)
        }
    }

    @Test func `as many of a thousand concurrent calls succeed as the balance covers`() async throws
    {
        let world = CallWorld(function(.fixed(1)), limits: .init(running: 4_000))
        let who = try await world.account(tokens: 100)
        gate.open()
        let answers = await withTaskGroup(of: CallAnswer.self) { group in
            for number in 0..<1_000 {
                group.addTask {
                    await world.answer(who, "k\(number)", ["n": .integer(Int64(number))])
                }
            }
            var answers: [CallAnswer] = []
            for await answer in group { answers.append(answer) }
            return answers
        }
        #expect(answers.count { $0.status == 200 } == 100)
        #expect(answers.count { $0.code == "insufficient_tokens" } == 900)
        let balance = try await world.balance(who)
        #expect((balance.available, balance.held) == (0, 0))
        #expect(try await world.isSound())
    }

    @Test func `a plain call takes two commits and no read`() async throws {
        let world = CallWorld(function(.fixed(1)))
        let who = try await world.account()
        gate.open()
        #expect(await world.answer(who, "k").status == 200)
        #expect(world.storage.commits == 2)
        #expect(world.storage.state.value.reads == 0)
    }

    @Test func `a free call is stored no longer than its answer`() async throws {
        let world = CallWorld(function(.free, charge: 0))
        let who = try await world.account()
        gate.open()
        let answer = await world.answer(who, "k")
        #expect(answer.status == 200 && answer.charged == 0)
        world.wall.advance(by: .seconds(49 * 3_600))
        #expect(try await world.authority.sweep() == 1)
        let position = OperationPosition(account: who.account, key: "k")
        #expect(try await world.authority.operation(position) == nil)
    }

    // MARK: - Quotas

    @Test func `a unit of a quota is held with the call, and used by it`() async throws {
        let function = function(.quota("readings"))
        let world = CallWorld(function)
        let who = try await world.account()
        let call = Task { await world.answer(who, "k") }
        try await function.waitForRuns(1)
        #expect(try await world.used(who) == 1)
        gate.open()
        let answer = try await call.finished()
        #expect(answer.charged == 0 && answer.body["quota"]?["remaining"] == 2)
        #expect(try await world.used(who) == 1)
        #expect(try await world.balance(who).available == 100)
    }

    @Test func `a failed call returns its unit`() async throws {
        let world = CallWorld(function(.quota("readings")))
        let who = try await world.account()
        gate.open()
        for number in 0..<5 {
            #expect(await world.answer(who, "k\(number)", ["fail": true]).code == "upstream_failed")
        }
        #expect(try await world.used(who) == 0)
        #expect(await world.answer(who, "well").status == 200)
    }

    @Test func `an exhausted quota refuses a call and says when it resets`() async throws {
        let world = CallWorld(function(.quota("readings", units: 2)))
        let who = try await world.account()
        gate.open()
        #expect(await world.answer(who, "a").status == 200)
        let refused = await world.answer(who, "b")
        #expect(refused.code == "quota_exhausted")
        #expect(refused.problem?.resetsAt == ManualClock.start + .seconds(43_200))
        #expect(try await world.used(who) == 2)
    }

    @Test func `two concurrent calls compete for the last unit, and one gets it`() async throws {
        let world = CallWorld(function(.quota("readings", units: 3)))
        let who = try await world.account()
        gate.open()
        async let one = world.answer(who, "a")
        async let two = world.answer(who, "b")
        let codes = [await one.code, await two.code]
        #expect(codes.count { $0 == nil } == 1 && codes.contains("quota_exhausted"))
    }

    @Test func `a quota and tokens are charged together or not at all`() async throws {
        let world = CallWorld(function(.fixed(5).taking(1, of: "readings")))
        let (who, poor) = (try await world.account(1), try await world.account(2, tokens: 4))
        gate.open()
        #expect(await world.answer(poor, "a").code == "insufficient_tokens")
        #expect(try await world.used(poor) == 0)
        #expect(await world.answer(who, "a", ["fail": true]).code == "upstream_failed")
        #expect(try await world.balance(who).available == 100)
        for key in ["b", "c", "d"] { #expect(await world.answer(who, key).charged == 5) }
        #expect(await world.answer(who, "e").code == "quota_exhausted")
        #expect(try await world.balance(who).available == 85)
        #expect(try await world.isSound())
    }

    @Test(arguments: [true, false])
    func `units held across midnight belong to the day on which they were used`(
        fails: Bool
    ) async throws {
        let function = function(.quota("readings"))
        let world = CallWorld(function)
        let who = try await world.account()
        world.wall.set(ManualClock.start + .seconds(43_199))
        let late = Task { await world.answer(who, "late", fails ? ["fail": true] : [:]) }
        try await function.waitForRuns(1)
        #expect(try await world.used(who) == 1)
        world.wall.advance(by: .seconds(2))
        #expect(try await world.used(who) == 0)
        let early = Task { await world.answer(who, "early") }
        try await function.waitForRuns(2)
        #expect(try await world.used(who) == 1)
        gate.open()
        _ = try await late.finished()
        _ = try await early.finished()
        // Units of the old day are not returned to the new one.
        #expect(try await world.used(who) == 1)
    }

    @Test func `a change of the time zone grants no units, held or not`() async throws {
        let function = function(.quota("readings"))
        let world = CallWorld(function)
        let who = try await world.account()
        let calls = (0..<3).map { number in
            Task { await world.answer(who, "k\(number)", number == 0 ? ["fail": true] : [:]) }
        }
        try await function.waitForRuns(3)
        for zone in ["Pacific/Kiritimati", "Pacific/Pago_Pago", "UTC", "Asia/Tokyo"] {
            try await world.change(who.account) { $0.timeZone = zone }
            #expect(try await world.used(who) == 3)
            #expect(await world.answer(who, "in \(zone)").code == "quota_exhausted")
        }
        gate.open()
        for call in calls { _ = try await call.finished() }
        // The failed call's unit returns to its own day, which is still that of the period.
        #expect(try await world.used(who) == 2)
    }

    // MARK: - Expired holds

    @Test func `a hold that expires during a run is charged once, and a late end changes nothing`()
        async throws
    {
        var function = function(.fixed(5), charge: 1)
        function.life = .seconds(1)
        var settings = AuthoritySettings()
        settings.holdLife = .seconds(1)
        let world = CallWorld(function, settings: settings)
        let who = try await world.account()
        let call = Task { await world.answer(who, "k") }
        try await function.waitForRuns(1)
        world.wall.advance(by: .seconds(1))
        #expect(try await world.authority.expireHolds() == 1)
        #expect(try await world.balance(who).available == 95)
        gate.open()
        let late = try await call.finished()
        #expect(late.code == "upstream_timeout" && late.charged == 5)
        #expect(try await world.balance(who).available == 95)
        #expect(await world.answer(who, "k").isReplayed)
        #expect(try await world.isSound())
    }

    @Test func `the hold of a call that waits for its turn lasts for the wait and the run`()
        async throws
    {
        let function = function(.fixed(5))
        let world = CallWorld(function, limits: .init(running: 4, queueTime: .seconds(900)))
        let who = try await world.account()
        let first = Task { await world.answer(who, "a") }
        try await function.waitForRuns(1)
        let second = Task { await world.answer(who, "b") }
        try await eventually("a call waits") { world.runner.counts.waiting == 1 }
        world.wall.advance(by: .seconds(950))
        #expect(try await world.authority.expireHolds() == 1)
        #expect(try await world.balance(who).held == 5)
        gate.open()
        _ = try await first.finished()
        #expect(try await second.finished().status == 200)
    }
}
