import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineAuthority

/// Storage failures at every step of a call: one end per key, and no double charge.
@Suite("Calls on a failing storage", .bounded(.seconds(60)))
struct CallFaultTests {
    /// The failing command of a call, and its error.
    struct Fault: CustomTestStringConvertible {
        var step: Int
        var error: StorageError
        var isStored = false

        var testDescription: String { "\(step) \(error) \(isStored)" }
    }

    private static let faults: [Fault] = (1...3).flatMap { step in
        [
            Fault(step: step, error: .failed("no")), Fault(step: step, error: .full("no")),
            Fault(step: step, error: .overloaded(retryAfterSeconds: 1)),
            Fault(step: step, error: .unknownOutcome("no")),
        ]
    }

    @Test(arguments: faults, [true, false])
    func `a call with one failing command is charged once, with one end`(
        fault: Fault,
        streams: Bool
    ) async throws {
        let rules = FunctionRules(price: .fixed(5), streams: streams)
        let function = ScriptedFunction("f", rules) { _, context in
            await context.write("a", 1)
            return .init(output: "made", charge: 5)
        }
        let world = CallWorld(function)
        let who = try await world.account()
        let count = WatchedState(0)
        world.storage.fail { _, isCommit in
            guard isCommit else { return nil }
            return count.withLock { count in
                count += 1
                return count == fault.step ? fault.error : nil
            }
        }
        let end = try await world.delay.advancing { () -> CallAnswer in
            for _ in 0..<5 {
                let answer = await world.answer(who, "k")
                if answer.status == 200 { return answer }
            }
            return CallAnswer(status: 0, body: .null)
        }
        #expect(end.status == 200 && end.charged == 5)
        #expect(function.runCount == 1)
        let balance = try await world.balance(who)
        #expect((balance.available, balance.held) == (95, 0))
        #expect(try await world.isSound())
    }

    @Test func `an acceptance with an unknown outcome is withdrawn, and its key is free`()
        async throws
    {
        let function = ScriptedFunction("f", FunctionRules(price: .fixed(5)))
        let world = CallWorld(function)
        let who = try await world.account()
        // The acceptance is stored, but its outcome is reported as unknown.
        let isFirst = WatchedState(true)
        world.storage.state.withLock { state in
            state.afterwards = { isCommit in
                isFirst.withLock { isFirst in
                    defer { isFirst = false }
                    return isFirst && isCommit ? .unknownOutcome("no") : nil
                }
            }
        }
        #expect(await world.answer(who, "k").code == "internal_fault")
        #expect(try await world.balance(who).held == 0)
        #expect(await world.answer(who, "k").charged == 5)
        #expect(function.runCount == 1)
    }

    @Test func `the end of a call does not affect a newer call with its key`()
        async throws
    {
        let calls = RunningCalls()
        let queue = CallQueue(limit: 1, accountShare: 1)
        func call(_ number: UInt64) -> RunningCall {
            let sharedRun = SharedRun(
                id: .numbered(number),
                at: ManualClock.start,
                isStreamed: false,
                turn: queue.turn(of: "f", FunctionLimits())
            ) { _ in }
            return RunningCall(
                AcceptedCall(operation: .numbered(number), account: .numbered(1), key: "k"),
                sharedRun,
                .price,
                ticket: nil,
                isPlain: true,
                expiresAt: .seconds(600),
                fingerprint: Fingerprint("k"),
                price: .fixed(1)
            ) { _ in 0 }
        }
        let (old, new) = (call(1), call(2))
        calls.add(old)
        calls.add(new)
        calls.remove(old)
        #expect(calls.call(new.call.position) === new && calls.count == 1)
        calls.remove(new)
        #expect(calls.count == 0)
    }

    @Test func `a request with the same key is not a repetition`() async throws {
        let rules = FunctionRules(price: .fixed(1), limits: FunctionLimits(repeatsPerMinute: 2))
        let world = CallWorld(ScriptedFunction("f", rules))
        let who = try await world.account()
        for _ in 0..<5 { #expect(await world.answer(who, "a").status == 200) }
        #expect(await world.answer(who, "b").status == 200)
        #expect(await world.answer(who, "c").code == "rate_limited")
        #expect(await world.answer(who, "b").isReplayed)
        #expect(try await world.balance(who).available == 98)
    }
}
