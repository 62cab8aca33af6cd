import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineAuthority

/// Free calls in one piece, of which nothing is stored before they end.
@Suite("Free calls", .bounded(.seconds(60)))
struct FreeCallTests {
    private let gate = WatchedState(false)

    private func function(_ rules: FunctionRules = FunctionRules(price: .free)) -> ScriptedFunction
    {
        ScriptedFunction("f", rules) { [gate] input, _ async throws(Problem) in
            try await gate.pass()
            guard input["fail"] == nil else { throw .upstreamFailed }
            return .init(output: "made", charge: 0)
        }
    }

    @Test func `a free call takes one commit with its answer, and is replayed`() async throws {
        let function = function()
        let world = CallWorld(function)
        let who = try await world.account()
        gate.open()
        let answer = await world.answer(who, "k")
        #expect(answer.status == 200 && answer.charged == 0 && !answer.isReplayed)
        #expect(world.storage.commits == 1)
        let again = await world.answer(who, "k")
        #expect(again.isReplayed && again.body == answer.body)
        #expect(function.runCount == 1 && world.storage.commits == 1)
        #expect(await world.answer(who, "k", ["other": 1]).code == "idempotency_mismatch")
    }

    @Test func `a free call that fails takes one commit, and can run again with its key`()
        async throws
    {
        let world = CallWorld(function())
        let who = try await world.account()
        gate.open()
        #expect(await world.answer(who, "k", ["fail": 1]).code == "upstream_failed")
        #expect(world.storage.commits == 1)
        #expect(await world.answer(who, "k", ["fail": 1]).isReplayed == false)
        #expect(world.storage.commits == 2)
    }

    @Test func `the key of a running free call is taken for all requests`() async throws {
        let function = function()
        var paid = ScriptedFunction("paid", FunctionRules(price: .fixed(1)))
        paid.hold = 1
        let world = CallWorld(function, paid)
        let who = try await world.account()
        let other = try await world.account(2)
        let call = Task { await world.answer(who, "k") }
        try await function.waitForRuns(1)
        #expect(world.storage.commits == 0)

        #expect(await world.answer(who, "k").code == "operation_in_progress")
        #expect(await world.answer(who, "k", ["other": 1]).code == "idempotency_mismatch")
        #expect(await world.answer(who, "k", ["bad": 1]).code == "idempotency_mismatch")
        #expect(await world.answer(who, "k", of: "paid").code == "idempotency_mismatch")
        #expect(try await world.balance(who).held == 0)
        let resumed = Task { try await world.stream(who, "k", after: 0).read() }
        let found = Task { try await world.find(who, "k").read() }
        gate.open()
        // The same key of another account is a different one.
        #expect(await world.answer(other, "k").status == 200)
        #expect(try await call.finished().status == 200)
        #expect(try await resumed.finished().status == 200)
        #expect(try await found.finished().texts == ["made"])
        #expect(function.runCount == 2)
        #expect(await world.answer(who, "k").isReplayed)
    }

    @Test func `a free call cannot use a key with a concurrent acceptance`() async throws {
        let function = function(FunctionRules(price: .free, streams: true))
        var paid = ScriptedFunction("paid", FunctionRules(price: .fixed(1)))
        paid.hold = 1
        let world = CallWorld(function, paid)
        let who = try await world.account()
        let (reached, stored) = (WatchedState(0), WatchedState(false))
        world.storage.state.withLock {
            $0.delay = { _ in
                reached.withLock { $0 += 1 }
                try? await stored.pass()
            }
        }
        let bought = Task { await world.answer(who, "k", of: "paid") }
        let streamed = Task { try await world.stream(who, "s").read() }
        try await reached.wait(for: "both calls at the storage") { $0 == 2 }

        #expect(await world.answer(who, "k").code == "idempotency_mismatch")
        #expect(await world.answer(who, "s").code == "operation_in_progress")
        stored.open()
        gate.open()
        #expect(try await bought.finished().status == 200)
        #expect(try await streamed.finished().status == 200)
        // Each key has one call, and the refused requests have left nothing behind.
        #expect(function.runCount == 1 && paid.runCount == 1)
        #expect(await world.answer(who, "k", of: "paid").isReplayed)
        #expect(await world.answer(who, "k").code == "idempotency_mismatch")
        #expect(await world.answer(who, "s").isReplayed)
        #expect(try await world.balance(who).available == 99)
    }

    @Test func `a free call of a crashed process has not happened`() async throws {
        let storage = MemoryStorage()
        let function = function()
        let before = CallWorld(function, over: storage)
        let who = try await before.account()
        let call = Task { await before.answer(who, "k") }
        try await function.waitForRuns(1)
        before.storage.die()
        let after = CallWorld(function, over: storage)
        #expect(try await after.authority.recover() == 0)
        let position = OperationPosition(account: who.account, key: "k")
        #expect(try await after.authority.operation(position) == nil)
        gate.open()
        #expect(await after.answer(who, "k").status == 200)
        #expect(await after.answer(who, "k").isReplayed)
        #expect(function.runCount == 2)
        _ = try await before.delay.advancing { try await call.finished() }
    }

    @Test func `a key that another request has taken in the meantime keeps its answer`()
        async throws
    {
        let function = function()
        let world = CallWorld(function)
        let who = try await world.account()
        let call = Task { await world.answer(who, "k") }
        try await function.waitForRuns(1)
        let spend = Submission("k", SpendRequest(amount: 3, reason: "tea"))
        #expect(try await world.authority.spend(who.account, spend).stored.status == 200)
        gate.open()
        #expect(try await call.finished().code == "idempotency_mismatch")
        #expect(try await world.authority.spend(who.account, spend).replayed)
        #expect(try await world.balance(who).available == 97)
        #expect(try await world.isSound())
    }

    @Test func `a free call whose end cannot be stored is stored later, and does not run again`()
        async throws
    {
        let function = function()
        let world = CallWorld(function)
        let who = try await world.account()
        gate.open()
        world.storage.fail { _, isCommit in isCommit ? .failed("no") : nil }
        let failed = try await world.delay.advancing { await world.answer(who, "k") }
        #expect(failed.code == "internal_fault")
        world.storage.fail { _, _ in nil }
        #expect(await world.answer(who, "k").code == "operation_in_progress")
        #expect(try await world.runner.settleEnded() == 1)
        #expect(await world.answer(who, "k").isReplayed && function.runCount == 1)
    }

    @Test func `a free call that cannot be looked up is refused, and its key is free`() async throws
    {
        let function = function()
        let world = CallWorld(function)
        let who = try await world.account()
        gate.open()
        world.storage.fail { _, isCommit in isCommit ? nil : .overloaded(retryAfterSeconds: 1) }
        #expect(await world.answer(who, "k").code == "overloaded")
        world.storage.fail { _, _ in nil }
        #expect(await world.answer(who, "k").status == 200 && function.runCount == 1)
        let gone = Identity(account: .numbered(9), session: .numbered(10))
        #expect(await world.answer(gone, "k").code == "not_found")
    }

    @Test func `free calls that share a run are committed separately`() async throws {
        let function = function(FunctionRules(price: .free, cache: .forever))
        let world = CallWorld(function)
        let who = try await world.account()
        let calls = ["a", "b", "c"].map { key in Task { await world.answer(who, key, ["q": 1]) } }
        try await function.waitForRuns(1)
        #expect(world.storage.commits == 0)
        gate.open()
        for call in calls { #expect(try await call.finished().status == 200) }
        #expect(function.runCount == 1 && world.storage.commits == 3)
        for key in ["a", "b", "c"] {
            #expect(await world.answer(who, key, ["q": 1]).isReplayed)
        }
    }

    @Test func `a free call that cannot be repeated is not stored`() async throws {
        let function = function()
        let world = CallWorld(function)
        let who = try await world.account()
        gate.open()
        var submission = Submission("k", FunctionRequest(input: JSONValue.object([:])))
        submission.mayComeAgain = false
        guard case .answer(let answer, _) = try await world.runner.call("f", who, submission)
        else {
            Issue.record("The answer is not in one piece.")
            return
        }
        #expect(answer.stored.status == 200 && !answer.replayed)
        #expect(world.storage.commits == 0)
        let position = OperationPosition(account: who.account, key: "k")
        #expect(try await world.authority.operation(position) == nil)
    }

    @Test func `a free call with parts that a reader may have seen is stored from its start`()
        async throws
    {
        let function = function(FunctionRules(price: .free, streams: true))
        let world = CallWorld(function)
        let who = try await world.account()
        let events = try await world.stream(who, "k")
        let position = OperationPosition(account: who.account, key: "k")
        #expect(try await world.authority.operation(position)?.state == .running(hold: nil))
        gate.open()
        #expect(try await events.read().status == 200)
    }
}
