import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineAuthority

/// Cached answers: their audience, their lifetime, and restarts.
@Suite("Cached answers of calls", .bounded)
struct KeptAnswerTests {
    private func function(
        _ cache: ResultCache = .forever,
        _ price: Price = .fixed(5).cached(1)
    ) -> ScriptedFunction {
        let runs = WatchedState(0)
        return ScriptedFunction("f", FunctionRules(price: price, cache: cache)) { input, _ in
            let number = runs.withLock { count in
                count += 1
                return count
            }
            return .init(output: ["run": .integer(Int64(number)), "input": input], charge: 5)
        }
    }

    private func run(_ answer: CallAnswer) -> Int64? { answer.output?["run"]?.integer }

    @Test func `a second call is answered from the cache, for the cached price`() async throws {
        let function = function()
        let world = CallWorld(function)
        let who = try await world.account()
        let first = await world.answer(who, "a", ["q": 1])
        #expect(first.body["cached"] == false && first.origin == .run(isKept: true))
        world.wall.advance(by: .seconds(90))
        let second = await world.answer(who, "b", ["q": 1])
        #expect(second.body["cached"] == true && second.charged == 1)
        #expect(second.origin == .cache(age: .seconds(90), rest: nil))
        #expect(run(second) == 1 && function.runCount == 1)
        #expect(try await world.balance(who).available == 94)
        // A request with the same key gets the same answer, and is free.
        let again = await world.answer(who, "b", ["q": 1])
        #expect(again.isReplayed && again.charged == 1)
        #expect(try await world.balance(who).available == 94)
        #expect(try await world.isSound())
    }

    @Test func `an account's answer is not returned to another account`() async throws {
        let function = function()
        let world = CallWorld(function)
        let (mine, other) = (try await world.account(1), try await world.account(2))
        #expect(run(await world.answer(mine, "a", ["q": 1])) == 1)
        #expect(run(await world.answer(other, "a", ["q": 1])) == 2)
        #expect(run(await world.answer(mine, "b", ["q": 1])) == 1)
        #expect(function.runs.value.accounts == [mine.account, other.account])
    }

    @Test func `a public answer is returned to all accounts, and its run has no account`()
        async throws
    {
        let function = function(.forever.public(sharing: "q"))
        let world = CallWorld(function)
        #expect(run(await world.answer(try await world.account(1), "a", ["q": 1])) == 1)
        #expect(run(await world.answer(try await world.account(2), "a", ["q": 1])) == 1)
        #expect(function.runs.value.accounts == [nil])
    }

    @Test func `a cached answer survives a restart, and is not charged twice`() async throws {
        let storage = MemoryStorage()
        let world = CallWorld(function(), over: storage)
        let who = try await world.account()
        #expect(run(await world.answer(who, "a", ["q": 1])) == 1)
        world.storage.die()

        let function = function()
        let next = CallWorld(function, over: storage)
        let answer = await next.answer(who, "b", ["q": 1])
        #expect(run(answer) == 1 && answer.charged == 1 && answer.isFromCache)
        #expect(await next.answer(who, "a", ["q": 1]).isReplayed)
        #expect(function.runCount == 0)
        #expect(try await next.balance(who).available == 94)
    }

    @Test func `an expired answer is produced again, and swept`() async throws {
        let function = function(.duration(.seconds(60)))
        let world = CallWorld(function)
        let who = try await world.account()
        #expect(run(await world.answer(who, "a")) == 1)
        world.wall.advance(by: .milliseconds(59_999))
        let last = await world.answer(who, "b")
        #expect(last.origin == .cache(age: .milliseconds(59_999), rest: .milliseconds(1)))
        world.wall.advance(by: .milliseconds(1))
        #expect(run(await world.answer(who, "c")) == 2)
        world.wall.advance(by: .seconds(61))
        #expect(try await world.authority.sweep() == 1)
        #expect(run(await world.answer(who, "d")) == 3)
    }

    @Test func `at the account's midnight, the new day gets a new answer`() async throws {
        let world = CallWorld(function(.untilMidnight))
        let who = try await world.account(timeZone: "America/New_York")
        // Midnight in New York.
        let midnight = try #require(Timestamp("2026-11-22T05:00:00Z"))
        world.wall.set(midnight + .milliseconds(-1))
        #expect(run(await world.answer(who, "a")) == 1)
        #expect(run(await world.answer(who, "b")) == 1)
        world.wall.set(midnight)
        #expect(run(await world.answer(who, "c")) == 2)
    }

    @Test(arguments: ["length", "content_filter", "error", "a_reason_of_tomorrow"])
    func `an incomplete answer is charged and returned with its reason, but not cached`(
        reason: String
    ) async throws {
        let function = ScriptedFunction(
            "f",
            FunctionRules(price: .fixed(5).cached(1), cache: .forever)
        ) { _, _ in .init(output: "made", charge: 5, finishReason: reason) }
        let world = CallWorld(function)
        let who = try await world.account()
        for key in ["a", "b"] {
            let answer = await world.answer(who, key, ["q": 1])
            #expect(answer.output == "made" && answer.charged == 5)
            #expect(answer.body["finishReason"]?.string == reason)
            #expect(answer.body["cached"] == false && answer.origin == .missed)
        }
        #expect(function.runCount == 2)
        #expect(try await world.balance(who).available == 90)
        #expect(await world.answer(who, "a", ["q": 1]).body["finishReason"]?.string == reason)
    }

    @Test(arguments: ["", " \n\t"], ["stop", nil])
    func `an empty answer is charged and returned with its reason, but not cached`(
        text: String,
        reason: String?
    ) async throws {
        let function = ScriptedFunction(
            "f",
            FunctionRules(price: .fixed(5).cached(1), cache: .forever)
        ) { _, _ in .init(output: .string(text), charge: 5, finishReason: reason) }
        let world = CallWorld(function)
        let who = try await world.account()
        for key in ["a", "b"] {
            let answer = await world.answer(who, key)
            #expect(answer.output == .string(text) && answer.charged == 5)
            #expect(answer.body["finishReason"]?.string == reason)
            #expect(answer.body["cached"] == false && answer.origin == .missed)
        }
        #expect(function.runCount == 2)
    }

    @Test(arguments: ["stop", "STOP", "eos", "tool_calls", nil])
    func `a complete answer is cached`(reason: String?) async throws {
        let function = ScriptedFunction(
            "f",
            FunctionRules(price: .fixed(5).cached(1), cache: .forever)
        ) { _, _ in .init(output: "made", charge: 5, finishReason: reason) }
        let world = CallWorld(function)
        let who = try await world.account()
        #expect(await world.answer(who, "a").body["finishReason"]?.string == reason)
        #expect(await world.answer(who, "b").charged == 1)
        #expect(function.runCount == 1)
    }

    @Test func `an answer whose day ends during its run is returned, but not cached`() async throws
    {
        let gate = WatchedState(false)
        var function = function(.untilMidnight)
        let made = function.body
        function.body = { input, context async throws(Problem) in
            try await gate.pass()
            return try await made(input, context)
        }
        let world = CallWorld(function)
        let who = try await world.account()
        let late = Task { await world.answer(who, "a") }
        try await function.waitForRuns(1)
        world.wall.advance(by: .seconds(43_200))
        gate.open()
        #expect(run(try await late.finished()) == 1)
        #expect(run(await world.answer(who, "b")) == 2)
    }

    @Test func `an answer that is cached for a session is not returned to the next one`()
        async throws
    {
        let world = CallWorld(function(.session))
        let who = try await world.account()
        #expect(run(await world.answer(who, "a")) == 1)
        #expect(run(await world.answer(who, "b")) == 1)
        let next = Identity(account: who.account, session: .numbered(77))
        #expect(run(await world.answer(next, "c")) == 2)
    }

    @Test func `a function receives only the facts that its answer depends on`()
        async throws
    {
        let function = function(.untilChange(of: "birth", "place"))
        let world = CallWorld(function)
        let who = try await world.account()
        try await world.change(who.account) { $0.settings = ["birth": "2000", "theme": "dark"] }
        #expect(run(await world.answer(who, "a")) == 1)
        try await world.change(who.account) { $0.settings = ["birth": "2000", "theme": "light"] }
        #expect(run(await world.answer(who, "b")) == 1)
        try await world.change(who.account) { $0.settings = ["birth": "2001"] }
        #expect(run(await world.answer(who, "c")) == 2)
        #expect(
            function.runs.value.settings == [
                ["birth": "2000", "place": .null], ["birth": "2001", "place": .null],
            ]
        )
    }

    @Test func `facts that change during a call affect neither its answer nor its cache key`()
        async throws
    {
        let gate = WatchedState(false)
        var function = function(.untilChange(of: "birth"))
        function.body = { _, context async throws(Problem) in
            try await gate.pass()
            return .init(output: ["birth": context.settings["birth"] ?? "none"], charge: 5)
        }
        let world = CallWorld(function)
        let who = try await world.account()
        try await world.change(who.account) { $0.settings = ["birth": "old"] }
        let call = Task { await world.answer(who, "a") }
        try await function.waitForRuns(1)
        try await world.change(who.account) { $0.settings = ["birth": "new"] }
        gate.open()
        #expect(try await call.finished().output?["birth"] == "old")
        #expect(await world.answer(who, "b").output?["birth"] == "new")
        try await world.change(who.account) { $0.settings = ["birth": "old"] }
        let kept = await world.answer(who, "c")
        #expect(kept.output?["birth"] == "old" && kept.isFromCache)
    }

    @Test func `a function without dependence on settings receives none`() async throws {
        let function = function(.forever)
        let world = CallWorld(function)
        let who = try await world.account()
        try await world.change(who.account) { $0.settings = ["birth": "2000"] }
        _ = await world.answer(who, "a")
        #expect(function.runs.value.settings == [[:]])
    }

    @Test func `an account has a limit of cached answers, and the oldest is removed first`()
        async throws
    {
        var settings = AuthoritySettings()
        settings.resultsPerAccount = 3
        let limits = CallRunner.Limits(running: 8, memoryBytes: 0)
        let world = CallWorld(function(), settings: settings, limits: limits)
        let (who, other) = (try await world.account(1), try await world.account(2))
        _ = await world.answer(other, "o", ["q": 0])
        for number in 0..<5 as Range<Int64> {
            world.wall.advance(by: .seconds(1))
            _ = await world.answer(who, "k\(number)", ["q": .integer(number)])
        }
        var fresh: [Bool] = []
        for number in [4, 3, 2, 1] as [Int64] {
            let answer = await world.answer(who, "n\(number)", ["q": .integer(number)])
            fresh.append(!answer.isFromCache)
        }
        #expect(fresh == [false, false, false, true])
        #expect(await world.answer(other, "p", ["q": 0]).isFromCache)
    }

    @Test func `an answer that is too large is returned, but not cached`() async throws {
        var function = function()
        function.body = { _, _ in
            .init(output: .string(String(repeating: "x", count: 99)), charge: 5)
        }
        let limits = CallRunner.Limits(running: 8, keptBytes: 100)
        let world = CallWorld(function, limits: limits)
        let who = try await world.account()
        let first = await world.answer(who, "a")
        #expect(first.status == 200 && first.origin == .missed)
        #expect(first.origin?.fields.map(\.value) == ["sanguine; fwd=miss"])
        #expect(await world.answer(who, "b").charged == 5)
        #expect(function.runCount == 2)
    }

    @Test func `a cached answer uses no quota`() async throws {
        let world = CallWorld(function(.forever, .quota("readings")))
        let who = try await world.account()
        for key in ["a", "b", "c", "d", "e"] {
            #expect(await world.answer(who, key).status == 200)
        }
        #expect(try await world.used(who) == 1)
    }
}
