import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineAuthority

/// When units and flat prices are charged, for every way in which a call can end.
@Suite("Flat prices", .bounded)
struct ChargeMomentTests {
    private let steps = WatchedState(0)

    /// The price of a call: two units and seven tokens, charged at the moment.
    private static func price(_ moment: ChargeMoment) -> Price {
        Price.fixed(7).taking(2, of: "readings").charged(moment)
    }

    /// A function with a part for each step, which fails as its input says.
    private func function(
        _ price: Price,
        _ onDisconnect: FunctionRules.Disconnect = .stop
    ) -> ScriptedFunction {
        let rules = FunctionRules(price: price, streams: true, onDisconnect: onDisconnect)
        return ScriptedFunction("f", rules) { [steps] input, context async throws(Problem) in
            for number in 0..<3 {
                try await steps.pass(number + 1)
                if input["failAt"]?.integer == Int64(number) { throw .upstreamFailed }
                if input["late"] != nil, number == 2 { throw .upstreamTooSlow }
                await context.write("p\(number) ", 3)
            }
            return .init(output: "whole", charge: .max)
        }
    }

    private func spent(_ world: CallWorld, _ who: Identity) async throws -> [Int64] {
        #expect(try await world.isSound())
        let balance = try await world.balance(who)
        #expect(balance.held == 0)
        return [100 - balance.available, try await world.used(who)]
    }

    private static let nothing: [Int64] = [0, 0]
    private static let all: [Int64] = [7, 2]

    // MARK: - Ends in the process

    @Test(arguments: ChargeMoment.allCases)
    func `a complete answer is charged`(moment: ChargeMoment) async throws {
        let world = CallWorld(function(Self.price(moment)))
        let who = try await world.account()
        steps.allow(3)
        #expect(await world.answer(who, "k").charged == 7)
        #expect(try await spent(world, who) == Self.all)
    }

    @Test(arguments: ChargeMoment.allCases, [true, false])
    func `a failure before the first part is free`(
        moment: ChargeMoment,
        isStreamed: Bool
    ) async throws {
        let world = CallWorld(function(Self.price(moment)))
        let who = try await world.account()
        steps.allow(3)
        if isStreamed {
            let heard = try await world.stream(who, "k", ["failAt": 0]).read()
            #expect(heard.code == "upstream_failed")
        } else {
            #expect(await world.answer(who, "k", ["failAt": 0]).code == "upstream_failed")
        }
        #expect(try await spent(world, who) == Self.nothing)
    }

    @Test(arguments: ChargeMoment.allCases, [["failAt": 1], ["late": true]] as [JSONValue])
    func `a failure or timeout after the first part is charged only with onStart`(
        moment: ChargeMoment,
        input: JSONValue
    ) async throws {
        let world = CallWorld(function(Self.price(moment)))
        let who = try await world.account()
        steps.allow(3)
        let heard = try await world.stream(who, "k", input).read()
        #expect(heard.status == 502 || heard.status == 504)
        #expect(heard.body["charged"]?.integer == (moment == .onStart ? 7 : 0))
        #expect(try await spent(world, who) == (moment == .onStart ? Self.all : Self.nothing))
    }

    @Test func `a unit is returned after a failure although the tokens are charged`()
        async throws
    {
        let world = CallWorld(function(.fixed(7).taking(2, of: "readings")))
        let who = try await world.account()
        steps.allow(3)
        let heard = try await world.stream(who, "k", ["failAt": 2]).read()
        #expect(heard.body["charged"] == 7)
        #expect(try await spent(world, who) == [7, 0])
    }

    @Test(arguments: ChargeMoment.allCases, [0, 1])
    func `a cancelled call is charged after its first part, or with onStart`(
        moment: ChargeMoment,
        parts: Int
    ) async throws {
        let function = function(Self.price(moment))
        let world = CallWorld(function)
        let who = try await world.account()
        let events = try await world.stream(who, "k")
        try await function.waitForRuns(1)
        steps.allow(parts)
        if parts > 0 { _ = try await events.read(parts) }
        let ending = try await world.cancel(who, "k")
        let isCharged = moment == .onStart || parts > 0
        #expect(ending.charged == (isCharged ? 7 : 0))
        #expect(try await spent(world, who) == (isCharged ? Self.all : Self.nothing))
    }

    @Test(arguments: ChargeMoment.allCases, [0, 1])
    func `a disconnect that stops the run is charged like a cancellation`(
        moment: ChargeMoment,
        parts: Int
    ) async throws {
        let function = function(Self.price(moment), .stop)
        let world = CallWorld(function)
        let who = try await world.account()
        var events: CallEventStream? = try await world.stream(who, "k")
        try await function.waitForRuns(1)
        steps.allow(parts)
        if parts > 0 { _ = try await events?.read(parts) }
        events?.close()
        events = nil
        await world.runner.waitUntilIdle()
        let isCharged = moment == .onStart || parts > 0
        #expect(try await spent(world, who) == (isCharged ? Self.all : Self.nothing))
    }

    @Test func `a call that is cancelled while it waits for its turn is free, even with onStart`()
        async throws
    {
        let function = function(Price.fixed(7).taking(1, of: "readings").charged(.onStart))
        let world = CallWorld(function, limits: .init(running: 4))
        let who = try await world.account()
        let first = try await world.stream(who, "a")
        let second = try await world.stream(who, "b")
        try await eventually("a call waits") { world.runner.counts.waiting == 1 }
        #expect(try await world.cancel(who, "b").charged == 0)
        #expect(try await second.read().code == "call_cancelled")
        #expect(try await world.cancel(who, "a").charged == 7)
        _ = try await first.read()
        #expect(try await spent(world, who) == [7, 1])
    }

    // MARK: - Crashes

    @Test func `an uncharged lost call in one piece can run again with its key`()
        async throws
    {
        let rules = FunctionRules(price: Self.price(.onCompletion))
        let function = { [steps] in
            ScriptedFunction("f", rules) { _, _ async throws(Problem) in
                try await steps.pass(1)
                return .init(output: "whole", charge: .max)
            }
        }
        let (storage, first) = (MemoryStorage(), function())
        let world = CallWorld(first, over: storage)
        let who = try await world.account()
        let call = Task { _ = await world.answer(who, "k") }
        try await first.waitForRuns(1)
        world.storage.die()

        let next = CallWorld(function(), over: storage)
        _ = try await next.authority.recover()
        let row = try await next.authority.operation(.init(account: who.account, key: "k"))
        guard case .done(let reported) = row?.state else {
            Issue.record("The call has not ended.")
            return
        }
        #expect(JSONValue(bytes: reported.body)["code"] == "upstream_timeout")
        #expect(JSONValue(bytes: reported.body)["charged"] == nil)
        steps.allow(1)
        #expect(await next.answer(who, "k").charged == 7)
        #expect(await next.answer(who, "k").charged == 7)
        #expect(try await spent(next, who) == Self.all)
        call.cancel()
    }

    @Test(arguments: ChargeMoment.allCases, [true, false])
    func `a call that is lost in a crash is charged only with onStart`(
        moment: ChargeMoment,
        isStreamed: Bool
    ) async throws {
        let storage = MemoryStorage()
        let wall = ManualClock()
        let function = function(Self.price(moment))
        let world = CallWorld(function, over: storage, wall: wall)
        let who = try await world.account()
        let call: Task<Void, any Error>
        if isStreamed {
            let events = try await world.stream(who, "k")
            call = Task { _ = try await events.read() }
        } else {
            call = Task { _ = await world.answer(who, "k") }
        }
        try await function.waitForRuns(1)
        world.storage.die()

        let next = CallWorld(self.function(Self.price(moment)), over: storage, wall: wall)
        _ = try await next.authority.recover()
        if moment == .onCompletion {
            // Recovery ends the call, and returns the unit at once.
            #expect(try await spent(next, who) == Self.nothing)
        }
        wall.advance(by: .seconds(3_600))
        _ = try await next.authority.expireHolds()
        #expect(try await spent(next, who) == (moment == .onStart ? Self.all : Self.nothing))
        let row = try await next.authority.operation(.init(account: who.account, key: "k"))
        if case .done(let answer) = row?.state {
            let charged = JSONValue(bytes: answer.body)["charged"]?.integer
            // An uncharged call in one piece can run again with its key.
            #expect(charged == (moment == .onStart ? 7 : isStreamed ? 0 : nil))
        } else {
            Issue.record("The call has not ended.")
        }
        steps.allow(3)
        _ = try? await call.finished()
    }

    @Test(arguments: ChargeMoment.allCases)
    func `a hold that expires is charged only with onStart`(moment: ChargeMoment) async throws {
        var function = function(Self.price(moment))
        function.life = .seconds(1)
        var settings = AuthoritySettings()
        settings.holdLife = .seconds(1)
        let world = CallWorld(function, settings: settings)
        let who = try await world.account()
        let call = Task { await world.answer(who, "k") }
        try await function.waitForRuns(1)
        world.wall.advance(by: .seconds(1))
        #expect(try await world.authority.expireHolds() == 1)
        #expect(try await spent(world, who) == (moment == .onStart ? Self.all : Self.nothing))
        steps.allow(3)
        let late = try await call.finished()
        #expect(late.code == "upstream_timeout" && late.charged == (moment == .onStart ? 7 : nil))
        #expect(try await spent(world, who) == (moment == .onStart ? Self.all : Self.nothing))
    }
}
