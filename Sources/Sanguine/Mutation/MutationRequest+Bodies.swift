public import Foundation
import SanguineModel

/// Bodies that are not the JSON of a value.
extension MutationRequest {
    /// Posts bytes, a file, or a form to a path.
    ///
    /// - Parameters:
    ///   - path: Below the client's `baseURL`, or else its `server`; or an absolute address.
    ///   - body: What to send.
    ///   - headers: More header fields; a `Content-Type` among them counts.
    /// - Throws: ``SanguineError``: a problem for any status but 200 to 299, and for a body that is
    ///   too large or cannot be read.
    public func post(
        _ path: String,
        _ body: RequestBody,
        headers: [String: String] = [:]
    ) async throws(SanguineError) {
        try await send("POST", path, body, headers: headers)
    }

    /// Posts bytes, a file, or a form to a path and decodes the JSON of the answer.
    ///
    /// - Parameters:
    ///   - path: Below the client's `baseURL`, or else its `server`; or an absolute address.
    ///   - body: What to send.
    ///   - headers: More header fields; a `Content-Type` among them counts.
    ///   - decoder: What reads the answer. Default: the configuration's; for the Sanguine server
    ///     its own.
    ///   - type: What to decode.
    /// - Returns: The decoded answer.
    /// - Throws: ``SanguineError``: a problem for any status but 200 to 299, and for a body that is
    ///   too large or cannot be read.
    public func post<Value: Decodable & Sendable>(
        _ path: String,
        _ body: RequestBody,
        headers: [String: String] = [:],
        decoder: JSONDecoder? = nil,
        as type: Value.Type
    ) async throws(SanguineError) -> Value {
        try await send("POST", path, body, headers: headers, decoder: decoder, as: type)
    }

    /// Sends bytes, a file, or a form by any method.
    ///
    /// - Parameters:
    ///   - method: The HTTP method.
    ///   - path: Below the client's `baseURL`, or else its `server`; or an absolute address.
    ///   - body: What to send.
    ///   - headers: More header fields; a `Content-Type` among them counts.
    /// - Throws: ``SanguineError``: a problem for any status but 200 to 299, and for a body that is
    ///   too large or cannot be read.
    public func send(
        _ method: String,
        _ path: String,
        _ body: RequestBody,
        headers: [String: String] = [:]
    ) async throws(SanguineError) {
        _ = try await backend.send(request(method, path, headers, sending: body))
    }

    /// Sends bytes, a file, or a form by any method and decodes the JSON of the answer.
    ///
    /// - Parameters:
    ///   - method: The HTTP method.
    ///   - path: Below the client's `baseURL`, or else its `server`; or an absolute address.
    ///   - body: What to send.
    ///   - headers: More header fields; a `Content-Type` among them counts.
    ///   - decoder: What reads the answer. Default: the configuration's; for the Sanguine server
    ///     its own.
    ///   - type: What to decode.
    /// - Returns: The decoded answer.
    /// - Throws: ``SanguineError``: a problem for any status but 200 to 299, and for a body that is
    ///   too large or cannot be read.
    public func send<Value: Decodable & Sendable>(
        _ method: String,
        _ path: String,
        _ body: RequestBody,
        headers: [String: String] = [:],
        decoder: JSONDecoder? = nil,
        as type: Value.Type
    ) async throws(SanguineError) -> Value {
        let request = try request(method, path, headers, sending: body)
        let response = try await backend.send(request)
        return try backend.decode(type, from: response, to: request, with: decoder)
    }

    private func request(
        _ method: String,
        _ path: String,
        _ headers: [String: String],
        sending body: RequestBody
    ) throws(SanguineError) -> TransportRequest {
        var request = try request(method, path, [], headers)
        let (data, type) = try body.bytes(seed: "\(id)")
        request.body = data
        request.headers.setHeader("Content-Type", ifMissing: type)
        return request
    }
}
