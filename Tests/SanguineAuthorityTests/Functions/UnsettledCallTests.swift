import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineAuthority

/// Calls whose end a failing storage does not accept, which are settled later.
@Suite("Unsettled calls", .bounded(.seconds(60)))
struct UnsettledCallTests {
    private let gate = WatchedState(false)

    /// A function that makes a part and waits at the gate; costs 4 if cut short, 405 if complete.
    private func function(_ price: Price = .fixed(500)) -> ScriptedFunction {
        var function = ScriptedFunction("f", FunctionRules(price: price, streams: true)) {
            [gate] _, context async throws(Problem) in
            await context.write("a", 1)
            try await gate.pass()
            return .init(output: "made", charge: 405)
        }
        function.cost = { _ in 4 }
        return function
    }

    /// Starts a call, and lets it end while the storage accepts no change during all retries.
    private func endUnstored(
        _ world: CallWorld,
        _ function: ScriptedFunction,
        _ who: Identity,
        streams: Bool = false,
        _ error: StorageError = .full("no")
    ) async throws {
        let call = Task { () -> ProblemCode? in
            guard streams else { return await world.answer(who, "k").problem?.code }
            return try await world.stream(who, "k").read().broken
        }
        try await function.waitForRuns(1)
        world.storage.fail { _, isCommit in isCommit ? error : nil }
        gate.open()
        let code = try await world.delay.advancing { try await call.finished() }
        #expect(code == (error == .full("no") ? .operationInProgress : .internalFault))
        #expect(world.runner.unsettledCount == 1)
    }

    @Test(
        arguments: [StorageError.full("no"), .failed("no"), .unknownOutcome("no")],
        [true, false]
    )
    func `a call that ends on a full disk is charged its actual price once there is space`(
        error: StorageError,
        streams: Bool
    ) async throws {
        let function = function()
        let world = CallWorld(function)
        let who = try await world.account(tokens: 1_000)
        try await endUnstored(world, function, who, streams: streams, error)
        let refusal = await #expect(throws: Problem.self) { try await world.runner.settleEnded() }
        #expect(refusal?.code == (error == .full("no") ? .overloaded : .internalFault))
        // Its hold has expired, and the expiry would charge only the parts.
        world.wall.advance(by: .seconds(700))
        #expect(try await world.runner.expireHolds() == 0)
        let meanwhile = await world.answer(who, "k")
        #expect(meanwhile.code == "operation_in_progress" && meanwhile.problem?.retryAfter == 1)

        world.storage.fail { _, _ in nil }
        #expect(try await world.runner.settleEnded() == 1)
        #expect(try await world.runner.settleEnded() == 0)
        #expect(try await world.runner.expireHolds() == 0)
        let answer = await world.answer(who, "k")
        #expect(answer.isReplayed && answer.charged == 405)
        let balance = try await world.balance(who)
        #expect((balance.available, balance.held) == (595, 0))
        #expect(try await world.isSound())
        #expect(function.runCount == 1 && world.runner.unsettledCount == 0)
    }

    @Test func `the key of a free call stays taken until its end is stored`() async throws {
        let function = function(.free)
        let world = CallWorld(function)
        let who = try await world.account()
        try await endUnstored(world, function, who)
        #expect(await world.answer(who, "k").code == "operation_in_progress")
        #expect(await world.answer(who, "k", ["other": true]).code == "idempotency_mismatch")
        let position = OperationPosition(account: who.account, key: "k")
        let found = await #expect(throws: Problem.self) {
            _ = try await world.runner.find(position, from: nil, as: .plain)
        }
        #expect(found?.code == .operationInProgress)

        world.storage.fail { _, _ in nil }
        #expect(try await world.runner.settleEnded() == 1)
        let answer = await world.answer(who, "k")
        #expect(answer.isReplayed && answer.output == "made")
        #expect(function.runCount == 1)
    }

    @Test func `a call that was ended in another way is not charged again`() async throws {
        let function = function()
        let world = CallWorld(function)
        let who = try await world.account(tokens: 1_000)
        try await endUnstored(world, function, who)
        world.storage.fail { _, _ in nil }
        world.wall.advance(by: .seconds(700))
        // As done by another process, which does not know of the call.
        #expect(try await world.authority.expireHolds() == 1)
        #expect(try await world.runner.settleEnded() == 1)
        #expect(world.runner.unsettledCount == 0)
        let balance = try await world.balance(who)
        #expect((balance.available, balance.held) == (500, 0))
        #expect(try await world.isSound())
    }

    @Test func `an acceptance that cannot be withdrawn now is withdrawn later`() async throws {
        let function = function()
        let world = CallWorld(function)
        let who = try await world.account(tokens: 1_000)
        let isFirst = WatchedState(true)
        world.storage.state.withLock { state in
            state.afterwards = { isCommit in isCommit ? .unknownOutcome("no") : nil }
        }
        world.storage.fail { _, isCommit in
            guard isCommit else { return nil }
            return isFirst.withLock { isFirst in
                defer { isFirst = false }
                return isFirst ? nil : .full("no")
            }
        }
        let answer = try await world.delay.advancing { await world.answer(who, "k") }
        #expect(answer.problem?.code == .internalFault)
        #expect(world.runner.unsettledCount == 1)
        #expect(try await world.balance(who).held == 500)
        world.storage.state.withLock { $0.afterwards = { _ in nil } }
        world.storage.fail { _, _ in nil }
        #expect(try await world.runner.settleEnded() == 1)
        #expect(try await world.balance(who).held == 0)
        #expect(function.runCount == 0)
    }

    @Test func `after a day, a call is left to its hold's expiry`() async throws {
        let function = function()
        let world = CallWorld(function)
        let who = try await world.account(tokens: 1_000)
        try await endUnstored(world, function, who)
        world.delay.advance(by: CallLimits.unsettledTime)
        #expect(try await world.runner.settleEnded() == 0)
        #expect(world.runner.unsettledCount == 0)
        #expect(world.reported.value.left == 1)
        world.storage.fail { _, _ in nil }
        world.wall.advance(by: .seconds(700))
        #expect(try await world.runner.expireHolds() == 1)
        #expect(try await world.balance(who).held == 0)
        #expect(try await world.isSound())
    }

    @Test func `a free call has no hold that expires, and waits until the storage works`()
        async throws
    {
        let function = function(.free)
        let world = CallWorld(function)
        let who = try await world.account(tokens: 1_000)
        try await endUnstored(world, function, who, streams: true)
        world.delay.advance(by: CallLimits.unsettledTime)
        await #expect(throws: Problem.self) { try await world.runner.settleEnded() }
        #expect(world.runner.unsettledCount == 1 && world.reported.value.left == 0)
        world.storage.fail { _, _ in nil }
        #expect(try await world.runner.settleEnded() == 1)
        #expect(await world.answer(who, "k").status == 200)
        #expect(try await world.balance(who).available == 1_000)
    }

    @Test(arguments: [true, false])
    func `a free call without room ends like one of a crashed process`(streams: Bool) async throws {
        let rules = FunctionRules(price: .free, streams: streams, keepsHistory: true)
        let function = ScriptedFunction("f", rules) {
            [gate] _, context async throws(Problem) in
            await context.write("a", 1)
            try await gate.pass()
            return .init(output: "made", charge: 0)
        }
        let world = CallWorld(function)
        let who = try await world.account()
        let thread = Identifier.numbered(7)
        let call = Task { await world.answer(who, "k", in: thread).problem?.code }
        try await function.waitForRuns(1)
        let other = CallSettlement(
            AcceptedCall(operation: .numbered(8), account: .numbered(9), key: "other"),
            Fingerprint("other"),
            .failed(Problem(.upstreamFailed, "No.")),
            parts: nil,
            with: [],
            bytes: CallLimits.unsettledBytes - CallSettlement.overhead
        )
        #expect(world.runner.services.unsettled.add(other, at: .zero))
        world.storage.fail { _, isCommit in isCommit ? .full("no") : nil }
        gate.open()
        let code = try await world.delay.advancing { try await call.finished() }
        #expect(code == .operationInProgress && world.reported.value.left == 1)
        world.storage.fail { _, _ in nil }

        func state() async throws -> ChatMessage.State? {
            let history = ThreadHistory(authority: world.authority)
            return try await history.last(1, of: RecordID(thread), who.account).first?.state
        }
        #expect(try await state() == .making)
        world.delay.advance(by: CallLimits.leftCallsWait)
        #expect(try await world.runner.expireHolds() == 1)
        #expect(try await state() != .making)
        world.delay.advance(by: CallLimits.leftCallsWait)
        #expect(try await world.runner.expireHolds() == 0)
    }

    @Test func `free calls that had no room are looked for once, and those that run stay`()
        async throws
    {
        let function = function(.free)
        let world = CallWorld(function)
        let who = try await world.account()
        let call = Task { try await world.stream(who, "k").read() }
        try await function.waitForRuns(1)
        let unsettled = world.runner.services.unsettled
        unsettled.leave(acceptedUntil: world.wall.now(), at: .zero)
        #expect(unsettled.removeLeft(at: .zero) == nil)
        world.delay.advance(by: CallLimits.leftCallsWait)
        #expect(try await world.runner.expireHolds() == 0)
        #expect(unsettled.removeLeft(at: CallLimits.leftCallsWait) == nil)
        gate.open()
        #expect(try await call.finished().broken == nil)
    }

    @Test func `the number and the bytes of unsettled calls are limited`() {
        let calls = UnsettledCalls()
        func settlement(_ number: Int, bytes: Int = 0) -> CallSettlement {
            let account = Identifier.numbered(1)
            let call = AcceptedCall(
                operation: .numbered(UInt64(number)),
                account: account,
                key: "\(number)",
                hold: .numbered(UInt64(number))
            )
            return CallSettlement(
                call,
                Fingerprint("\(number)"),
                .failed(Problem(.upstreamFailed, "No.")),
                parts: nil,
                with: [],
                bytes: bytes
            )
        }
        #expect(!calls.add(settlement(1, bytes: CallLimits.unsettledBytes), at: .zero))
        for number in 1...CallLimits.unsettled {
            #expect(calls.add(settlement(number), at: .zero))
        }
        #expect(!calls.add(settlement(CallLimits.unsettled + 1), at: .zero))
        calls.remove(settlement(7))
        #expect(calls.add(settlement(CallLimits.unsettled + 1), at: .zero))
        #expect(calls.all.count == CallLimits.unsettled)
        #expect(calls.removeOld(at: CallLimits.unsettledTime).count == CallLimits.unsettled)
        #expect(calls.add(settlement(2, bytes: CallLimits.unsettledBytes / 2), at: .zero))
    }
}
