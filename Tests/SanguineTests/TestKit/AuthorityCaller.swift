import Foundation
import SanguineModel
import SanguineTesting
import Testing

@testable import Sanguine

/// Sends requests to an ``InMemoryAuthority`` as `curl` would.
struct AuthorityCaller {
    static let server = "http://sanguine.test"

    let authority: InMemoryAuthority

    /// Returns a request of an account; by default, of the authority's user.
    func request(
        _ method: String,
        _ path: String,
        _ body: (some Encodable)? = String?.none,
        key: String? = nil,
        of account: Identifier? = nil
    ) async throws -> TransportRequest {
        let token = await authority.accessToken(for: account ?? authority.user)
        var request = TransportRequest(
            method: method,
            url: try #require(URL(string: Self.server + path)),
            headers: ["Authorization": "Bearer \(token)"],
            body: try body.map { try WireCoding.encode($0) }
        )
        request.headers["Content-Type"] = body.map { _ in "application/json" }
        request.headers["Idempotency-Key"] = key
        return request
    }

    func send(
        _ method: String,
        _ path: String,
        _ body: (some Encodable)? = String?.none,
        key: String? = nil,
        of account: Identifier? = nil
    ) async throws -> TransportResponse {
        await authority.answer(try await request(method, path, body, key: key, of: account))
    }

    func pull(_ query: String, of account: Identifier? = nil) async throws -> PullAnswer {
        try await send("GET", "/v1/sync/pull?\(query)", of: account).decoded()
    }

    func push(
        _ operations: [PushedOperation],
        of account: Identifier? = nil
    ) async throws -> TransportResponse {
        let body = PushRequest(device: "a-device-of-the-tests", operations: operations)
        return try await send("POST", "/v1/sync/push", body, of: account)
    }

    func push(_ count: Count, id: Identifier) async throws -> PushAnswer {
        try await push([.of(count, id: id)]).decoded()
    }
}

extension PushedOperation {
    static func of(
        _ count: Count,
        id: Identifier,
        sequence: Int64 = 1
    ) throws -> PushedOperation {
        PushedOperation(
            id: id,
            sequence: sequence,
            lane: "main",
            mutator: Count.name,
            arguments: try JSONValue(encoding: count)
        )
    }
}

extension TransportResponse {
    func decoded<Value: Decodable>(_ type: Value.Type = Value.self) throws -> Value {
        try WireCoding.decode(Value.self, from: body)
    }

    /// The problem in the body, if there is one.
    var problem: Problem? { try? decoded() }
}
