import Foundation
import SanguineModel
import SanguineTesting
import Synchronization
import TestSupport
import Testing

@testable import Sanguine

/// Code that an app puts between the client and its own backend.
@Suite("Interceptors", .bounded)
struct InterceptorTests {
    private static func client(
        _ network: ScriptedTransport,
        _ interceptors: [Interceptor],
        _ change: (inout SanguineClient.Configuration) -> Void = { _ in }
    ) throws -> TestClient {
        try TestClient(network: network) { configuration in
            configuration.server = nil
            configuration.baseURL = URL(string: "http://songs.test")
            configuration.interceptors = interceptors
            change(&configuration)
        }
    }

    private static func noting(_ name: String, in notes: WatchedState<[String]>) -> Interceptor {
        { request, next in
            notes.withLock { $0.append("\(name) >") }
            let response = try await next(request)
            notes.withLock { $0.append("\(name) < \(response.status)") }
            return response
        }
    }

    private static let never = Policy.alwaysStale.retry(.never)
    private static let query = ValueQuery<Profile>("own", policy: never) {
        try await $0.get("profile", headers: ["X-Own": "1"])
    }

    @Test func `interceptors receive each request and response, the first one outermost`()
        async throws
    {
        let notes = WatchedState<[String]>([])
        let network = ScriptedTransport { _ in .status(404) }
        let interceptors = ["a", "b"].map { Self.noting($0, in: notes) }
        let test = try Self.client(network, interceptors)
        let error = await #expect(throws: SanguineError.self) {
            try await test.client.value(of: Self.query)
        }

        #expect(error?.code == "http_404")
        #expect(notes.value == ["a >", "b >", "b < 404", "a < 404"])
    }

    @Test func `an interceptor's changes are sent, and its responses are received`() async throws {
        let network = ScriptedTransport { .json(Profile(name: $0.headers["X-Signature"] ?? "")) }
        let signing: Interceptor = { request, next in
            var request = request
            request.headers["X-Signature"] = "signed \(request.headers["X-Own"] ?? "")"
            return try await next(request)
        }
        let stub: Interceptor = { request, next in
            guard request.url.lastPathComponent == "stub" else { return try await next(request) }
            return TransportResponse(status: 200, body: Data(#"{"name":"Stub"}"#.utf8))
        }
        let test = try Self.client(network, [signing, stub])
        let stubbed = ValueQuery<Profile>("stub") { try await $0.get("stub") }

        #expect(try await test.client.value(of: Self.query) == Profile(name: "signed 1"))
        #expect(try await test.client.value(of: stubbed) == Profile(name: "Stub"))
        #expect(network.requests.count == 1)
    }

    @Test func `an interceptor signs a request after the token is added, for each send`()
        async throws
    {
        let tokens = OwnTokens()
        tokens.expire()
        let signed = WatchedState<[String?]>([])
        let network = ScriptedTransport { request in
            tokens.accepts(request) ? .json(Profile(name: "Ada")) : .status(401)
        }
        let signing: Interceptor = { request, next in
            signed.withLock { $0.append(request.headers["Authorization"]) }
            return try await next(request)
        }
        let test = try Self.client(network, [signing]) { tokens.configure(&$0) }
        _ = try await test.client.value(of: Self.query)

        #expect(signed.value == ["Bearer 1", "Bearer 2"])
    }

    @Test func `a Content-Type that an interceptor or the caller sets takes precedence`()
        async throws
    {
        let network = ScriptedTransport { _ in .json(Profile(name: "Ada")) }
        let test = try Self.client(network, [])
        let query = ValueQuery<Profile>("patch") { request in
            try await request.post("search", ["a": 1], headers: ["content-type": "text/x-json"])
        }
        _ = try await test.client.value(of: query)

        let sent = try #require(network.requests.first)
        let types = sent.headers.filter { $0.key.lowercased() == "content-type" }
        #expect(types == ["content-type": "text/x-json"])
    }

    @Test func `network failures pass through interceptors unchanged`() async throws {
        let seen = WatchedState<[TransportError]>([])
        let network = ScriptedTransport { _ in .fail(.offline("test")) }
        let watching: Interceptor = { request, next in
            do {
                return try await next(request)
            } catch let error as TransportError {
                seen.withLock { $0.append(error) }
                throw error
            }
        }
        let test = try Self.client(network, [watching])
        await #expect(throws: SanguineError.transport(.offline("test"))) {
            try await test.client.value(of: Self.query)
        }

        #expect(seen.value == [.offline("test")])
    }

    @Test func `an interceptor's own error reaches the caller`() async throws {
        let error = ClosureErrorTests.Locked()
        let test = try Self.client(ScriptedTransport(), [{ _, _ in throw error }])
        let caught = await #expect(throws: SanguineError.self) {
            try await test.client.value(of: Self.query)
        }

        #expect(caught?.underlying as? ClosureErrorTests.Locked == error)
        #expect(test.network.requests.isEmpty)
    }

    @Test func `interceptors receive mutations, but no requests to the Sanguine server`()
        async throws
    {
        let notes = WatchedState<[String]>([])
        let fixture = SongFixture()
        let client = try fixture.client { $0.interceptors = [Self.noting("a", in: notes)] }
        defer { client.close() }
        let receipt = try client.perform(LikeSong(song: "a"))
        let outcome = try await within(.seconds(30), "the outcome") { try await receipt.outcome }
        #expect(outcome == .applied)
        #expect(notes.value.contains("a < 200"))
        let before = notes.value.count
        let test = try TestClient(network: .profiles()) {
            $0.interceptors = [Self.noting("server", in: notes)]
        }
        _ = try await test.client.value(of: .profile("1"))

        #expect(!notes.value.dropFirst(before).contains { $0.hasPrefix("server") })
    }

    @Test func `cancellation passes through interceptors to the caller`() async throws {
        let network = ScriptedTransport { _ in .json(Profile(name: "Ada")) }
        network.hold()
        let test = try Self.client(network, [{ try await $1($0) }])
        let caller = Task { try await test.client.value(of: Self.query) }
        try await network.waitForHeld(1)
        caller.cancel()

        await #expect(throws: SanguineError.cancelled) { try await caller.finished() }
        try await network.waitForCancelled(1)
    }
}
