import SanguineModel
import SanguineTesting
import Synchronization
import TestSupport
import Testing

@testable import Sanguine

/// A wait ends with a result, at its time limit, or with its task.
@Suite("Waiting", .bounded)
struct WaitingTests {
    private let short = Duration.milliseconds(20)
    private let clock = ManualClock()

    @Test func `a wait that times out reports its subject, duration, location and state`()
        async throws
    {
        let network = ScriptedTransport()
        let error = await #expect(throws: WaitTimeout.self) {
            let state = WatchedState(["a", "b"])
            try await state.wait(for: "3 songs", within: short, found: { "there are \($0.count)" })
            {
                $0.count == 3
            }
        }
        #expect(
            error?.description
                == "SanguineTests/WaitingTests.swift:\(error?.line ?? 0): "
                + "Waited 0.02 seconds in vain for 3 songs; there are 2."
        )
        let held = await #expect(throws: WaitTimeout.self) {
            try await network.releaseFirst(within: short)
        }
        #expect(
            held?.found == "0 requests have arrived; 0 are held, 0 exchanges were cancelled"
        )
    }

    @Test func `a change wakes only the callers that wait for it`() async throws {
        let count = WatchedState(0)
        let ends = WatchedState<[Int]>([])
        let waiters = (1...3).map { number in
            Task {
                try await count.wait(for: "\(number)") { $0 == number }
                ends.withLock { $0.append(number) }
            }
        }
        for number in [2, 1, 3] {
            let before = ends.value.count
            // The waiters may not have started, so the number stays until they have seen it.
            count.withLock { $0 = number }
            try await ends.wait(for: "another end") { $0.count == before + 1 }
        }
        for waiter in waiters { try await waiter.finished() }
        #expect(ends.value == [2, 1, 3])
    }

    @Test func `a condition that already holds is not waited for`() async throws {
        let state = WatchedState(1)
        try await state.wait(for: "1", within: .zero) { $0 == 1 }
        #expect(try await state.first("a number", within: .zero) { $0 } == 1)
        try await eventually("1", within: .zero) { state.value == 1 }
    }

    @Test func `a wait that is cancelled ends at once`() async throws {
        let waits: [@Sendable () async throws -> Void] = [
            { try await WatchedState(0).wait(for: "1") { $0 == 1 } },
            { try await eventually("never") { false } },
            { try await ManualClock().waitForSleepers(1) },
            { try await ScriptedTransport().waitForRequests(1) },
            { try await Task { try await self.clock.sleep(for: .seconds(1)) }.finished() },
        ]
        for wait in waits {
            let waiting = Task { try await wait() }
            waiting.cancel()
            let clock = ContinuousClock()
            let start = clock.now
            await #expect(throws: CancellationError.self) { try await waiting.finished() }
            #expect(clock.now - start < TestingLimits.wait)
        }
    }

    @Test func `a task whose wait times out is cancelled`() async throws {
        let sleeper = Task { try await clock.sleep(for: .seconds(1)) }
        try await clock.waitForSleepers(1)
        await #expect(throws: WaitTimeout.self) { try await sleeper.finished(within: short) }
        await #expect(throws: CancellationError.self) { try await sleeper.finished() }
    }

    @Test func `a task that ignores cancellation does not prolong the wait`() async throws {
        let gate = WatchedState(false)
        let stubborn = Task {
            await Task { try? await gate.wait(for: "the gate") { $0 } }.finishedAnyway()
        }
        await #expect(throws: WaitTimeout.self) { try await stubborn.finished(within: short) }
        gate.withLock { $0 = true }
        try await stubborn.finished()
    }

    @Test func `a sequence that ends without a match is reported as ended`() async throws {
        let (numbers, continuation) = AsyncStream.makeStream(of: Int.self)
        for number in 1...3 { continuation.yield(number) }
        #expect(try await numbers.first("2") { $0 == 2 } == 2)
        continuation.finish()
        let error = await #expect(throws: WaitTimeout.self) {
            try await numbers.first("4") { $0 == 4 }
        }
        #expect(error?.found == "the sequence has ended")
    }

    @Test func `work that runs while a clock is advanced is bounded`() async throws {
        let other = ManualClock()
        try await clock.advancing { try await clock.sleep(for: .seconds(60)) }
        await #expect(throws: WaitTimeout.self) {
            try await clock.advancing(within: short) {
                try await other.sleep(for: .seconds(1))
            }
        }
    }

    @Test func `a release waits for the request that it releases`() async throws {
        let fixture = ClientFixture()
        let client = try fixture.client()
        defer { client.close() }
        fixture.authority.stop(ClientFixture.balancePath, at: .answer)
        async let released: Void = fixture.authority.release(
            ClientFixture.balancePath,
            at: .answer
        )
        let balance = try await client.value(of: .balance)
        try await released
        #expect(balance.available == 100)
    }
}

extension Task where Failure == Never {
    /// Waits for the task to end, even if the waiting task is cancelled.
    fileprivate func finishedAnyway() async {
        _ = await value
    }
}
