import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

/// Guarantee 2, One flight, with real tasks and a scripted network.
@Suite("Single flight", .bounded)
struct SingleFlightTests {
    @Test func `ten thousand callers cause one call and receive one answer`() async throws {
        let test = try TestClient(network: .profiles())
        test.network.hold()

        let names = try await withThrowingTaskGroup(of: String.self) { group in
            for _ in 1...10_000 {
                group.addTask { try await test.client.value(of: .profile("ada")).name }
            }
            try await test.network.waitForHeld(1)
            try await test.client.queries.waitForWaiters(10_000, of: .profile("ada"))
            test.network.release()
            return try await group.reduce(into: Set()) { $0.insert($1) }
        }

        #expect(names == ["ada 1"])
        #expect(test.network.requests.count == 1)
    }

    @Test func `different keys are fetched concurrently`() async throws {
        let test = try TestClient(network: .profiles())
        test.network.hold()
        async let ada = test.client.value(of: .profile("ada"))
        async let bob = test.client.value(of: .profile("bob"))
        try await test.network.waitForHeld(2)
        test.network.release()

        #expect(Set([try await ada.name, try await bob.name]).count == 2)
        #expect(test.network.mostInFlight == 2)
    }

    @Test func `a cancelled leader leaves the call to the others`() async throws {
        let test = try TestClient(network: .profiles())
        test.network.hold()
        let leader = Task { try await test.client.value(of: .profile("ada")) }
        try await test.network.waitForHeld(1)
        let follower = Task { try await test.client.value(of: .profile("ada")) }
        try await test.client.queries.waitForWaiters(2, of: .profile("ada"))

        leader.cancel()
        await #expect(throws: SanguineError.cancelled) { try await leader.finished() }
        test.network.release()

        #expect(try await follower.finished() == Profile(name: "ada 1"))
        #expect(test.network.cancelled == 0)
    }

    @Test func `the call is cancelled when the last caller cancels`() async throws {
        let test = try TestClient(network: .profiles())
        test.network.hold()
        let callers = (1...3).map { _ in
            Task { try await test.client.value(of: .profile("ada")) }
        }
        try await test.network.waitForHeld(1)
        try await test.client.queries.waitForWaiters(3, of: .profile("ada"))
        for caller in callers { caller.cancel() }

        try await test.network.waitForCancelled(1)
        for caller in callers {
            await #expect(throws: SanguineError.cancelled) { try await caller.finished() }
        }
        #expect(test.client.snapshot(of: .profile("ada")) == ValueSnapshot())
    }

    @Test func `after a cancelled call the next caller starts a new one`() async throws {
        let test = try TestClient(network: .profiles())
        test.network.hold()
        let caller = Task { try await test.client.value(of: .profile("ada")) }
        try await test.network.waitForHeld(1)
        caller.cancel()
        try await test.network.waitForCancelled(1)
        test.network.release()

        #expect(try await test.client.value(of: .profile("ada")).name == "ada 2")
    }

    @Test func `an error reaches all waiting callers and is not cached`() async throws {
        let test = try TestClient(network: .profiles())
        test.network.script(.status(404))
        test.network.hold()
        let callers = (1...20).map { _ in
            Task { try await test.client.value(of: .profile("ada")) }
        }
        try await test.network.waitForHeld(1)
        try await test.client.queries.waitForWaiters(20, of: .profile("ada"))
        test.network.release()

        for caller in callers {
            let error = await #expect(throws: SanguineError.self) { try await caller.finished() }
            #expect(error?.code == "http_404")
        }
        #expect(test.network.requests.count == 1)
        #expect(try await test.client.value(of: .profile("ada")).name == "ada 1")
    }

    @Test func `a caller that is cancelled beforehand sends nothing`() async throws {
        let test = try TestClient(network: .profiles())
        let caller = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            return try await test.client.value(of: .profile("ada"))
        }

        await #expect(throws: SanguineError.cancelled) { try await caller.finished() }
        #expect(test.network.requests.isEmpty)
    }

    @Test func `closing the client answers all waiting callers`() async throws {
        let test = try TestClient(network: .profiles())
        test.network.hold()
        let caller = Task { try await test.client.value(of: .profile("ada")) }
        try await test.network.waitForHeld(1)
        test.client.close()

        await #expect(throws: SanguineError.closed) { try await caller.finished() }
        await #expect(throws: SanguineError.closed) {
            try await test.client.value(of: .profile("bob"))
        }
    }

    /// Callers start and cancel at random; those that stay receive one answer, from one call.
    @Test(arguments: UInt64(1)...10)
    func `every caller that stays is answered, even if others cancel`(seed: UInt64) async throws {
        var random = SplitMix64(seed: seed)
        let test = try TestClient(network: .profiles(), seed: seed)
        for _ in 1...20 {
            let answeredBefore = test.network.requests.count - test.network.cancelled
            test.network.hold()
            test.client.invalidate(.profile("ada"))
            let stayCount = Int.random(in: 0...3, using: &random)
            let staying = (0..<stayCount).map { _ in
                Task { try await test.client.value(of: .profile("ada")) }
            }
            let leaving = (1...5).map { _ in
                Task { try await test.client.value(of: .profile("ada")) }
            }
            for caller in leaving.shuffled(using: &random) { caller.cancel() }
            for caller in leaving { _ = try? await caller.finished() }
            test.network.release()
            var names: Set<String> = []
            for caller in staying { names.insert(try await caller.finished().name) }
            #expect(names.count == min(stayCount, 1))
            try await eventually("no request is under way") { test.network.inFlight == 0 }
            let answered = test.network.requests.count - test.network.cancelled
            #expect((min(stayCount, 1)...1).contains(answered - answeredBefore))
        }
    }
}

extension QueryCache {
    /// Returns when that many callers wait for the query.
    func waitForWaiters<Value>(
        _ count: Int,
        of query: ValueQuery<Value>,
        line: Int = #line
    ) async throws {
        try await eventually("\(count) callers wait", line: line) {
            entries.waiterCount(of: query) >= count
        }
    }
}
