import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

/// The queue of reads before a scripted network, with real tasks.
@Suite("Request queue", .bounded)
struct RequestQueueTests {
    private static let host = URL(string: TestClient.server)?.hostKey ?? ""

    private static func ask(
        _ test: TestClient,
        _ id: String,
        _ priority: FetchPriority = .normal
    ) -> Task<Profile, any Error> {
        Task { try await test.client.value(of: .profile(id), priority: priority) }
    }

    private static func waitForWaiting(
        _ count: Int,
        _ test: TestClient,
        line: Int = #line
    ) async throws {
        try await eventually("\(count) reads wait", line: line) {
            test.client.queue.waiting(for: host) == count
        }
    }

    /// Returns a client whose slots are occupied by reads that the network holds.
    private static func busy() async throws -> TestClient {
        let test = try TestClient(network: .profiles())
        test.network.hold()
        for slot in 1...ClientLimits.readsPerHost { _ = ask(test, "slot-\(slot)") }
        try await test.network.waitForHeld(ClientLimits.readsPerHost)
        return test
    }

    private static func names(_ test: TestClient) -> [String] {
        test.network.requests.dropFirst(ClientLimits.readsPerHost).map(\.url.lastPathComponent)
    }

    @Test func `reads beyond a host's slots wait`() async throws {
        let test = try await Self.busy()
        let callers = ["x", "y"].map { Self.ask(test, $0) }
        try await Self.waitForWaiting(2, test)
        #expect(test.network.requests.count == ClientLimits.readsPerHost)
        test.network.release()

        for caller in callers { _ = try await caller.finished() }
        #expect(test.network.mostInFlight <= ClientLimits.readsPerHost)
    }

    @Test func `the configuration sets the number of concurrent reads`() async throws {
        let test = try TestClient(network: .profiles()) { $0.readsPerHost = 1 }
        test.network.hold()
        let callers = ["x", "y"].map { Self.ask(test, $0) }
        try await test.network.waitForHeld(1)
        try await Self.waitForWaiting(1, test)
        test.network.release()

        for caller in callers { _ = try await caller.finished() }
        #expect(test.network.mostInFlight == 1)
    }

    @Test func `visible reads go before older ones`() async throws {
        let test = try await Self.busy()
        var callers: [Task<Profile, any Error>] = []
        let waiting: [(String, FetchPriority)] = [
            ("soon", .prefetch), ("normal", .normal), ("screen", .visible),
        ]
        for (count, (id, priority)) in waiting.enumerated() {
            callers.append(Self.ask(test, id, priority))
            try await Self.waitForWaiting(count + 1, test)
        }
        for count in 1...3 {
            try await test.network.releaseFirst { $0.url.lastPathComponent.hasPrefix("slot") }
            try await test.network.waitForRequests(ClientLimits.readsPerHost + count)
        }
        #expect(Self.names(test) == ["screen", "normal", "soon"])
        test.network.release()
        for caller in callers { _ = try await caller.finished() }
    }

    @Test func `prefetches leave slots for callers that wait`() async throws {
        let test = try TestClient(network: .profiles())
        test.network.hold()
        for id in 1...10 { test.client.prefetch(.profile("soon-\(id)")) }
        try await Self.waitForWaiting(10 - ClientLimits.prefetchesPerHost, test)
        let caller = Self.ask(test, "now")
        try await test.network.waitForHeld(ClientLimits.prefetchesPerHost + 1)

        #expect(test.network.requests.last?.url.lastPathComponent == "now")
        test.network.release()
        _ = try await caller.finished()
    }

    @Test func `joining a waiting fetch raises its priority`() async throws {
        let test = try await Self.busy()
        test.client.prefetch(.profile("x"))
        try await Self.waitForWaiting(1, test)
        let other = Self.ask(test, "y")
        try await Self.waitForWaiting(2, test)
        let caller = Self.ask(test, "x", .visible)
        try await eventually("a visible read waits") {
            test.client.queue.waiting(for: Self.host, of: .visible) == 1
        }
        try await test.network.releaseFirst()
        try await test.network.waitForRequests(ClientLimits.readsPerHost + 1)

        #expect(Self.names(test) == ["x"])
        test.network.release()
        _ = try await caller.finished()
        _ = try await other.finished()
    }

    @Test func `observing a value raises its prefetch`() async throws {
        let test = try await Self.busy()
        test.client.prefetch(.profile("x"))
        try await Self.waitForWaiting(1, test)
        test.client.prefetch(.profile("y"))
        try await Self.waitForWaiting(2, test)
        let updates = test.client.updates(of: .profile("y"))
        #expect(test.client.queue.waiting(for: Self.host, of: .normal) == 1)
        try await test.network.releaseFirst()
        try await test.network.waitForRequests(ClientLimits.readsPerHost + 1)

        #expect(Self.names(test) == ["y"])
        test.network.release()
        try await updates.first("a value") { $0.value != nil }
    }

    @Test func `a fresh value is not prefetched`() async throws {
        let test = try TestClient(network: .profiles())
        _ = try await Self.ask(test, "x").finished()
        test.client.prefetch(.profile("x"))
        _ = try await test.client.refresh(.profile("x"), priority: .prefetch)

        #expect(test.network.requests.count == 2)
    }

    @Test func `the balance does not wait for reads`() async throws {
        let test = try await Self.busy()
        let balance = Task { try await test.client.value(of: .balance) }
        try await test.network.waitForRequests(ClientLimits.readsPerHost + 1)

        #expect(Self.names(test) == ["balance"])
        balance.cancel()
        test.network.release()
    }

    @Test func `a cancelled caller leaves the queue and sends nothing`() async throws {
        let test = try await Self.busy()
        let caller = Self.ask(test, "x")
        try await Self.waitForWaiting(1, test)
        caller.cancel()

        await #expect(throws: SanguineError.cancelled) { try await caller.finished() }
        try await Self.waitForWaiting(0, test)
        #expect(test.network.requests.count == ClientLimits.readsPerHost)
        test.network.release()
    }

    @Test func `a full queue is reported at once with instructions`() async throws {
        let queue = RequestQueue(limits: .init(slots: 1, waiting: 1))
        let ticket = try await queue.enter("a", RequestPriority(.normal))
        let waiting = Task { try await queue.enter("a", RequestPriority(.normal)) }
        try await eventually("a read waits") { queue.waiting(for: "a") == 1 }

        let error = await #expect(throws: SanguineError.self) {
            _ = try await queue.enter("a", RequestPriority(.normal))
        }
        #expect(error == .queueFull(limit: 1))
        #expect(error?.description.contains("Batch") == true)
        ticket.release()
        try await waiting.finished().release()
        #expect(queue.underWay(to: "a") == 0)
    }

    @Test(arguments: UInt64(1)...5)
    func `every request is started, cancelled or rejected, and slots are returned`(
        seed: UInt64
    ) async throws {
        let queue = RequestQueue(limits: .init(slots: 3, waiting: 30))
        try await withThrowingTaskGroup(of: Void.self) { group in
            var random = SplitMix64(seed: seed)
            for _ in 1...300 {
                let priority = RequestPriority(
                    FetchPriority.allCases.randomElement(using: &random) ?? .normal
                )
                let isCancelled = Int.random(in: 0..<4, using: &random) == 0
                let isRaised = Bool.random(using: &random)
                group.addTask {
                    let request = Task {
                        guard let ticket = try? await queue.enter("a", priority) else { return }
                        await Task.yield()  // tidy: allow busy-wait: a request takes a moment.
                        ticket.release()
                    }
                    if isRaised { priority.raise(to: .visible) }
                    if isCancelled { request.cancel() }
                    try await request.finished()
                }
            }
            try await group.waitForAll()
        }
        #expect(queue.underWay(to: "a") == 0 && queue.waiting(for: "a") == 0)
    }
}

extension SanguineClient {
    var queue: RequestQueue { queries.entries.user.attempts.backend.queue }
    var batches: Batches { queries.entries.user.attempts.backend.batches }
}
