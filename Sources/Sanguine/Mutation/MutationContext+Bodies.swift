public import Foundation
import SanguineModel

/// Requests with bodies that are not the JSON of a value.
extension MutationContext {
    /// Posts bytes, a file, or a form to a path.
    ///
    /// - Parameters:
    ///   - path: A path below the client's `baseURL`, or its `server` if there is none; or a URL.
    ///   - body: The body to send.
    ///   - headers: Additional header fields; a `Content-Type` here replaces the default one.
    ///   - progress: Called with the progress of the upload, at most once for each hundredth, on
    ///     any thread; see also ``Outbox/Operation/progress``. Default: `nil`.
    /// - Throws: ``SanguineError``: a problem for any status outside 200 to 299, or for a body that
    ///   is too large or cannot be read.
    public func post(
        _ path: String,
        _ body: RequestBody,
        headers: [String: String] = [:],
        progress: (@Sendable (UploadProgress) -> Void)? = nil
    ) async throws(SanguineError) {
        try await send("POST", path, body, headers: headers, progress: progress)
    }

    /// Posts bytes, a file, or a form to a path and decodes the JSON response.
    ///
    /// - Parameters:
    ///   - path: A path below the client's `baseURL`, or its `server` if there is none; or a URL.
    ///   - body: The body to send.
    ///   - headers: Additional header fields; a `Content-Type` here replaces the default one.
    ///   - progress: Called with the progress of the upload, at most once for each hundredth, on
    ///     any thread; see also ``Outbox/Operation/progress``. Default: `nil`.
    ///   - decoder: The decoder of the response. Default: the configuration's, or the protocol's
    ///     own for the Sanguine server.
    ///   - type: The type to decode.
    /// - Returns: The decoded response.
    /// - Throws: ``SanguineError``: a problem for any status outside 200 to 299, or for a body that
    ///   is too large or cannot be read.
    public func post<Value: Decodable & Sendable>(
        _ path: String,
        _ body: RequestBody,
        headers: [String: String] = [:],
        progress: (@Sendable (UploadProgress) -> Void)? = nil,
        decoder: JSONDecoder? = nil,
        as type: Value.Type
    ) async throws(SanguineError) -> Value {
        try await send(
            "POST",
            path,
            body,
            headers: headers,
            progress: progress,
            decoder: decoder,
            as: type
        )
    }

    /// Sends bytes, a file, or a form with any method.
    ///
    /// - Parameters:
    ///   - method: The HTTP method.
    ///   - path: A path below the client's `baseURL`, or its `server` if there is none; or a URL.
    ///   - body: The body to send.
    ///   - headers: Additional header fields; a `Content-Type` here replaces the default one.
    ///   - progress: Called with the progress of the upload, at most once for each hundredth, on
    ///     any thread; see also ``Outbox/Operation/progress``. Default: `nil`.
    /// - Throws: ``SanguineError``: a problem for any status outside 200 to 299, or for a body that
    ///   is too large or cannot be read.
    public func send(
        _ method: String,
        _ path: String,
        _ body: RequestBody,
        headers: [String: String] = [:],
        progress: (@Sendable (UploadProgress) -> Void)? = nil
    ) async throws(SanguineError) {
        let request = try request(method, path, [], headers)
        try await answerUnread(to: request) { () throws(SanguineError) in
            try await upload(request, body, progress)
        }
    }

    /// Sends bytes, a file, or a form with any method and decodes the JSON response.
    ///
    /// - Parameters:
    ///   - method: The HTTP method.
    ///   - path: A path below the client's `baseURL`, or its `server` if there is none; or a URL.
    ///   - body: The body to send.
    ///   - headers: Additional header fields; a `Content-Type` here replaces the default one.
    ///   - progress: Called with the progress of the upload, at most once for each hundredth, on
    ///     any thread; see also ``Outbox/Operation/progress``. Default: `nil`.
    ///   - decoder: The decoder of the response. Default: the configuration's, or the protocol's
    ///     own for the Sanguine server.
    ///   - type: The type to decode.
    /// - Returns: The decoded response.
    /// - Throws: ``SanguineError``: a problem for any status outside 200 to 299, or for a body that
    ///   is too large or cannot be read.
    public func send<Value: Decodable & Sendable>(
        _ method: String,
        _ path: String,
        _ body: RequestBody,
        headers: [String: String] = [:],
        progress: (@Sendable (UploadProgress) -> Void)? = nil,
        decoder: JSONDecoder? = nil,
        as type: Value.Type
    ) async throws(SanguineError) -> Value {
        let request = try request(method, path, [], headers)
        return try await answer(to: request) { () throws(SanguineError) in
            try await upload(request, body, progress)
        } reading: { response throws(SanguineError) in
            try decode(type, from: response, to: request, with: decoder)
        }
    }

    /// Sends bytes, a file, or a form with any method and returns the response, undecoded.
    ///
    /// - Parameters:
    ///   - path: A path below the client's `baseURL`, or its `server` if there is none; or a URL.
    ///   - method: The HTTP method.
    ///   - body: The body to send.
    ///   - query: Query parameters to append, not encoded.
    ///   - headers: Additional header fields; an `Idempotency-Key`, `Accept` or `Content-Type` here
    ///     replaces the client's.
    ///   - progress: As for ``send(_:_:_:headers:progress:)``.
    /// - Returns: The response, with a status from 200 to 299 or one that shows that an earlier
    ///   attempt was applied; see ``possiblyApplied``.
    /// - Throws: ``SanguineError``: a problem for any other status, or for a body that is too large
    ///   or cannot be read.
    @discardableResult
    public func response(
        _ path: String,
        method: String = "POST",
        body: RequestBody,
        query: [URLQueryItem] = [],
        headers: [String: String] = [:],
        progress: (@Sendable (UploadProgress) -> Void)? = nil
    ) async throws(SanguineError) -> TransportResponse {
        let request = try request(method, path, query, headers)
        return try await answer(to: request) { () throws(SanguineError) in
            try await upload(request, body, progress)
        } reading: { response in
            response
        }
    }

    private func upload(
        _ request: TransportRequest,
        _ body: RequestBody,
        _ progress: (@Sendable (UploadProgress) -> Void)?
    ) async throws(SanguineError) -> TransportResponse {
        let report = notes.uploads.report(telling: progress)
        return try await backend.send(request, body, seed: "\(id)", report)
    }
}
