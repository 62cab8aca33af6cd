import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

/// No caller waits for a prefetch, so it keeps nothing alive.
@Suite("Prefetches", .bounded)
struct PrefetchTests {
    /// A network that reports requests and answers only when they are cancelled.
    private struct Silence: HTTPTransport {
        let asked = AsyncStream.makeStream(of: Void.self)
        let given = AsyncStream.makeStream(of: Void.self)

        func send(_ request: TransportRequest) async throws(TransportError) -> TransportResponse {
            asked.continuation.finish()
            let (never, silence) = AsyncStream.makeStream(of: Void.self)
            for await _ in never {}  // tidy: allow unbounded-wait: the caller is bounded.
            silence.finish()
            given.continuation.finish()
            throw .cancelled
        }
    }

    private static func expectRelease<Value>(afterPrefetching query: ValueQuery<Value>) async throws
    {
        let network = Silence()
        weak var released: SanguineClient?
        do {
            let client = try TestClient { $0.transport = network }.client
            released = client
            client.prefetch(query)
            try await within(.seconds(30), "the request") {
                for await _ in network.asked.stream {}  // tidy: allow unbounded-wait: bounded.
            }
        }

        #expect(released == nil)
        try await within(.seconds(30), "the request's end") {
            for await _ in network.given.stream {}  // tidy: allow unbounded-wait: bounded.
        }
    }

    @Test func `a prefetch does not keep the client alive`() async throws {
        try await Self.expectRelease(afterPrefetching: .profile("1"))
    }

    @Test func `a prefetch of the balance does not keep the client alive`() async throws {
        try await Self.expectRelease(afterPrefetching: .balance)
    }

    @Test func `a prefetched value is available to later readers`() async throws {
        let test = try TestClient(network: .profiles())
        defer { test.client.close() }
        let states = test.client.updates(of: .fleeting("1"))
        test.client.prefetch(.fleeting("1"))
        let profile = try await states.first("the value") { $0.value != nil }.value

        #expect(profile == Profile(name: "1 1"))
        #expect(test.network.requests.count == 1)
    }
}
