import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineAuthority

/// A price in units of a quota, and in tokens once the quota is exhausted.
@Suite("Units or tokens", .bounded)
struct UnitsOrTokensTests {
    private let gate = WatchedState(false)
    private static let price = Price.quota("readings", otherwise: 5)

    private func function(_ price: Price = Self.price) -> ScriptedFunction {
        ScriptedFunction("f", FunctionRules(price: price, streams: true)) {
            [gate] input, context async throws(Problem) in
            try await gate.pass()
            guard input["fail"] == nil else { throw .upstreamFailed }
            await context.write("part", 4)
            guard input["cut"] == nil else { throw .upstreamFailed }
            return .init(output: "made", charge: .max)
        }
    }

    @Test func `units pay while there are some, then tokens`() async throws {
        let world = CallWorld(function())
        let who = try await world.account()
        gate.open()
        for number in 1...3 {
            let answer = await world.answer(who, "u\(number)")
            #expect(answer.charged == 0 && answer.body["quota"]?["used"]?.integer == Int64(number))
        }
        let answer = await world.answer(who, "t")
        #expect(answer.charged == 5 && answer.body["quota"] == nil)
        #expect(answer.body["tokensRemaining"] == 95)
        #expect(await world.answer(who, "t").isReplayed)
        #expect(try await world.used(who) == 3)
        #expect(try await world.isSound())
    }

    @Test func `tokens are held during the call, and released if it fails`() async throws {
        let function = function()
        let world = CallWorld(function)
        let who = try await world.account()
        gate.open()
        for number in 0..<3 { _ = await world.answer(who, "u\(number)") }
        gate.withLock { $0 = false }
        let call = Task { await world.answer(who, "t", ["fail": true]) }
        try await function.waitForRuns(4)
        #expect(try await world.balance(who).held == 5)
        gate.open()
        #expect(try await call.finished().code == "upstream_failed")
        let balance = try await world.balance(who)
        #expect((balance.available, balance.held) == (100, 0))
    }

    @Test(arguments: ChargeMoment.allCases)
    func `tokens instead of a unit are charged when the unit would be`(
        moment: ChargeMoment
    ) async throws {
        let world = CallWorld(function(Self.price.charged(moment)))
        let who = try await world.account()
        gate.open()
        for number in 0..<3 { _ = await world.answer(who, "u\(number)") }
        let heard = try await world.stream(who, "t", ["cut": true]).read()
        #expect(heard.body["charged"]?.integer == (moment == .onStart ? 5 : 0))
        #expect(try await world.balance(who).available == (moment == .onStart ? 95 : 100))
        #expect(try await world.isSound())
    }

    @Test(arguments: ChargeMoment.allCases)
    func `tokens instead of a unit are lost in a crash as the unit would be`(
        moment: ChargeMoment
    ) async throws {
        let (storage, wall, function) = (
            MemoryStorage(), ManualClock(), function(Self.price.charged(moment))
        )
        let world = CallWorld(function, over: storage, wall: wall)
        let who = try await world.account()
        gate.open()
        for number in 0..<3 { _ = await world.answer(who, "u\(number)") }
        gate.withLock { $0 = false }
        let call = Task { await world.answer(who, "t") }
        try await function.waitForRuns(4)
        world.storage.die()
        let next = CallWorld(self.function(), over: storage, wall: wall)
        _ = try await next.authority.recover()
        wall.advance(by: .seconds(3_600))
        _ = try await next.authority.expireHolds()
        let balance = try await next.balance(who)
        #expect(balance.available == (moment == .onStart ? 95 : 100) && balance.held == 0)
        #expect(try await next.isSound())
        call.cancel()
        gate.open()
    }

    @Test func `of two calls that compete for the last unit, one pays with it and one with tokens`()
        async throws
    {
        let world = CallWorld(function())
        let who = try await world.account()
        gate.open()
        for number in 0..<2 { _ = await world.answer(who, "u\(number)") }
        async let one = world.answer(who, "a")
        async let two = world.answer(who, "b")
        let charges = [await one.charged, await two.charged].compactMap(\.self).sorted()
        #expect(charges == [0, 5])
        #expect(try await world.used(who) == 3)
        #expect(try await world.balance(who).available == 95)
    }

    @Test func `a call that neither units nor tokens can pay for is refused with the time to wait`()
        async throws
    {
        let world = CallWorld(function())
        let who = try await world.account(tokens: 4)
        gate.open()
        for number in 0..<3 { _ = await world.answer(who, "u\(number)") }
        let refused = await world.answer(who, "t")
        #expect(refused.code == "insufficient_tokens")
        #expect(refused.problem?.required == 5 && refused.problem?.available == 4)
        #expect(refused.problem?.resetsAt == ManualClock.start + .seconds(43_200))
        world.wall.advance(by: .seconds(43_200))
        #expect(await world.answer(who, "t").charged == 0)
    }

    @Test func `a quote says whether the call would pay with units or tokens`() async throws {
        let world = CallWorld(function(.fixed(2).taking(1, of: "readings")))
        let otherwise = CallWorld(function())
        gate.open()
        let who = try await otherwise.account()
        func quote(_ world: CallWorld) async throws -> Quote {
            let request = FunctionRequest<JSONValue>(input: [:])
            return try await world.runner.quote("f", who, .success(request))
        }
        var found = try await quote(otherwise)
        #expect(found.hold == 0 && found.quota?.name == "readings")
        for number in 0..<3 { _ = await otherwise.answer(who, "u\(number)") }
        found = try await quote(otherwise)
        #expect(found.hold == 5 && found.estimate == 5 && found.quota == nil)
        _ = try await world.account()
        #expect(try await quote(world).quota?.units == 1)
    }

    @Test func `the list of functions names both prices and their moments`() throws {
        let list = FunctionDescription(
            name: "f",
            rules: FunctionRules(price: .fixed(7).taking(1, of: "readings")),
            inputs: [:]
        )
        #expect(list.price.charged == .onStart && list.price.quota?.charged == .onCompletion)
        let other = FunctionDescription(
            name: "f",
            rules: FunctionRules(price: Self.price.charged(.onStart)),
            inputs: [:]
        )
        #expect(other.price.amount == 0 && other.price.charged == nil)
        #expect(other.price.quota?.otherwise == 5 && other.price.quota?.charged == .onStart)
    }
}
