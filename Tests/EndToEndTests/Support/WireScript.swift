import Foundation
import Sanguine
import SanguineModel
import Testing

/// Calls to a server over any transport, and their recorded responses.
///
/// Values that always differ, such as ids, tokens, cursors and tags, are recorded as equal.
struct WireScript {
    /// The parts of a response that follow from the calls so far.
    struct Seen: Equatable, CustomStringConvertible {
        let call: String
        let status: Int
        let fields: [String: String]
        let body: JSONValue

        var description: String { "\(call): \(status) \(fields) \(body)" }
    }

    let transport: any StreamingTransport
    let base: String
    private(set) var seen: [Seen] = []
    var token: String?

    init(_ transport: any StreamingTransport, base: String) {
        self.transport = transport
        self.base = base
    }

    // MARK: - Calling

    /// Sends a request and records its response.
    @discardableResult
    mutating func call(
        _ name: String,
        _ method: String,
        _ path: String,
        _ json: (any Encodable & Sendable)? = nil,
        key: String? = nil,
        fields: [String: String] = [:],
        comparesBody: Bool = true
    ) async throws -> TransportResponse {
        var request = try request(method, path, key: key, fields: fields)
        if let json {
            request.body = try JSONEncoder().encode(json)
            request.headers["Content-Type"] = fields["Content-Type"] ?? "application/json"
        }
        let response = try await transport.send(request)
        let body = comparesBody ? Self.comparable(response.body) : .null
        seen.append(
            Seen(
                call: name,
                status: response.status,
                fields: Self.comparable(response.headers),
                body: body
            )
        )
        return response
    }

    /// Opens a live connection, and records its lines until they contain the text.
    mutating func live(_ name: String, _ query: String, until end: String) async throws {
        let stream = try await transport.stream(try request("GET", "/v1/live?\(query)"))
        var text = ""
        while !text.contains(end), let bytes = try await stream.next() {
            text += String(decoding: bytes, as: UTF8.self)
        }
        stream.cancel()
        let lines = text.components(separatedBy: "\n").map { line -> JSONValue in
            if line.hasPrefix("id: "), let mark = FeedMark(line.dropFirst(4)) {
                return .string("id: \(mark.epoch == nil ? "" : "an epoch.")\(mark.number)")
            }
            guard line.hasPrefix("data: ") else { return JSONValue.string(line) }
            return Self.comparable(Data(line.dropFirst(6).utf8))
        }
        seen.append(
            Seen(
                call: name,
                status: stream.response.status,
                fields: Self.comparable(stream.response.headers),
                body: .array(lines)
            )
        )
    }

    private func request(
        _ method: String,
        _ path: String,
        key: String? = nil,
        fields: [String: String] = [:]
    ) throws -> TransportRequest {
        var request = TransportRequest(
            method: method,
            url: try #require(URL(string: base + path)),
            headers: fields
        )
        if let token, fields["Authorization"] == nil {
            request.headers["Authorization"] = "Bearer \(token)"
        }
        if let key { request.headers["Idempotency-Key"] = key }
        return request
    }

    // MARK: - Comparing

    /// Header fields that depend on the HTTP implementation, on compression or on rate limits.
    private static let ownFields: Set = [
        "connection", "content-encoding", "content-length", "date", "keep-alive", "ratelimit",
        "ratelimit-policy", "server", "transfer-encoding", "vary",
    ]

    /// Header fields that differ between any two servers.
    private static let own = [
        "etag": "a tag", "sanguine-epoch": "an epoch", "x-request-id": "an id",
    ]

    private static func comparable(_ headers: [String: String]) -> [String: String] {
        headers.filter { !ownFields.contains($0.key) }
            .reduce(into: [:]) { $0[$1.key] = own[$1.key] ?? $1.value }
    }

    private static func comparable(_ body: Data) -> JSONValue {
        guard let json = try? JSONDecoder().decode(JSONValue.self, from: body) else {
            return .string(String(decoding: body, as: UTF8.self))
        }
        return comparable(json, named: "")
    }

    private static func comparable(_ value: JSONValue, named name: String) -> JSONValue {
        switch value {
        case .object(let members):
            .object(
                members.reduce(into: [:]) { $0[$1.key] = comparable($1.value, named: $1.key) }
            )
        case .array(let values): .array(values.map { comparable($0, named: name) })
        case .string where ["accessToken", "refreshToken", "nextCursor", "epoch"].contains(name):
            .string("a secret")
        case .string(let text) where Identifier(text) != nil: .string("an id")
        default: value
        }
    }
}
