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
    ///   - progress: Is told how much of the body has been sent, at most once for each hundredth,
    ///     on any thread; see also ``Outbox/Operation/progress``. Default: nobody is.
    /// - Throws: ``SanguineError``: a problem for any status but 200 to 299, and for a body that is
    ///   too large or cannot be read.
    public func post(
        _ path: String,
        _ body: RequestBody,
        headers: [String: String] = [:],
        progress: (@Sendable (UploadProgress) -> Void)? = nil
    ) async throws(SanguineError) {
        try await send("POST", path, body, headers: headers, progress: progress)
    }

    /// Posts bytes, a file, or a form to a path and decodes the JSON of the answer.
    ///
    /// - Parameters:
    ///   - path: Below the client's `baseURL`, or else its `server`; or an absolute address.
    ///   - body: What to send.
    ///   - headers: More header fields; a `Content-Type` among them counts.
    ///   - progress: Is told how much of the body has been sent, at most once for each hundredth,
    ///     on any thread; see also ``Outbox/Operation/progress``. Default: nobody is.
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

    /// Sends bytes, a file, or a form by any method.
    ///
    /// - Parameters:
    ///   - method: The HTTP method.
    ///   - path: Below the client's `baseURL`, or else its `server`; or an absolute address.
    ///   - body: What to send.
    ///   - headers: More header fields; a `Content-Type` among them counts.
    ///   - progress: Is told how much of the body has been sent, at most once for each hundredth,
    ///     on any thread; see also ``Outbox/Operation/progress``. Default: nobody is.
    /// - Throws: ``SanguineError``: a problem for any status but 200 to 299, and for a body that is
    ///   too large or cannot be read.
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

    /// Sends bytes, a file, or a form by any method and decodes the JSON of the answer.
    ///
    /// - Parameters:
    ///   - method: The HTTP method.
    ///   - path: Below the client's `baseURL`, or else its `server`; or an absolute address.
    ///   - body: What to send.
    ///   - headers: More header fields; a `Content-Type` among them counts.
    ///   - progress: Is told how much of the body has been sent, at most once for each hundredth,
    ///     on any thread; see also ``Outbox/Operation/progress``. Default: nobody is.
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

    /// Sends bytes, a file, or a form by any method and returns the response, undecoded.
    ///
    /// - Parameters:
    ///   - path: Below the client's `baseURL`, or else its `server`; or an absolute address.
    ///   - method: The HTTP method.
    ///   - body: What to send.
    ///   - query: Parameters to append; encoded here.
    ///   - headers: More header fields; an `Idempotency-Key`, an `Accept` or a `Content-Type` among
    ///     them counts more than the client's.
    ///   - progress: As for ``send(_:_:_:headers:progress:)``.
    /// - Returns: The response, of a status from 200 to 299, or one that says that an earlier
    ///   sending has done it; see ``possiblyApplied``.
    /// - Throws: ``SanguineError``: a problem for any other status, and for a body that is too
    ///   large or cannot be read.
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
