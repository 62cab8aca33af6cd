import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineAuthority

/// Calls that are cut short by their owner, by disconnecting readers, or by a server's shutdown.
@Suite("Interrupted calls", .bounded)
struct CallCutTests {
    private let steps = WatchedState(0)

    /// A function whose parts cost a token each, at most ten.
    private func function(
        _ onDisconnect: FunctionRules.Disconnect = .drain,
        drains: Int = 100,
        name: String = "f"
    ) -> ScriptedFunction {
        let rules = FunctionRules(
            price: .fixed(10),
            streams: true,
            onDisconnect: onDisconnect,
            limits: FunctionLimits(drains: drains)
        )
        var function = ScriptedFunction(name, rules) { [steps] _, context async throws(Problem) in
            for number in 0..<10 {
                try await steps.pass(number + 1)
                await context.write("p\(number) ", 3)
            }
            try await steps.pass(11)
            return .init(output: "whole", charge: 10)
        }
        function.cost = { max(Int64($0.parts), $0.usage?.outputTokens ?? 0) }
        return function
    }

    @Test func `a disconnect cancels nothing`() async throws {
        let world = CallWorld(function())
        let who = try await world.account()
        var events: CallEventStream? = try await world.stream(who, "k")
        steps.allow(2)
        _ = try await events?.read(2)
        events?.close()
        events = nil
        steps.allow(11)
        await world.runner.waitUntilIdle()
        let heard = try await world.find(who, "k", after: 1).read()
        #expect(heard.texts.count == 8 && heard.endIndex == 10 && heard.body["charged"] == 10)
        #expect(world.reported.value.ended == ["succeeded"])
    }

    @Test func `an explicit cancellation stops the run, charges its output, and settles once`()
        async throws
    {
        let world = CallWorld(function())
        let who = try await world.account()
        let events = try await world.stream(who, "k")
        steps.allow(4)
        let some = try await events.read(4)
        let ending = try await world.cancel(who, "k")
        #expect(ending.state == .cancelled && ending.charged == 4)
        #expect(ending.balance.available == 96 && ending.balance.held == 0)
        let heard = try await events.read(into: some)
        #expect(heard.code == "call_cancelled" && heard.endIndex == 4 && heard.isInOrder)
        // A repetition, and a later reader, get the same end.
        #expect(try await world.cancel(who, "k") == ending)
        #expect(try await world.find(who, "k").read() == heard)
        #expect(try await world.isSound())
    }

    @Test(arguments: 1...20)
    func `a cancellation that races with the end leads to one end`(round: Int) async throws {
        let world = CallWorld(function())
        let who = try await world.account()
        let events = try await world.stream(who, "k")
        steps.allow(10)
        let some = try await events.read(10)
        async let ending = world.cancel(who, "k")
        steps.allow(11)
        let heard = try await events.read(into: some)
        let charged = try await ending.charged
        #expect(charged == 10 && heard.endIndex == 10)
        #expect(heard.status == 200 || heard.code == "call_cancelled")
        #expect(try await world.balance(who).available == 90)
        #expect(try await world.find(who, "k").read().status == heard.status)
    }

    @Test func `reported usage is charged in full, up to the hold`()
        async throws
    {
        var function = function()
        function.body = { [steps] input, context async throws(Problem) in
            await context.write("a", 1)
            var progress = RunProgress()
            progress.add(bytes: 1)
            progress.report(Usage(inputTokens: 0, outputTokens: input["used"]?.integer ?? 0))
            context.report(progress)
            try await steps.pass(1)
            return .init(output: "whole", charge: 10)
        }
        let world = CallWorld(function)
        let who = try await world.account()
        for (used, charge) in [(0, 1), (7, 7), (1_000, 10)] as [(Int64, Int64)] {
            let events = try await world.stream(who, "k\(used)", ["used": .integer(used)])
            _ = try await events.read(1)
            try await function.waitForRuns(1)
            try await eventually("the usage is known") {
                try await world.cancel(who, "k\(used)").charged == charge
            }
        }
        #expect(try await world.balance(who).available == 82)
    }

    @Test func `a call that is cancelled before it is sent is free`() async throws {
        let function = function()
        let world = CallWorld(function, limits: .init(running: 4))
        let who = try await world.account()
        let first = try await world.stream(who, "a")
        let second = try await world.stream(who, "b")
        try await eventually("a call waits") { world.runner.counts.waiting == 1 }
        let ending = try await world.cancel(who, "b")
        #expect(ending.state == .cancelled && ending.charged == 0)
        #expect(try await second.read().endIndex == 0)
        steps.allow(11)
        _ = try await first.read()
        #expect(function.runCount == 1 && world.runner.counts == (0, 0))
        #expect(try await world.balance(who).available == 90)
    }

    @Test func `a sent call with an answer in one piece cannot be stopped`() async throws {
        let function = function()
        let world = CallWorld(function)
        let who = try await world.account()
        let call = Task { await world.answer(who, "k") }
        try await function.waitForRuns(1)
        let refused = await problem { () throws(Problem) in try await world.cancel(who, "k") }
        #expect(refused?.code == .operationInProgress)
        steps.allow(11)
        #expect(try await call.finished().charged == 10)
        #expect(try await world.cancel(who, "k").state == .ended)
    }

    // MARK: - Runs without readers

    @Test func `a function that stops without readers charges its output`() async throws {
        let world = CallWorld(function(.stop))
        let who = try await world.account()
        let events = try await world.stream(who, "k")
        steps.allow(3)
        _ = try await events.read(3)
        let other = try await world.find(who, "k")
        events.close()
        // The other one still reads.
        steps.allow(5)
        #expect(try await other.read(5).texts.count == 5)
        other.close()
        await world.runner.waitUntilIdle()
        let heard = try await world.find(who, "k").read()
        #expect(heard.code == "interrupted" && heard.body["charged"] == 5 && heard.endIndex == 5)
        #expect(try await world.balance(who).available == 95)
    }

    @Test func `a function limits its runs without readers, and stops the next one`()
        async throws
    {
        let world = CallWorld(function(drains: 2), function(drains: 1, name: "g"))
        var people: [Identity] = []
        for number in 1...4 as ClosedRange<UInt64> {
            let who = try await world.account(number)
            people.append(who)
            try await world.stream(who, "k", of: number < 4 ? "f" : "g").close()
        }
        try await world.reported.wait(for: "a stopped call") { $0.ended == ["interrupted"] }
        #expect(try await world.find(people[2], "k").read().code == "interrupted")
        // A returning reader frees its permit for another run.
        let back = try await world.find(people[0], "k")
        let fifth = try await world.account(5)
        try await world.stream(fifth, "k").close()
        steps.allow(11)
        #expect(try await back.read().status == 200)
        await world.runner.waitUntilIdle()
        for who in [people[1], people[3], fifth] {
            #expect(try await world.find(who, "k").read().status == 200)
        }
        #expect(try await world.isSound())
    }

    // MARK: - Shutdown and crashes

    @Test func `a client that waits during a shutdown is asked to retry, and loses nothing`()
        async throws
    {
        let function = function()
        let world = CallWorld(function)
        let (who, other) = (try await world.account(1), try await world.account(2))
        let events = try await world.stream(who, "k")
        let plain = Task { await world.answer(other, "k") }
        try await function.waitForRuns(2)
        steps.allow(3)
        let some = try await events.read(3)
        let reader = Task { try await events.read(into: some) }
        world.runner.abandon()
        let heard = try await reader.finished()
        #expect(heard.broken == .operationInProgress && heard.endIndex == nil)
        #expect(heard.texts.count == 3)
        #expect(try await plain.finished().code == "operation_in_progress")
        #expect(await world.answer(who, "new").code == "overloaded")
        // The calls continue for as long as the process runs.
        steps.allow(11)
        await world.runner.waitForLast()
        let rest = try await world.find(who, "k", after: 2).read()
        #expect(rest.texts.count == 7 && rest.endIndex == 10)
    }

    @Test func `a temporary problem has no id`() async throws {
        let world = CallWorld(function())
        let who = try await world.account()
        let stream = WireStream(try await world.stream(who, "k"))
        steps.allow(1)
        let first = try await within(.seconds(10), "a part") { await stream.next() }
        #expect(String(decoding: first ?? [], as: UTF8.self).hasPrefix("id: 0\nevent: delta\n"))
        world.runner.abandon()
        let last = try await within(.seconds(10), "the refusal") { await stream.next() }
        #expect(String(decoding: last ?? [], as: UTF8.self).hasPrefix("event: problem\n"))
        steps.allow(11)
        await world.runner.waitForLast()
    }

    @Test(arguments: [0, 1, 2, 7])
    func `a server that crashes leaves the stored parts and one end`(stored: Int) async throws {
        let storage = MemoryStorage()
        let world = CallWorld(function(), over: storage)
        let who = try await world.account()
        let events = try await world.stream(who, "k")
        steps.allow(stored)
        _ = try await events.read(stored)
        if stored > 0 {
            try await world.waitForWaits(2)
            world.delay.advance(by: RunExecution.storeInterval)
            try await world.storage.state.wait(for: "stored parts") { !$0.parts.isEmpty }
        }
        steps.allow(9)
        let seen = try await events.read(9 - stored)
        #expect(seen.texts.count == 9 - stored)
        world.storage.die()

        let next = CallWorld(function(), over: storage)
        #expect(try await next.authority.recover() == 1)
        let whole = try await next.find(who, "k").read()
        #expect(whole.texts == (0..<stored).map { "p\($0) " })
        #expect(whole.code == "interrupted" && whole.endIndex == Int64(stored))
        #expect(whole.body["charged"]?.integer == Int64(stored))
        // A reader that had seen more parts than were stored, and a repetition, get the same end.
        for after in [nil, 3, 8] as [Int64?] {
            let again = try await next.stream(who, "k", after: after).read()
            #expect(again.endIndex == Int64(stored) && again.code == "interrupted")
        }
        #expect(try await next.balance(who).available == 100 - Int64(stored))
        #expect(try await next.isSound())
        world.runner.abandon()
        steps.allow(11)
    }

    @Test func `a call that was not sent upstream can be repeated after a crash`() async throws {
        let storage = MemoryStorage()
        let world = CallWorld(function(), over: storage, limits: .init(running: 4))
        let who = try await world.account()
        let events = [try await world.stream(who, "a"), try await world.stream(who, "b")]
        try await eventually("a call waits") { world.runner.counts.waiting == 1 }
        world.storage.die()
        defer { for reader in events { reader.close() } }

        let next = CallWorld(function(), over: storage)
        #expect(try await next.authority.recover() == 2)
        steps.allow(11)
        #expect(try await next.stream(who, "a").read().code == "interrupted")
        #expect(try await next.stream(who, "b").read().status == 200)
        #expect(try await next.balance(who).available == 90)
    }

    @Test func `a call without a turn before the shutdown can be repeated`()
        async throws
    {
        let storage = MemoryStorage()
        let function = function()
        let world = CallWorld(function, over: storage, limits: .init(running: 4))
        let who = try await world.account()
        let first = try await world.stream(who, "a")
        let second = try await world.stream(who, "b")
        let third = Task { await world.answer(who, "c") }
        try await eventually("one call runs, and two wait") {
            world.runner.counts.waiting == 2 && function.runCount == 1
        }
        world.runner.abandon()
        for reader in [first, second] {
            #expect(try await reader.read().broken == .operationInProgress)
            // There is no permit for the run of the second one without readers.
            reader.close()
        }
        #expect(try await third.finished().code == "operation_in_progress")
        steps.allow(11)
        await world.runner.waitForLast()
        // The call that ran has its end, and the others have not happened.
        #expect(function.runCount == 1)
        let balance = try await world.balance(who)
        #expect((balance.available, balance.held) == (90, 0))

        let next = CallWorld(function, over: storage)
        #expect(try await next.authority.recover() == 0)
        #expect(try await next.stream(who, "a").read().texts.count == 10)
        #expect(try await next.stream(who, "b").read().status == 200)
        #expect(await next.answer(who, "c").status == 200)
        #expect(function.runCount == 3)
        #expect(try await next.balance(who).available == 70)
    }

    @Test func `a stream without an upstream that may have been read does not start again`()
        async throws
    {
        let storage = MemoryStorage()
        var function = function()
        function.isSent = false
        let world = CallWorld(function, over: storage)
        let who = try await world.account()
        let events = try await world.stream(who, "k")
        steps.allow(2)
        #expect(try await events.read(2).texts.count == 2)
        world.storage.die()
        let next = CallWorld(function, over: storage)
        #expect(try await next.authority.recover() == 1)
        let heard = try await next.stream(who, "k", after: 1).read()
        #expect(heard.code == "interrupted" && heard.endIndex == 0)
        #expect(try await next.balance(who).available == 100)
        #expect(function.runCount == 1)
        world.runner.abandon()
        steps.allow(11)
    }

    @Test func `a stream whose end is not stored charges its stored parts when it expires`()
        async throws
    {
        let world = CallWorld(function())
        let who = try await world.account()
        let events = try await world.stream(who, "k")
        steps.allow(3)
        _ = try await events.read(3)
        try await world.waitForWaits(2)
        world.delay.advance(by: RunExecution.storeInterval)
        try await world.storage.state.wait(for: "stored parts") { !$0.parts.isEmpty }
        world.storage.fail { _, isCommit in isCommit ? .failed("no") : nil }
        steps.allow(11)
        let heard = try await world.delay.advancing { try await events.read() }
        #expect(heard.broken == .internalFault)
        world.storage.fail { _, _ in nil }
        world.wall.advance(by: .seconds(700))
        #expect(try await world.authority.expireHolds() == 1)
        let end = try await world.find(who, "k").read()
        #expect(end.code == "interrupted" && end.body["charged"] == 3 && end.texts.count == 3)
        #expect(try await world.isSound())
    }
}
