import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

/// Names of header fields are case-insensitive (RFC 9110, section 5.1).
@Suite("Header fields", .bounded)
struct HeaderFieldTests {
    private static let body = Data(#"{"a":1}"#.utf8)

    private static func values(_ request: TransportRequest, _ name: String) -> [String] {
        request.headers.filter { $0.key.lowercased() == name.lowercased() }.map(\.value)
    }

    private static func sent(
        _ configure: (inout SanguineClient.Configuration) -> Void = { _ in },
        _ body: @escaping @Sendable (QueryRequest) async throws -> Void
    ) async throws -> TransportRequest {
        let test = try TestClient(network: .profiles(), change: configure)
        defer { test.client.close() }
        let query = ValueQuery<Profile>("own") { request in
            try await body(request)
            return Profile(name: "Ada")
        }
        _ = try await within(.seconds(30), "the value") { try await test.client.value(of: query) }
        return try #require(test.network.requests.first)
    }

    @Test(arguments: ["Content-Type", "content-type", "CONTENT-TYPE"])
    func `the caller's Content-Type takes precedence`(name: String) throws {
        let request = try TransportRequest(
            method: "PATCH",
            base: URL(string: "http://songs.test"),
            path: "songs/1",
            headers: [name: "application/merge-patch+json"],
            json: Self.body
        )

        #expect(Self.values(request, "content-type") == ["application/merge-patch+json"])
    }

    @Test func `a JSON body gets a Content-Type, and a request without a body gets none`() throws {
        let base = URL(string: "http://songs.test")
        let with = try TransportRequest(base: base, path: "songs", json: Self.body)
        let without = try TransportRequest(base: base, path: "songs")

        #expect(Self.values(with, "content-type") == ["application/json"])
        #expect(Self.values(without, "content-type").isEmpty)
        #expect(Self.values(without, "accept") == ["application/json"])
    }

    @Test(arguments: ["accept", "Accept"])
    func `the caller's Accept takes precedence`(name: String) async throws {
        let request = try await Self.sent { request in
            _ = try await request.response("profiles/1", headers: [name: "text/csv"])
        }

        #expect(Self.values(request, "accept") == ["text/csv"])
    }

    @Test func `a request's own field overrides the configuration's, in any case`() async throws {
        let request = try await Self.sent { configuration in
            configuration.server = nil
            configuration.baseURL = URL(string: "http://songs.test")
            configuration.baseHeaders = { ["X-Region": "eu", "X-App": "1"] }
        } _: { request in
            _ = try await request.response("profiles/1", headers: ["x-region": "us"])
        }

        #expect(Self.values(request, "x-region") == ["us"])
        #expect(Self.values(request, "x-app") == ["1"])
    }

    @Test func `the server receives only the user's token`() async throws {
        let request = try await Self.sent { request in
            _ = try await request.response("profiles/1", headers: ["authorization": "Basic own"])
        }

        #expect(Self.values(request, "authorization") == ["Bearer token-0-0"])
    }

    private struct Keyed: RemoteMutation {
        static let name = "song.keyed"
        let header: String

        func effects(on view: inout MutationEffects) {}

        func send(_ request: MutationContext) async throws {
            try await request.response("songs/a/like", headers: [header: "own"])
            try await request.response("songs/a/like", headers: ["x-region": "us"])
        }
    }

    @Test(arguments: ["Idempotency-Key", "idempotency-key"])
    func `the caller's idempotency key takes precedence`(header: String) async throws {
        let fixture = SongFixture()
        let client = try fixture.client { configuration in
            configuration.register(Keyed.self)
            configuration.baseHeaders = { ["X-Region": "eu"] }
        }
        defer { client.close() }
        let receipt = try client.perform(Keyed(header: header))
        let outcome = try await within(.seconds(30), "the outcome") { try await receipt.outcome }

        #expect(outcome == .applied)
        let keys = fixture.writes.map { Self.values($0, "idempotency-key") }
        #expect(keys == [["own"], ["\(receipt.id).2"]])
        #expect(fixture.writes.last.map { Self.values($0, "x-region") } == ["us"])
    }

    @Test func `a scripted answer has one Content-Type`() async throws {
        let network = ScriptedTransport { _ in
            .json([1], headers: ["Content-Type": "application/problem+json"])
        }
        let url = try #require(URL(string: "http://songs.test"))
        let response = try await network.send(TransportRequest(url: url))

        #expect(response.header("content-type") == "application/problem+json")
    }
}
