import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineAuthority

/// The parts of an answer, which are the same for every reader, starting at any index.
@Suite("Streamed calls", .bounded)
struct StreamedCallTests {
    /// The number of parts that the run may make.
    private let steps = WatchedState(0)

    /// A function that makes this many parts as the steps allow.
    private func function(
        _ count: Int = 10,
        _ rules: FunctionRules = FunctionRules(price: .fixed(5), streams: true),
        part: @escaping @Sendable (Int) -> String = { "p\($0) " }
    ) -> ScriptedFunction {
        ScriptedFunction("f", rules) { [steps] _, context async throws(Problem) in
            var output = ""
            for number in 0..<count {
                try await steps.pass(number + 1)
                let text = part(number)
                output += text
                await context.write(text, text.utf8.count)
            }
            try await steps.pass(count + 1)
            return .init(output: .string(output), charge: 3)
        }
    }

    private func texts(_ range: Range<Int>) -> [String] { range.map { "p\($0) " } }

    @Test func `parts arrive in order during the run, followed by the result`() async throws {
        let world = CallWorld(function())
        let who = try await world.account()
        let events = try await world.stream(who, "k")
        var heard = Heard()
        for number in 1...10 {
            steps.allow(number)
            heard = try await events.read(number, into: heard)
            #expect(heard.texts == texts(0..<number))
        }
        steps.allow(11)
        heard = try await events.read(into: heard)
        #expect(heard.isInOrder && heard.first == 0 && heard.endIndex == 10)
        #expect(heard.status == 200 && heard.body["charged"] == 3)
        #expect(await events.next() == nil)
        #expect(try await world.balance(who).available == 97)
    }

    @Test(arguments: 0...10)
    func `a reader that resumes gets the rest and one end, during the run and afterwards`(
        seen: Int
    ) async throws {
        let world = CallWorld(function())
        let who = try await world.account()
        _ = try await world.stream(who, "k")
        steps.allow(6)
        let live = try await world.stream(who, "k", after: Int64(seen) - 1)
        let found = try await world.find(who, "k", after: Int64(seen) - 1)
        steps.allow(11)
        let after = try await live.read()
        #expect(try await found.read() == after)
        #expect(after.texts == texts(seen..<10) && after.endIndex == 10 && after.isInOrder)
        #expect(try await world.find(who, "k", after: Int64(seen) - 1).read() == after)
        #expect(try await world.stream(who, "k", after: Int64(seen) - 1).read() == after)
        // A reader that has seen the end gets it again.
        let end = try await world.find(who, "k", after: 10).read()
        #expect(end.texts == [] && end.endIndex == 10 && end.status == 200)
    }

    @Test func `readers at different positions get the same bytes`() async throws {
        let world = CallWorld(function(40))
        let who = try await world.account()
        let first = try await world.stream(who, "k")
        var readers: [Task<Heard, any Error>] = []
        for number in 1...40 {
            steps.allow(number)
            let index = Int64.random(in: 0..<Int64(number))
            let events = try await world.find(who, "k", after: index - 1)
            readers.append(Task { try await events.read() })
            if number % 8 == 0 { world.delay.advance(by: RunExecution.storeInterval) }
        }
        steps.allow(41)
        let whole = try await first.read()
        #expect(whole.texts == texts(0..<40))
        for reader in readers {
            let heard = try await reader.finished()
            let start = Int(try #require(heard.first))
            #expect(heard.texts == texts(start..<40) && heard.endIndex == 40)
        }
    }

    @Test func `a reader that falls behind continues from the storage`() async throws {
        let part = String(repeating: "x", count: 1_000)
        let world = CallWorld(function(200, part: { "\($0) \(part)" }))
        let who = try await world.account()
        let slow = try await world.stream(who, "k")
        let head = try await { [steps] in
            steps.allow(1)
            return try await slow.read(1)
        }()
        steps.allow(200)
        try await world.delay.advancing(by: RunExecution.storeInterval) {
            try await world.storage.state.wait(for: "all parts stored") { state in
                state.parts.last.map { $0.first + Int64($0.parts.count) } == 200
            }
        }
        steps.allow(201)
        let heard = try await slow.read(into: head)
        #expect(heard.texts == (0..<200).map { "\($0) \(part)" })
        #expect(heard.isInOrder && heard.endIndex == 200)
    }

    @Test func `a run waits while too many parts are not stored`() async throws {
        let part = String(repeating: "x", count: AnswerLog.unstoredBytes / 4)
        let made = WatchedState(0)
        let function = function(20) { number in
            made.withLock { $0 = number + 1 }
            return part
        }
        let world = CallWorld(function)
        world.storage.fail { keys, _ in
            keys.contains { if case .hold = $0 { true } else { false } }
                && !keys.contains { if case .operation = $0 { true } else { false } }
                ? .failed("no") : nil
        }
        let who = try await world.account()
        let events = try await world.stream(who, "k")
        steps.allow(21)
        try await made.wait(for: "a run that waits") { $0 == 5 }
        let five = try await events.read(5)
        world.delay.advance(by: RunExecution.storeInterval)
        try await world.reported.wait(for: "a failed store") { $0.notStored > 0 }
        #expect(made.value == 5)
        world.storage.fail { _, _ in nil }
        let heard = try await world.delay.advancing { try await events.read(into: five) }
        #expect(heard.texts.count == 20 && heard.endIndex == 20 && heard.status == 200)
    }

    @Test func `a stream is stored at most four times a second`() async throws {
        let world = CallWorld(function(1_000))
        let who = try await world.account()
        let events = try await world.stream(who, "k")
        let before = world.storage.commits
        // A part every hundredth of a second, for five seconds.
        for number in 1...500 {
            steps.allow(number)
            _ = try await events.read(1)
            try await world.waitForWaits(2)
            world.delay.advance(by: .milliseconds(10))
        }
        let commits = world.storage.commits - before
        #expect(commits <= 20 && commits >= 15)
        steps.allow(1_001)
        #expect(try await events.read().endIndex == 1_000)
        // The rest is stored with the end.
        #expect(world.storage.commits - before <= 22)
    }

    @Test func `parts that are being stored when the run ends are stored before its end`()
        async throws
    {
        let world = CallWorld(function())
        let who = try await world.account()
        let gate = WatchedState(false)
        let events = try await world.stream(who, "k")
        steps.allow(3)
        let some = try await events.read(3)
        // Among the commands of a call, only the one that stores parts has a single key, its hold.
        world.storage.state.withLock { state in
            state.delay = { keys in
                guard keys.count == 1 else { return }
                try? await gate.wait(for: "the slow disk") { $0 }
            }
        }
        try await world.waitForWaits(2)
        world.delay.advance(by: RunExecution.storeInterval)
        try await world.waitForWaits(1)
        steps.allow(11)
        let all = try await events.read(10, into: some)
        #expect(all.texts.count == 10)
        let position = OperationPosition(account: who.account, key: "k")
        let state = try await world.authority.operation(position)?.state
        #expect(state.map { if case .running = $0 { true } else { false } } == true)
        gate.open()
        let heard = try await events.read(into: all)
        #expect(heard.endIndex == 10)
        #expect(try await world.find(who, "k").read().texts == texts(0..<10))
    }

    @Test func `the time to the first part counts from the acceptance of the call`() async throws {
        let world = CallWorld(function())
        let who = try await world.account()
        let events = try await world.stream(who, "k")
        try await world.delay.waitForSleepers(1)
        world.delay.advance(by: .milliseconds(300))
        steps.allow(11)
        #expect(try await events.read().endIndex == 10)
        #expect(world.reported.value.firstParts == [.milliseconds(300)])
    }

    @Test
    func `an answer in one piece is one part for readers of a function that does not stream`()
        async throws
    {
        let rules = FunctionRules(price: .fixed(5), cache: .forever, streams: false)
        let world = CallWorld(function(2, rules))
        let who = try await world.account()
        let events = try await world.stream(who, "k")
        steps.allow(3)
        let heard = try await events.read()
        #expect(heard.texts == ["p0 p1 "] && heard.endIndex == 1)
        #expect(try await world.find(who, "k").read() == heard)
        #expect(try await world.find(who, "k", after: 0).read().endIndex == 1)
        // The same applies to a cached answer.
        let kept = try await world.stream(who, "other").read()
        #expect(kept.texts == ["p0 p1 "] && kept.body["cached"] == true)
    }

    @Test func `a plain call that follows a stream can be read in the same parts`() async throws {
        let rules = FunctionRules(
            price: .fixed(5),
            cache: .forever.public(sharing: "q"),
            streams: true
        )
        let world = CallWorld(function(3, rules))
        let (who, other) = (try await world.account(1), try await world.account(2))
        let events = try await world.stream(who, "k")
        let plain = Task { await world.answer(other, "k") }
        try await world.reported.wait(for: "both calls") { $0.origins.count == 2 }
        steps.allow(4)
        let heard = try await events.read()
        #expect(try await plain.finished().output == "p0 p1 p2 ")
        let found = try await world.find(other, "k").read()
        #expect(found.texts == heard.texts && found.endIndex == 3)
    }

    @Test func `a stream whose answer is cached is replayed in the same parts`() async throws {
        let rules = FunctionRules(price: .fixed(5), cache: .forever, streams: true)
        let world = CallWorld(function(10, rules))
        let who = try await world.account()
        steps.allow(11)
        let first = try await world.stream(who, "k").read()
        #expect(first.texts == texts(0..<10))
        #expect(try await world.stream(who, "k").read() == first)
        #expect(try await world.stream(who, "k", after: 3).read().texts == texts(4..<10))
        // Another key gets the cached answer, in one piece for all readers.
        let kept = try await world.stream(who, "other").read()
        #expect(kept.texts == [texts(0..<10).joined()])
        #expect(try await world.stream(who, "other").read() == kept)
        #expect(try await world.find(who, "other").read() == kept)
    }

    @Test func `a stream does not report its answer as cached before it is`() async throws {
        let rules = FunctionRules(price: .fixed(5), cache: .forever, streams: true)
        let world = CallWorld(function(1, rules))
        let who = try await world.account()
        let reply = try await world.call(who, "k", as: .parts(after: nil))
        guard case .events(let events, let origin) = reply else { throw CallWorld.NoEvents() }
        #expect(origin == .missed)
        steps.allow(2)
        #expect(try await events.read().status == 200)
        guard case .cache = await world.answer(who, "other").origin else {
            Issue.record("The answer was not cached.")
            return
        }
    }

    @Test func `only the owner can find or cancel a call`() async throws {
        let world = CallWorld(function())
        let (who, other) = (try await world.account(1), try await world.account(2))
        let events = try await world.stream(who, "k")
        for isOver in [false, true] {
            for reader in [AnswerForm.plain, .parts(after: nil), .parts(after: 3)] {
                let refused = await problem { () throws(Problem) in
                    let position = OperationPosition(account: other.account, key: "k")
                    return try await world.runner.find(position, from: nil, as: reader)
                }
                #expect(refused?.code == .notFound)
            }
            let refused = await problem { () throws(Problem) in try await world.cancel(other, "k") }
            #expect(refused?.code == .notFound)
            guard !isOver else { break }
            steps.allow(11)
            _ = try await events.read()
        }
        #expect(try await world.find(who, "k").read().endIndex == 10)
    }

    @Test func `resuming an unknown call is refused, and starts nothing`() async throws {
        let function = function()
        let world = CallWorld(function)
        let who = try await world.account()
        let refused = await problem { () throws(Problem) in
            try await world.call(who, "k", as: .parts(after: 4))
        }
        #expect(refused?.code == .notFound && function.runCount == 0)
        #expect(try await world.balance(who).held == 0)
    }

    @Test func `a failing storage delays a reader, which misses nothing`()
        async throws
    {
        let world = CallWorld(function())
        let who = try await world.account()
        let events = try await world.stream(who, "k")
        steps.allow(11)
        _ = try await events.read()
        let again = try await world.find(who, "k")
        world.storage.fail { keys, _ in
            keys.contains { if case .parts = $0 { true } else { false } } ? .failed("no") : nil
        }
        let reader = Task { try await again.read() }
        try await world.delay.waitForSleepers(1)
        #expect(world.storage.state.value.reads < 5)
        world.storage.fail { _, _ in nil }
        world.delay.advance(by: .seconds(1))
        let heard = try await reader.finished()
        #expect(heard.texts == texts(0..<10) && heard.endIndex == 10)
    }

    @Test func `a reader gets a ping when no part arrives for a while`() async throws {
        let world = CallWorld(function())
        let who = try await world.account()
        let events = try await world.stream(who, "k")
        let quiet = Task { await events.next() }
        try await world.waitForWaits(2)
        world.delay.advance(by: .seconds(20))
        guard case .idle = try await quiet.finished() else {
            Issue.record("Something came.")
            return
        }
        steps.allow(11)
        #expect(try await events.read().endIndex == 10)
    }
}
