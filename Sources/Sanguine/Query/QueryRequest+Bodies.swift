public import Foundation

/// Requests with bodies that are not the JSON of a value.
extension QueryRequest {
    /// Posts bytes, a file, or a form and decodes the JSON response.
    ///
    /// The request must not change anything, because reads are repeated. Use a ``RemoteMutation``
    /// for changes.
    ///
    /// - Parameters:
    ///   - path: A path below the query's base address, or a URL.
    ///   - body: The body to send.
    ///   - query: Query parameters to append, not encoded.
    ///   - headers: Additional header fields; a `Content-Type` here replaces the default one.
    ///   - progress: Called with the progress of the upload, at most once for each hundredth, on
    ///     any thread. Default: `nil`.
    ///   - decoder: The decoder of the response. Default: the configuration's, or the protocol's
    ///     own for the Sanguine server.
    ///   - type: The type to decode. Default: inferred from the context.
    /// - Returns: The decoded response.
    /// - Throws: ``SanguineError``: a problem for any status outside 200 to 299, or for a body that
    ///   is too large or cannot be read.
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

    /// Sends bytes, a file, or a form with any method and returns the response, undecoded.
    ///
    /// - Parameters:
    ///   - path: A path below the query's base address, or a URL.
    ///   - method: The HTTP method. It must not change anything, because reads are repeated.
    ///   - body: The body to send.
    ///   - query: Query parameters to append, not encoded.
    ///   - headers: Additional header fields; an `Accept` or `Content-Type` here replaces the
    ///     client's.
    ///   - progress: Called with the progress of the upload, at most once for each hundredth, on
    ///     any thread. Default: `nil`.
    /// - Returns: The response, with a status from 200 to 299.
    /// - Throws: ``SanguineError``: a problem for any status outside 200 to 299, or for a body that
    ///   is too large or cannot be read; ``SanguineError/queueFull(limit:)`` if too many requests
    ///   of the same priority wait.
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
