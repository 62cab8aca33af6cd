import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineAuthority

@Suite("Calls in threads", .bounded)
struct ThreadCallTests {
    private static let thread = Identifier.numbered(7)

    private static func function(
        _ name: String = "f",
        cache: ResultCache = .none,
        streams: Bool = false,
        history: HistoryRules = HistoryRules(),
        titles: String? = nil,
        body: @escaping ScriptedFunction.Body = { input, _ in
            .init(output: .string("to \(input["q"]?.string ?? "")"), charge: 1)
        }
    ) -> ScriptedFunction {
        let rules = FunctionRules(
            cache: cache,
            streams: streams,
            keepsHistory: true,
            history: history,
            titles: titles
        )
        return ScriptedFunction(name, rules, body: body)
    }

    /// Returns the messages of the thread, oldest first.
    private func messages(_ world: CallWorld, _ who: Identity) async throws -> [ChatMessage] {
        try await ThreadHistory(authority: world.authority)
            .last(200, of: RecordID(Self.thread), who.account)
            .reversed()
    }

    private func texts(_ world: CallWorld, _ who: Identity) async throws -> [String] {
        try await messages(world, who).map(\.text)
    }

    @Test func `a function without history refuses a thread`() async throws {
        let world = CallWorld(ScriptedFunction())
        let who = try await world.account()
        let answer = await world.answer(who, "a", in: Self.thread)
        #expect(answer.code == "invalid_content")
        #expect(try await messages(world, who).isEmpty)
    }

    @Test func `calls of a thread receive its complete messages, oldest first`() async throws {
        let function = Self.function()
        let world = CallWorld(function)
        let who = try await world.account()
        for (key, text) in [("a", "one"), ("b", "two"), ("c", "three")] {
            let answer = await world.answer(who, key, ["q": .string(text)], in: Self.thread)
            #expect(answer.status == 200)
        }
        #expect(function.runs.value.contexts.last == ["one", "to one", "two", "to two"])
        #expect(
            try await texts(world, who) == ["one", "to one", "two", "to two", "three", "to three"]
        )
        #expect(try await messages(world, who).map(\.position) == Array(1...6))
        #expect(try await world.balance(who).available == 97)
        #expect(try await world.isSound())
    }

    @Test func `an input names the text of a question, and the area of the thread that it begins`()
        async throws
    {
        let world = CallWorld(Self.function())
        let who = try await world.account()
        for (key, area) in [("a", "love"), ("b", "career")] {
            let input: JSONValue = ["question": "When?", "day": 3, "area": .string(area)]
            let answer = await world.answer(who, key, input, in: Self.thread)
            #expect(answer.status == 200)
        }
        #expect(try await title(world, who)?.area == "love")
        let questions = try await messages(world, who).filter { $0.role == .user }
        #expect(questions.map(\.text) == ["When?", "When?"])
        #expect(questions.last?.value?["area"] == "career")
    }

    @Test func `a repeated request writes no second message`() async throws {
        let function = Self.function()
        let world = CallWorld(function)
        let who = try await world.account()
        _ = await world.answer(who, "a", ["q": "one"], in: Self.thread)
        let again = await world.answer(who, "a", ["q": "one"], in: Self.thread)
        #expect(again.isReplayed && function.runCount == 1)
        #expect(try await texts(world, who) == ["one", "to one"])
        #expect(try await world.balance(who).available == 99)
    }

    @Test func `the context keeps to its budget of messages and tokens`() {
        let messages = (1...10).reversed().flatMap { number in
            [ChatMessage.Role.assistant, .user].map { role in
                var message = ChatMessage(
                    id: .new(),
                    thread: RecordID(Self.thread),
                    position: 2 * number + (role == .user ? 0 : 1),
                    role: role,
                    state: .complete,
                    call: "k\(number)",
                    createdAt: ManualClock.start
                )
                message.text = String(repeating: "a", count: 40)
                return message
            }
        }
        func count(_ rules: HistoryRules) -> Int { ThreadHistory.context(messages, rules).count }
        #expect(count(HistoryRules(tokens: 1_000_000, messages: 100)) == 20)
        #expect(count(HistoryRules(tokens: 1_000_000, messages: 5)) == 4)
        let pair = Int(OutputMeasure.estimatedTokens(bytes: 80))
        #expect(count(HistoryRules(tokens: 3 * pair, messages: 100)) == 6)
        #expect(count(HistoryRules(tokens: pair - 1, messages: 100)) == 0)
        let context = ThreadHistory.context(messages, HistoryRules(tokens: 3 * pair))
        #expect(context.map(\.position) == [16, 17, 18, 19, 20, 21])
    }

    @Test func `failed answers are not part of the context`() async throws {
        let function = Self.function { input, _ throws(Problem) in
            guard input["q"] != "bad" else { throw Problem(.upstreamFailed, "Again.") }
            return .init(output: "good", charge: 1)
        }
        let world = CallWorld(function)
        let who = try await world.account()
        _ = await world.answer(who, "a", ["q": "bad"], in: Self.thread)
        _ = await world.answer(who, "b", ["q": "two"], in: Self.thread)
        _ = await world.answer(who, "c", ["q": "three"], in: Self.thread)
        #expect(function.runs.value.contexts.last == ["two", "good"])
        #expect(try await messages(world, who).map(\.state).prefix(2) == [.complete, .failed])
        #expect(try await world.balance(who).available == 98)
    }

    @Test func `without context a repeated question is answered from the cache of its session`()
        async throws
    {
        let function = Self.function(cache: .session, history: HistoryRules(messages: 0))
        let world = CallWorld(function)
        let who = try await world.account()
        _ = await world.answer(who, "a", ["q": "one"], in: Self.thread)
        let second = await world.answer(who, "b", ["q": "one"], in: Self.thread)
        #expect(second.isFromCache && function.runCount == 1)
        #expect(try await texts(world, who) == ["one", "to one", "one", "to one"])
        #expect(try await messages(world, who).map(\.charged) == [nil, 1, nil, 0])
        #expect(try await messages(world, who).map(\.state).allSatisfy { $0 == .complete })
    }

    @Test func `with a context the same question has another answer`() async throws {
        let function = Self.function(cache: .session)
        let world = CallWorld(function)
        let who = try await world.account()
        _ = await world.answer(who, "a", ["q": "one"], in: Self.thread)
        let second = await world.answer(who, "b", ["q": "one"], in: Self.thread)
        #expect(!second.isFromCache && function.runCount == 2)
    }

    @Test func `calls that share a run have messages of their own`() async throws {
        let gate = WatchedState(false)
        let function = Self.function(cache: .session) { _, _ throws(Problem) in
            try await gate.pass()
            return .init(output: "made", charge: 1)
        }
        let world = CallWorld(function)
        let who = try await world.account()
        async let first = world.answer(who, "a", ["q": "one"], in: Self.thread)
        try await function.waitForRuns(1)
        async let second = world.answer(who, "b", ["q": "one"], in: Identifier.numbered(8))
        try await eventually("two calls run") { world.runner.services.calls.count == 2 }
        gate.open()
        #expect(await [first, second].map(\.status) == [200, 200])
        #expect(function.runCount == 1)
        #expect(try await texts(world, who) == ["one", "made"])
        let other = try await ThreadHistory(authority: world.authority)
            .last(10, of: RecordID(Identifier.numbered(8)), who.account)
        #expect(other.map(\.text) == ["made", "one"])
    }

    @Test func `a stream that is cancelled leaves the parts that its reader has seen`()
        async throws
    {
        let steps = WatchedState(0)
        let function = Self.function(streams: true) { _, context throws(Problem) in
            await context.write("So", 2)
            await context.write("on", 2)
            try await steps.pass(1)
            return .init(output: "Soon", charge: 1)
        }
        let world = CallWorld(function)
        let who = try await world.account()
        let stream = try await world.stream(who, "a", ["q": "When?"], in: Self.thread)
        _ = try await stream.read(2)
        #expect(try await messages(world, who).last?.state == .making)
        _ = try await world.cancel(who, "a")
        let answer = try #require(try await messages(world, who).last)
        #expect(answer.state == .cut && answer.text == "Soon" && answer.charged == 1)
        #expect(answer.finishReason == "call_cancelled")
        #expect(try await world.balance(who).available == 99)
    }

    @Test func `a new process ends the stream of one that died with its stored parts`()
        async throws
    {
        let memory = MemoryStorage()
        let steps = WatchedState(0)
        let function = Self.function(streams: true) { _, context throws(Problem) in
            await context.write("So", 2)
            try await steps.pass(1)
            return .init(output: "Soon", charge: 1)
        }
        let world = CallWorld(function, over: memory)
        let who = try await world.account()
        let stream = try await world.stream(who, "a", ["q": "When?"], in: Self.thread)
        _ = try await stream.read(1)
        try await world.waitForWaits(2)
        world.delay.advance(by: RunExecution.storeInterval)
        try await eventually("the part is stored") { !world.storage.state.value.parts.isEmpty }
        world.storage.die()

        let next = CallWorld(Self.function(), over: memory, wall: world.wall)
        _ = try await next.authority.recover()
        let answer = try #require(try await messages(next, who).last)
        #expect(answer.state == .cut && answer.text == "So")
        #expect(try await next.isSound())
        steps.allow(1)
    }

    @Test(arguments: 0..<12)
    func `a process that dies at any commit leaves no charge without its message`(
        commit: Int
    ) async throws {
        let memory = MemoryStorage()
        let world = CallWorld(Self.function(), over: memory)
        let who = try await world.account()
        let count = WatchedState(0)
        world.storage.fail { _, isCommit in
            guard isCommit else { return nil }
            return count.withLock { count in
                count += 1
                return count > commit ? .closed : nil
            }
        }
        let hasEnded = WatchedState(false)
        // A call that cannot store its end waits for the next attempt.
        let calls = Task {
            for number in 0..<4 {
                let input: JSONValue = ["q": .string("\(number)")]
                _ = await world.answer(who, "k\(number)", input, in: Self.thread)
            }
            hasEnded.open()
        }
        try await eventually("the calls end, or a commit fails") {
            hasEnded.value || count.value > commit
        }
        world.storage.die()
        calls.cancel()

        let next = CallWorld(Self.function(), over: memory, wall: world.wall)
        _ = try await next.authority.recover()
        world.wall.advance(by: .seconds(3_600))
        try await next.authority.expireHolds()
        let found = try await messages(next, who)
        let charged = found.compactMap(\.charged).reduce(0, +)
        let balance = try await next.balance(who)
        #expect(balance.held == 0 && balance.available == 100 - charged)
        #expect(!found.contains { $0.state == .making })
        #expect(Set(found.compactMap(\.call)).count * 2 == found.count)
        #expect(try await next.isSound())
    }

    // MARK: - Titles

    private func title(_ world: CallWorld, _ who: Identity) async throws -> ChatThread? {
        try await world.authority.thread(RecordID(Self.thread), of: who.account)
    }

    @Test func `a function makes one title, at its own price, after the first answer`()
        async throws
    {
        let maker = ScriptedFunction("title", FunctionRules(price: .fixed(2))) { input, _ in
            .init(output: .string("“\(input["answer"]?.string ?? "")”\n\nMore"), charge: 2)
        }
        let world = CallWorld(Self.function(titles: "title"), maker)
        let who = try await world.account()
        let answer = await world.answer(who, "a", ["q": "one"], in: Self.thread)
        #expect(answer.charged == 1)
        try await eventually("the thread has a title") {
            try await title(world, who)?.title == "to one"
        }
        #expect(try await title(world, who)?.titleSource == .function)
        _ = await world.answer(who, "b", ["q": "two"], in: Self.thread)
        await world.runner.waitUntilIdle()
        #expect(maker.runCount == 1)
        #expect(try await world.balance(who).available == 96)
    }

    @Test func `a title never replaces one of the user, and is not made twice`() async throws {
        let maker = ScriptedFunction("title") { _, _ in .init(output: "Made", charge: 1) }
        let world = CallWorld(Self.function(), maker)
        let who = try await world.account()
        _ = await world.answer(who, "a", ["q": "one"], in: Self.thread)
        try await world.authority.setTitle("Mine", of: RecordID(Self.thread), who.account)
        let titles = TitleMaker(
            runner: world.runner,
            function: "title",
            identity: who,
            address: nil
        )
        try await titles.makeTitle(for: Self.thread)
        try await world.authority.setTitle("Made", of: RecordID(Self.thread), who.account)
        #expect(try await title(world, who)?.title == "Mine")
        #expect(maker.runCount == 0)
    }

    @Test func `a title that failed at the first answers is made at a later one`() async throws {
        let works = WatchedState(false)
        let maker = ScriptedFunction("title") { _, _ async throws(Problem) in
            guard works.value else { throw .upstreamFailed }
            return .init(output: "Made", charge: 1)
        }
        let world = CallWorld(Self.function(), maker)
        let who = try await world.account()
        let titles = TitleMaker(
            runner: world.runner,
            function: "title",
            identity: who,
            address: nil
        )
        var runs: [Int] = []
        for number in 1...8 {
            _ = await world.answer(who, "k\(number)", ["q": .string("\(number)")], in: Self.thread)
            if number == 8 { works.withLock { $0 = true } }
            try? await titles.makeTitle(for: Self.thread)
            runs.append(maker.runCount)
        }
        #expect(runs == [1, 2, 3, 4, 4, 4, 4, 5])
        #expect(try await title(world, who)?.title == "Made")
        #expect((1...100_000).count { $0.isMultiple(of: 2) && TitleMaker.isDue(at: $0) } == 17)
    }

    @Test(arguments: [
        ("“Venus”", "Venus"), ("\n ## Venus rising\nmore", "Venus rising"), ("  \n\"\"", nil),
        ("Love\tand\u{0} career", "Love and  career"), ("\u{202E}", nil),
        ("A family: 👨‍👩‍👧‍👦", "A family: 👨‍👩‍👧‍👦"),
        (String(repeating: "👨‍👩‍👧‍👦", count: 300), String(repeating: "👨‍👩‍👧‍👦", count: 64)),
        (String(repeating: "é", count: 300), String(repeating: "é", count: 200)),
    ])
    func `a title is the first line of an output, without marks`(output: String, title: String?) {
        #expect(TitleMaker.title(output) == title)
    }
}
