import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineAuthority

/// Calls that are cancelled after they were sent upstream, before anything is charged.
@Suite("Abandoned calls", .bounded)
struct AbandonedCallTests {
    private static let limit = CallLimits.abandonedCalls
    private static let units = Price.quota("readings")

    /// The steps of runs: 1 allows a part, 2 the end.
    private let steps = WatchedState(0)

    /// A function whose runs write a part at the first step, and end at the second.
    private func function(
        _ name: String = "f",
        _ price: Price = Self.units,
        payer: FunctionRules.Payer = .first,
        cache: ResultCache = .none
    ) -> ScriptedFunction {
        let rules = FunctionRules(
            price: price,
            cache: cache,
            payer: payer,
            streams: true,
            onDisconnect: .stop
        )
        return ScriptedFunction(name, rules) { [steps] input, context async throws(Problem) in
            if input["fail"] != nil { throw .upstreamFailed }
            try await steps.pass(1)
            await context.write("part", 4)
            try await steps.pass(2)
            return .init(output: "part", charge: .max)
        }
    }

    /// The way in which a caller ends a call before its first part.
    enum Way: CaseIterable {
        case request
        case hangUp
    }

    /// Makes calls, and ends them before their first part.
    private func abandon(
        _ count: Int,
        _ who: Identity,
        in world: CallWorld,
        _ function: ScriptedFunction,
        by way: Way = .request,
        prefix: String = "a"
    ) async throws {
        for number in 0..<count {
            let (runs, ends) = (function.runCount, world.reported.value.ended.count)
            let events = try await world.stream(who, "\(prefix)\(number)", of: function.name)
            try await function.waitForRuns(runs + 1)
            switch way {
            case .request:
                #expect(try await world.cancel(who, "\(prefix)\(number)").charged == 0)
            case .hangUp: events.close()
            }
            try await world.reported.wait(for: "the end of a call") { $0.ended.count > ends }
            withExtendedLifetime(events) {}
        }
        await world.runner.waitUntilIdle()
    }

    private func settings(readings: Int64) -> AuthoritySettings {
        var settings = AuthoritySettings()
        settings.quotas = ["readings": QuotaRule(limit: readings)]
        return settings
    }

    private func refusal(
        _ who: Identity,
        _ key: String,
        in world: CallWorld,
        of name: String = "f"
    ) async -> Problem? {
        await problem { () throws(Problem) in
            _ = try await world.call(who, key, of: name, as: .parts(after: nil))
        }
    }

    @Test(arguments: Way.allCases)
    func `an account at its limit of abandoned calls waits for its share of a day`(
        way: Way
    ) async throws {
        let function = function()
        let world = CallWorld(function)
        let who = try await world.account()
        try await abandon(Self.limit, who, in: world, function, by: way)
        #expect(try await world.used(who) == 0)
        let refusal = await self.refusal(who, "k", in: world)
        #expect(refusal?.code == .rateLimited && refusal?.status == 429)
        #expect(refusal?.retryAfter == 8_640 && function.runCount == Self.limit)
        #expect(try await world.used(who) == 0)
        world.delay.advance(by: .seconds(8_640))
        try await abandon(1, who, in: world, function, by: way, prefix: "b")
        #expect(await self.refusal(who, "l", in: world)?.code == .rateLimited)
    }

    @Test func `an abandoned call is found by its key although new calls are refused`()
        async throws
    {
        let function = function()
        let world = CallWorld(function)
        let who = try await world.account()
        try await abandon(Self.limit, who, in: world, function)
        let again = try await world.stream(who, "a0").read()
        #expect(again.code == "call_cancelled" && function.runCount == Self.limit)
    }

    @Test func `calls of other accounts and other functions are not refused`() async throws {
        let (function, other) = (function(), function("g"))
        let world = CallWorld(function, other)
        let (who, somebody) = (try await world.account(1), try await world.account(2))
        try await abandon(Self.limit, who, in: world, function)
        try await abandon(1, somebody, in: world, function, prefix: "b")
        try await abandon(1, who, in: world, other, prefix: "c")
        #expect(await refusal(who, "k", in: world)?.code == .rateLimited)
    }

    @Test func `calls that fail upstream and calls that are charged do not count`()
        async throws
    {
        let function = function()
        let world = CallWorld(function)
        let who = try await world.account()
        for number in 0...Self.limit {
            let heard = try await world.stream(who, "f\(number)", ["fail": true]).read()
            #expect(heard.code == "upstream_failed")
        }
        #expect(try await world.used(who) == 0)
        // Cancelled after a part, which is charged.
        steps.allow(1)
        let events = try await world.stream(who, "p")
        _ = try await events.read(1)
        _ = try await world.cancel(who, "p")
        steps.allow(2)
        #expect(await world.answer(who, "w").output == "part")
        #expect(try await world.used(who) == 2)
    }

    @Test func `a call that is cancelled while it waits for its turn does not count`() async throws
    {
        let function = function()
        let world = CallWorld(function, limits: CallRunner.Limits(running: 4))
        let who = try await world.account()
        let first = try await world.stream(who, "first")
        try await function.waitForRuns(1)
        for number in 0..<Self.limit {
            let events = try await world.stream(who, "w\(number)")
            #expect(try await world.cancel(who, "w\(number)").charged == 0)
            events.close()
        }
        steps.allow(2)
        #expect(try await first.read().status == 200)
        #expect(await world.answer(who, "k").output == "part")
        #expect(function.runCount == 2)
    }

    @Test func `a larger daily quota raises the limit of abandoned calls`() async throws {
        let function = function("f", .free.taking(2, of: "readings"))
        let settings = settings(readings: 40)
        let world = CallWorld(function, settings: settings)
        let who = try await world.account()
        try await abandon(20, who, in: world, function)
        let refusal = await self.refusal(who, "k", in: world)
        #expect(refusal?.code == .rateLimited && refusal?.retryAfter == 4_320)
    }

    @Test func `tokens instead of units are limited like units`() async throws {
        let function = function("f", .quota("readings", otherwise: 5))
        let settings = settings(readings: 1)
        let world = CallWorld(function, settings: settings)
        let who = try await world.account()
        steps.allow(2)
        #expect(await world.answer(who, "u").output == "part")
        steps.allow(0)
        try await abandon(Self.limit, who, in: world, function)
        #expect(await refusal(who, "k", in: world)?.code == .rateLimited)
        #expect(try await world.balance(who).available == 100)
    }

    @Test func `an account whose plan lifts the quota may abandon any number of calls`()
        async throws
    {
        let function = function()
        let world = CallWorld(function)
        let who = try await world.account()
        try await world.change(who.account) { $0.plan = .premium }
        try await abandon(2 * Self.limit, who, in: world, function)
        steps.allow(2)
        #expect(await world.answer(who, "k").output == "part")
    }

    private static let paid: [Price] = [
        .quota("readings").charged(.onStart), .fixed(1), .free,
        .fixed(1).taking(1, of: "readings"),
    ]

    @Test(arguments: paid)
    func `only priced calls that are abandoned without a charge are limited`(price: Price) {
        #expect(price.abandonedCalls(of: ["readings": 3]) == nil)
        #expect(Price.fixed(1).charged(.onCompletion).abandonedCalls(of: [:]) == 10)
        #expect(Self.units.abandonedCalls(of: ["readings": 3]) == 10)
        #expect(Self.units.abandonedCalls(of: ["readings": 30]) == 30)
    }

    @Test func `two accounts that share runs and cancel their calls in turn are both counted`()
        async throws
    {
        let function = function(payer: .each, cache: .forever.public())
        let world = CallWorld(function)
        let (one, two) = (try await world.account(1), try await world.account(2))
        for number in 0..<Self.limit {
            let leading = try await world.stream(one, "k\(number)")
            try await function.waitForRuns(number + 1)
            let following = try await world.stream(two, "k\(number)")
            // The first cancellation leaves the run to the other call, whose cancellation ends it.
            #expect(try await world.cancel(one, "k\(number)").charged == 0)
            #expect(try await world.cancel(two, "k\(number)").charged == 0)
            await world.runner.waitUntilIdle()
            withExtendedLifetime((leading, following)) {}
        }
        for who in [one, two] {
            #expect(await refusal(who, "k", in: world)?.code == .rateLimited)
        }
    }

    @Test func `beyond the capacity, the account with the fewest abandoned calls is forgotten`()
        async throws
    {
        let calls = AbandonedCalls()
        func isRefused(_ number: UInt64) async -> Bool {
            await problem { () throws(Problem) in
                try calls.check("f", .numbered(number), limit: 10, at: .zero)
            } != nil
        }
        for _ in 0..<10 { calls.add("f", .numbered(0), limit: 10, at: .zero) }
        for number in 1...UInt64(CallLimits.abandoningAccounts) + 10 {
            calls.add("f", .numbered(number), limit: 10, at: .zero)
        }
        #expect(calls.count == CallLimits.abandoningAccounts)
        #expect(await isRefused(0))
        // After a day, all counts have decayed and make room for others.
        calls.add("f", .numbered(0), limit: 10, at: .seconds(200_000))
        #expect(calls.count == CallLimits.abandoningAccounts)
        calls.add("g", .numbered(0), limit: 10, at: .seconds(200_000))
        #expect(calls.count == 2)
    }
}
