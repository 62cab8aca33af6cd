public import Foundation
public import SanguineModel
import Synchronization

/// The context in which a ``RemoteMutation`` is sent: the backend's address, the user's token, and
/// the idempotency key.
///
/// Requests to the Sanguine server carry the user's token. Requests to the `baseURL` carry the
/// configuration's `baseHeaders`. Both are read when the request is sent, and never stored.
public struct MutationContext: Sendable {
    /// Determines which values of a query contain the mutation.
    struct Condition: Sendable {
        let query: ErasedQuery
        let isReached: @Sendable (ValueBox) -> Bool
    }

    /// The results that `send` has reported.
    final class Notes: Sendable {
        struct Report {
            var requests = 0
            /// Whether the backend has answered a write with success.
            var hasAnswer = false
            var values: [(query: ErasedQuery, box: ValueBox)] = []
            var conditions: [Condition] = []
            var rows: [(list: QueryKey, take: @Sendable (QueryCache, CacheScope) -> Void)] = []
            var replaced: [(temporary: String, real: String)] = []
            /// The feed's number of a change of the account.
            var accountMark: FeedMark?
            /// The answer to a purchase.
            var purchase: CreditedPurchase?
            /// The answer to a use of a quota.
            var consumed: ConsumedQuota?
        }

        // The only mutable state, guarded by its mutex.
        let reported = Mutex(Report())
        /// The progress of uploads.
        let uploads = UploadTally()
    }

    /// The operation's id, which is also the idempotency key of its first request.
    ///
    /// The n-th request of one attempt has the key `<id>.<n>`.
    public let id: Identifier
    /// Whether an earlier attempt of the operation may have reached the backend.
    ///
    /// If it is `true`, a `DELETE` that is answered by 404 or 410 counts as applied, and so does a
    /// `POST` or `PUT` that is answered by 409 or 422 with the code `already_exists`. These
    /// requests do not throw.
    public let possiblyApplied: Bool

    let backend: QueryRequest.Backend
    let notes = Notes()

    /// Posts to a path.
    ///
    /// - Parameters:
    ///   - path: A path below the client's `baseURL`, or its `server` if there is none; or a URL.
    ///   - body: The value to send as JSON.
    ///   - headers: Additional header fields; a `Content-Type` here replaces the default one.
    ///   - encoder: The encoder of the body. Default: the configuration's, or the protocol's own
    ///     for the Sanguine server.
    /// - Throws: ``SanguineError``: a problem for any status outside 200 to 299.
    public func post(
        _ path: String,
        _ body: (any Encodable & Sendable)? = nil,
        headers: [String: String] = [:],
        encoder: JSONEncoder? = nil
    ) async throws(SanguineError) {
        try await send("POST", path, body, headers: headers, encoder: encoder)
    }

    /// Posts to a path and decodes the JSON response.
    ///
    /// - Parameters:
    ///   - path: A path below the client's `baseURL`, or its `server` if there is none; or a URL.
    ///   - body: The value to send as JSON.
    ///   - headers: Additional header fields; a `Content-Type` here replaces the default one.
    ///   - encoder: The encoder of the body. Default: the configuration's, or the protocol's own
    ///     for the Sanguine server.
    ///   - decoder: The decoder of the response. Default: as for `encoder`.
    ///   - type: The type to decode.
    /// - Returns: The decoded response.
    /// - Throws: ``SanguineError``: a problem for any status outside 200 to 299.
    public func post<Value: Decodable & Sendable>(
        _ path: String,
        _ body: (any Encodable & Sendable)? = nil,
        headers: [String: String] = [:],
        encoder: JSONEncoder? = nil,
        decoder: JSONDecoder? = nil,
        as type: Value.Type
    ) async throws(SanguineError) -> Value {
        try await send(
            "POST",
            path,
            body,
            headers: headers,
            encoder: encoder,
            decoder: decoder,
            as: type
        )
    }

    /// Sends a request with any method, such as `PUT`, `PATCH` or `DELETE`.
    ///
    /// - Parameters:
    ///   - method: The HTTP method.
    ///   - path: A path below the client's `baseURL`, or its `server` if there is none; or a URL.
    ///   - body: The value to send as JSON.
    ///   - headers: Additional header fields; a `Content-Type` here replaces the default one.
    ///   - encoder: The encoder of the body. Default: the configuration's, or the protocol's own
    ///     for the Sanguine server.
    /// - Throws: ``SanguineError``: a problem for any status outside 200 to 299.
    public func send(
        _ method: String,
        _ path: String,
        _ body: (any Encodable & Sendable)? = nil,
        headers: [String: String] = [:],
        encoder: JSONEncoder? = nil
    ) async throws(SanguineError) {
        let bare = try request(method, path, [], headers)
        let request = try backend.request(bare, sending: body, with: encoder)
        try await answerUnread(to: request) { () throws(SanguineError) in
            try await backend.send(request)
        }
    }

    /// Sends a request with any method and decodes the JSON response.
    ///
    /// - Parameters:
    ///   - method: The HTTP method.
    ///   - path: A path below the client's `baseURL`, or its `server` if there is none; or a URL.
    ///   - body: The value to send as JSON.
    ///   - headers: Additional header fields; a `Content-Type` here replaces the default one.
    ///   - encoder: The encoder of the body. Default: the configuration's, or the protocol's own
    ///     for the Sanguine server.
    ///   - decoder: The decoder of the response. Default: as for `encoder`.
    ///   - type: The type to decode.
    /// - Returns: The decoded response.
    /// - Throws: ``SanguineError``: a problem for any status outside 200 to 299.
    public func send<Value: Decodable & Sendable>(
        _ method: String,
        _ path: String,
        _ body: (any Encodable & Sendable)? = nil,
        headers: [String: String] = [:],
        encoder: JSONEncoder? = nil,
        decoder: JSONDecoder? = nil,
        as type: Value.Type
    ) async throws(SanguineError) -> Value {
        let bare = try request(method, path, [], headers)
        let request = try backend.request(bare, sending: body, with: encoder)
        return try await answer(to: request) { () throws(SanguineError) in
            try await backend.send(request)
        } reading: { response throws(SanguineError) in
            try decode(type, from: response, to: request, with: decoder)
        }
    }

    /// Sends a request and returns the response, undecoded.
    ///
    /// - Parameters:
    ///   - path: A path below the client's `baseURL`, or its `server` if there is none; or a URL.
    ///   - method: The HTTP method.
    ///   - query: Query parameters to append, not encoded.
    ///   - headers: Additional header fields; an `Idempotency-Key`, `Accept` or `Content-Type` here
    ///     replaces the client's.
    ///   - json: A body in JSON, or in the `Content-Type` that `headers` names.
    /// - Returns: The response, with a status from 200 to 299 or one that shows that an earlier
    ///   attempt was applied; see ``possiblyApplied``.
    /// - Throws: ``SanguineError``: a problem for any other status.
    @discardableResult
    public func response(
        _ path: String,
        method: String = "POST",
        query: [URLQueryItem] = [],
        headers: [String: String] = [:],
        json: Data? = nil
    ) async throws(SanguineError) -> TransportResponse {
        let request = try request(method, path, query, headers, json: json)
        return try await answer(to: request) { () throws(SanguineError) in
            try await backend.send(request)
        } reading: { response in
            response
        }
    }

    /// Sends a request and records whether the backend has applied it.
    ///
    /// It has if the response can be read, or if it is the backend's and cannot be read.
    func answer<Value>(
        to request: TransportRequest,
        _ send: () async throws(SanguineError) -> TransportResponse,
        reading read: (TransportResponse) throws(SanguineError) -> Value
    ) async throws(SanguineError) -> Value {
        let value: Value
        do throws(SanguineError) {
            value = try read(try await response(to: request, send))
        } catch {
            switch error {
            // The transport throws `bodyTooLarge` only for successful responses.
            case .decoding, .transport(.bodyTooLarge): recordAnswer(to: request)
            default: break
            }
            throw error
        }
        recordAnswer(to: request)
        return value
    }

    /// Like ``answer(to:_:reading:)``, but ignores the body, which may also be too large.
    func answerUnread(
        to request: TransportRequest,
        _ send: () async throws(SanguineError) -> TransportResponse
    ) async throws(SanguineError) {
        do throws(SanguineError) {
            try await answer(to: request, send) { _ in }
        } catch .transport(.bodyTooLarge) {}
    }

    private func response(
        to request: TransportRequest,
        _ send: () async throws(SanguineError) -> TransportResponse
    ) async throws(SanguineError) -> TransportResponse {
        do throws(SanguineError) {
            return try await send()
        } catch {
            guard possiblyApplied, case .problem(let problem) = error,
                problem.showsApplied(request.method), let done = problem.response
            else { throw error }
            return done
        }
    }

    /// Sends a request to the Sanguine server, even if the app has a backend of its own.
    func serverResponse(
        _ path: String,
        method: String,
        headers: [String: String] = [:],
        json: Data
    ) async throws(SanguineError) -> TransportResponse {
        guard let server = backend.call.server else { throw .notConfigured("'server'") }
        let request = try request(method, path, [], headers, json: json, at: server)
        return try await answer(to: request) { () throws(SanguineError) in
            try await backend.call.send(request)
        } reading: { response in
            response
        }
    }

    /// Reports the number of the account's feed that contains the mutation.
    func appliedToAccount(_ response: TransportResponse) {
        guard let head = response.header("sanguine-head").flatMap({ Int64($0) }) else { return }
        let mark = FeedMark(epoch: response.epoch, number: head)
        notes.reported.withLock { $0.accountMark = mark }
    }

    /// Reports the answer to a purchase.
    func credited(_ purchase: CreditedPurchase) {
        notes.reported.withLock { $0.purchase = purchase }
    }

    /// Reports the answer to a use of a quota.
    func consumed(_ quota: Quota, _ response: TransportResponse) {
        let answer = ConsumedQuota(quota: quota, response: response)
        notes.reported.withLock { $0.consumed = answer }
    }

    private func recordAnswer(to request: TransportRequest) {
        let changes = !["GET", "HEAD", "OPTIONS"].contains(request.method.uppercased())
        if changes { notes.reported.withLock { $0.hasAnswer = true } }
    }

    /// Decodes a response; one that only shows that the write was applied contains no value.
    func decode<Value: Decodable>(
        _ type: Value.Type,
        from response: TransportResponse,
        to request: TransportRequest,
        with own: JSONDecoder?
    ) throws(SanguineError) -> Value {
        guard (200...299).contains(response.status) else {
            var failure: DecodingFailure =
                "\(type): status \(response.status) confirms the write but contains no value"
            failure.response = response.short
            throw .decoding(failure)
        }
        do throws(SanguineError) {
            return try backend.decode(type, from: response, to: request, with: own)
        } catch {
            guard response.hasNothing(of: type, with: backend.decoder(for: request, own)) else {
                throw error
            }
            throw .transport(.intercepted("\(response.summary) without any member of '\(type)'"))
        }
    }

    /// Creates a request with the next key, without a body or with a JSON body.
    func request(
        _ method: String,
        _ path: String,
        _ query: [URLQueryItem],
        _ headers: [String: String],
        json: Data? = nil,
        at base: URL? = nil
    ) throws(SanguineError) -> TransportRequest {
        let number = notes.reported.withLock { said in
            said.requests += 1
            return said.requests
        }
        var headers = headers
        let id = backend.fault == .sendsUnderAnotherKey ? Identifier(at: id.moment) : id
        let key = number == 1 ? id.description : "\(id).\(number)"
        headers.setHeader("Idempotency-Key", ifMissing: key)
        return try TransportRequest(
            method: method,
            base: base ?? backend.baseURL ?? backend.call.server,
            path: path,
            query: query,
            headers: headers,
            json: json
        )
    }

    /// Stores a part of the response as the new value of a query, which need not be fetched again.
    ///
    /// This ends the mutation's effect on the query in the same step. If it is not known whether
    /// the value contains later changes of other mutations, or if another value has arrived since
    /// the mutation was first sent, the value is ignored and the query is fetched.
    public func settle<Value>(_ query: ValueQuery<Value>, _ value: Value) {
        guard !query.erased.isSourced else { return }
        notes.reported.withLock { $0.values.append((query.erased, .of(value))) }
    }

    /// Not available for the balance; see the message.
    @available(
        *,
        deprecated,
        message: "Does nothing: the balance follows the server and the running calls."
    )
    public func settle(_ query: ValueQuery<Balance>, _ value: Balance) {}

    /// Not available for the quotas; see the message.
    @available(
        *,
        deprecated,
        message: "Does nothing: the quotas follow the server and the running calls."
    )
    public func settle(_ query: ValueQuery<[Quota]>, _ value: [Quota]) {}

    /// Replaces the row of a list that has the same id with a row of the response, which may
    /// contain members set by the backend.
    ///
    /// The list need not be fetched again. A list without such a row is not changed. If the backend
    /// has given the row another id, call ``replaceID(_:by:)`` first.
    public func settle<Item>(_ list: ListQuery<Item>, row: Item) {
        notes.reported.withLock { said in
            said.rows.append(
                (
                    list.key,
                    { cache, user in
                        let source = cache.source(of: list)
                        // The effect is merged into the rows first; then the response replaces the
                        // row.
                        source.mergeEffects()
                        _ = source.update(for: user) { rows in
                            guard let index = rows.firstIndex(where: { $0.id == row.id })
                            else { return }
                            rows[index] = row
                        }
                    }
                )
            )
        }
    }

    /// Declares how to recognize values that contain the mutation, for example by their version.
    ///
    /// Use this for a backend whose reads may be older than its writes. The mutation's effect on
    /// the query stays until a fetched value satisfies the closure. In a later process, the first
    /// fetched value ends the effect.
    ///
    /// - Parameters:
    ///   - query: A query that the mutation changes.
    ///   - isReached: Called with each fetched value, on any thread.
    public func settle<Value>(
        _ query: ValueQuery<Value>,
        when isReached: @escaping @Sendable (Value) -> Bool
    ) {
        let condition = Condition(query: query.erased) { box in
            box.value(as: Value.self).map(isReached) ?? true
        }
        notes.reported.withLock { $0.conditions.append(condition) }
    }

    /// Reports the id that the backend has assigned for a temporary one.
    ///
    /// From the acknowledgement on, the real id replaces every string equal to the temporary one in
    /// the members and the lanes of this mutation and of queued ones: on disk, in effects, and in
    /// requests. This also applies to mutations that are performed with the temporary id later in
    /// this process. For a view that shows the id, see
    /// ``SanguineClient/model(of:_:)->ValueModel<Value>``.
    public func replaceID(_ temporary: String, by real: String) {
        notes.reported.withLock { $0.replaced.append((temporary, real)) }
    }
}
