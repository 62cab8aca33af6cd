public import Foundation

/// Questions whose body is not the JSON of a value.
extension QueryRequest {
    /// Asks by `POST` with bytes, a file, or a form, and decodes the JSON of the answer.
    ///
    /// It must change nothing: reads are repeated. What changes something is a ``RequestMutation``.
    ///
    /// - Parameters:
    ///   - path: Below the query's base address; or an absolute address.
    ///   - body: What to send.
    ///   - query: Parameters to append; encoded here.
    ///   - headers: More header fields; a `Content-Type` among them counts.
    ///   - progress: Is told how much of the body has been sent, at most once for each hundredth,
    ///     on any thread. Default: nobody is.
    ///   - decoder: What reads the answer. Default: the configuration's; for the Sanguine server
    ///     its own.
    ///   - type: What to decode. Default: what the context asks for.
    /// - Returns: The decoded answer.
    /// - Throws: ``SanguineError``: a problem for any status but 200 to 299, and for a body that is
    ///   too large or cannot be read.
    public func post<Value: Decodable & Sendable>(
        _ path: String,
        _ body: RequestBody,
        query: [URLQueryItem] = [],
        headers: [String: String] = [:],
        progress: (@Sendable (UploadProgress) -> Void)? = nil,
        decoder: JSONDecoder? = nil,
        as type: Value.Type = Value.self
    ) async throws(SanguineError) -> Value {
        let request = try request("POST", path, query, headers)
        let response = try await upload(request, body, progress)
        return try backend.decode(type, from: response, to: request, with: decoder)
    }

    /// Sends bytes, a file, or a form by any method and returns the response, undecoded.
    ///
    /// - Parameters:
    ///   - path: Below the query's base address; or an absolute address.
    ///   - method: The HTTP method. It must be one that changes nothing: reads are repeated.
    ///   - body: What to send.
    ///   - query: Parameters to append; encoded here.
    ///   - headers: More header fields; an `Accept` or a `Content-Type` among them counts more than
    ///     the client's.
    ///   - progress: Is told how much of the body has been sent, at most once for each hundredth,
    ///     on any thread. Default: nobody is.
    /// - Returns: The response, of a status from 200 to 299.
    /// - Throws: ``SanguineError``: a problem for any status but 200 to 299, and for a body that is
    ///   too large or cannot be read; ``SanguineError/queueFull(limit:)`` if too many wait that
    ///   matter as much.
    public func response(
        _ path: String,
        method: String = "POST",
        body: RequestBody,
        query: [URLQueryItem] = [],
        headers: [String: String] = [:],
        progress: (@Sendable (UploadProgress) -> Void)? = nil
    ) async throws(SanguineError) -> TransportResponse {
        try await upload(request(method, path, query, headers), body, progress)
    }

    private func upload(
        _ request: TransportRequest,
        _ body: RequestBody,
        _ progress: (@Sendable (UploadProgress) -> Void)?
    ) async throws(SanguineError) -> TransportResponse {
        var random = attempts.random
        let seed = "sanguine-\(String(random.next(), radix: 36))"
        let report = UploadReport(tell: progress ?? { _ in })
        return try await backend.send(request, body, seed: seed, report) {
            () async throws(SanguineError) in
            try await enter(request)
        }
    }
}
