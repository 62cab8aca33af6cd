public import Foundation
public import SanguineModel
import Synchronization

/// What a ``RequestMutation`` is sent with: the backend's address, the user's token, the
/// idempotency key.
///
/// Requests to the Sanguine server carry the user's token, those to the `baseURL` the
/// configuration's `baseHeaders`; both are asked for when the request goes out, and never stored.
public struct MutationRequest: Sendable {
    /// Which values of a query have the mutation in them.
    struct Condition: Sendable {
        let query: ErasedQuery
        let isReached: @Sendable (ValueBox) -> Bool
    }

    /// What `send` has said besides returning.
    final class Notes: Sendable {
        struct Said {
            var requests = 0
            /// Whether the backend has answered a write with success.
            var hasAnswer = false
            var values: [(query: ErasedQuery, box: ValueBox)] = []
            var conditions: [Condition] = []
            var rows: [(list: QueryKey, take: @Sendable (QueryCache, Partition) -> Void)] = []
            var replaced: [(temporary: String, real: String)] = []
        }

        // The only mutable state, guarded by its mutex.
        let said = Mutex(Said())
        /// What has been sent.
        let uploads = UploadTally()
    }

    /// The operation's id, and the idempotency key of its first request.
    ///
    /// The n-th request of one sending carries the key `<id>.<n>`.
    public let id: Identifier
    /// Whether an earlier sending of the operation may have reached the backend.
    ///
    /// A `DELETE` is then done if it is answered by 404 or 410, and a `POST` or `PUT` if it is
    /// answered by 409 or 422 with the code `already_exists`: neither throws.
    public let possiblyApplied: Bool

    let backend: QueryRequest.Backend
    let notes = Notes()

    /// Posts to a path.
    ///
    /// - Parameters:
    ///   - path: Below the client's `baseURL`, or else its `server`; or an absolute address.
    ///   - body: What to send as JSON.
    ///   - headers: More header fields; a `Content-Type` among them counts.
    ///   - encoder: What writes the body. Default: the configuration's; for the Sanguine server its
    ///     own.
    /// - Throws: ``SanguineError``: a problem for any status but 200 to 299.
    public func post(
        _ path: String,
        _ body: (any Encodable & Sendable)? = nil,
        headers: [String: String] = [:],
        encoder: JSONEncoder? = nil
    ) async throws(SanguineError) {
        try await send("POST", path, body, headers: headers, encoder: encoder)
    }

    /// Posts to a path and decodes the JSON of the answer.
    ///
    /// - Parameters:
    ///   - path: Below the client's `baseURL`, or else its `server`; or an absolute address.
    ///   - body: What to send as JSON.
    ///   - headers: More header fields; a `Content-Type` among them counts.
    ///   - encoder: What writes the body. Default: the configuration's; for the Sanguine server its
    ///     own.
    ///   - decoder: What reads the answer. Default: likewise.
    ///   - type: What to decode.
    /// - Returns: The decoded answer.
    /// - Throws: ``SanguineError``: a problem for any status but 200 to 299.
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

    /// Sends by any method, such as `PUT`, `PATCH` or `DELETE`.
    ///
    /// - Parameters:
    ///   - method: The HTTP method.
    ///   - path: Below the client's `baseURL`, or else its `server`; or an absolute address.
    ///   - body: What to send as JSON.
    ///   - headers: More header fields; a `Content-Type` among them counts.
    ///   - encoder: What writes the body. Default: the configuration's; for the Sanguine server its
    ///     own.
    /// - Throws: ``SanguineError``: a problem for any status but 200 to 299.
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

    /// Sends by any method and decodes the JSON of the answer.
    ///
    /// - Parameters:
    ///   - method: The HTTP method.
    ///   - path: Below the client's `baseURL`, or else its `server`; or an absolute address.
    ///   - body: What to send as JSON.
    ///   - headers: More header fields; a `Content-Type` among them counts.
    ///   - encoder: What writes the body. Default: the configuration's; for the Sanguine server its
    ///     own.
    ///   - decoder: What reads the answer. Default: likewise.
    ///   - type: What to decode.
    /// - Returns: The decoded answer.
    /// - Throws: ``SanguineError``: a problem for any status but 200 to 299.
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
    ///   - path: Below the client's `baseURL`, or else its `server`; or an absolute address.
    ///   - method: The HTTP method.
    ///   - query: Parameters to append; encoded here.
    ///   - headers: More header fields; an `Idempotency-Key`, an `Accept` or a `Content-Type` among
    ///     them counts more than the client's.
    ///   - json: A body in JSON, or in the `Content-Type` that `headers` names.
    /// - Returns: The response, of a status from 200 to 299, or one that says that an earlier
    ///   sending has done it; see ``possiblyApplied``.
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

    /// Sends a request, and remembers whether the backend has done it.
    ///
    /// It has if what comes can be read, or is unreadable and still the backend's.
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
            // The transport throws the second one of a success only.
            case .decoding, .transport(.bodyTooLarge): noteAnswer(to: request)
            default: break
            }
            throw error
        }
        noteAnswer(to: request)
        return value
    }

    /// As ``answer(to:_:reading:)``, where the body does not matter: it may also be too large.
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
                problem.saysDone(request.method), let done = problem.response
            else { throw error }
            return done
        }
    }

    private func noteAnswer(to request: TransportRequest) {
        let changes = !["GET", "HEAD", "OPTIONS"].contains(request.method.uppercased())
        if changes { notes.said.withLock { $0.hasAnswer = true } }
    }

    /// Decodes an answer; one that only says that the write is done has nothing in it.
    func decode<Value: Decodable>(
        _ type: Value.Type,
        from response: TransportResponse,
        to request: TransportRequest,
        with own: JSONDecoder?
    ) throws(SanguineError) -> Value {
        guard (200...299).contains(response.status) else {
            var failure: DecodingFailure =
                "\(type): status \(response.status) says that the write was done, and no more"
            failure.response = response.short
            throw .decoding(failure)
        }
        do throws(SanguineError) {
            return try backend.decode(type, from: response, to: request, with: own)
        } catch {
            guard response.hasNothing(of: type, with: backend.decoder(for: request, own)) else {
                throw error
            }
            throw .transport(.intercepted("\(response.summary) and nothing of '\(type)'"))
        }
    }

    /// A request with the next key, without a body or with one in JSON.
    func request(
        _ method: String,
        _ path: String,
        _ query: [URLQueryItem],
        _ headers: [String: String],
        json: Data? = nil
    ) throws(SanguineError) -> TransportRequest {
        let number = notes.said.withLock { said in
            said.requests += 1
            return said.requests
        }
        var headers = headers
        let id = backend.fault == .sendsUnderAnotherKey ? Identifier(at: id.moment) : id
        let key = number == 1 ? id.description : "\(id).\(number)"
        headers.setHeader("Idempotency-Key", ifMissing: key)
        return try TransportRequest(
            method: method,
            base: backend.baseURL ?? backend.call.server,
            path: path,
            query: query,
            headers: headers,
            json: json
        )
    }

    /// Takes a part of the answer as the new value of a query: it need not be fetched again.
    ///
    /// In one step with the end of the mutation's effect on it. If it is not known whether the
    /// value has in it what other mutations did meanwhile, or if another value has come since the
    /// mutation was first sent, it is left aside, and the query is fetched.
    public func settle<Value>(_ query: ValueQuery<Value>, _ value: Value) {
        guard !query.erased.isSourced else { return }
        notes.said.withLock { $0.values.append((query.erased, .of(value))) }
    }

    /// Not for the balance: see the message.
    @available(
        *,
        deprecated,
        message: "Does nothing: the balance follows the server and the calls in flight."
    )
    public func settle(_ query: ValueQuery<Balance>, _ value: Balance) {}

    /// Not for the quotas: see the message.
    @available(
        *,
        deprecated,
        message: "Does nothing: the quotas follow the server and the calls in flight."
    )
    public func settle(_ query: ValueQuery<[Quota]>, _ value: [Quota]) {}

    /// Takes a row of the answer into a list, in the place of the one with its id: with what the
    /// backend has filled in.
    ///
    /// The list need not be fetched again. One without such a row is left as it is. Call
    /// ``replaceID(_:by:)`` before, if the backend has given the row another id.
    public func settle<Item>(_ list: ListQuery<Item>, row: Item) {
        notes.said.withLock { said in
            said.rows.append(
                (
                    list.key,
                    { cache, user in
                        let source = cache.source(of: list)
                        // The effect becomes a part of the rows, and then the row its answer.
                        source.fold()
                        _ = source.update(for: user) { rows in
                            guard let place = rows.firstIndex(where: { $0.id == row.id })
                            else { return }
                            rows[place] = row
                        }
                    }
                )
            )
        }
    }

    /// Says how a value shows by itself that it has the mutation in it: by its version, say.
    ///
    /// For a backend whose reads may be older than its writes. The mutation's effect on the query
    /// stays until a value is fetched of which this is true. In a later process the first value
    /// that is fetched counts.
    ///
    /// - Parameters:
    ///   - query: What the mutation changes.
    ///   - isReached: Is called with each value that is fetched, on any thread.
    public func settle<Value>(
        _ query: ValueQuery<Value>,
        when isReached: @escaping @Sendable (Value) -> Bool
    ) {
        let condition = Condition(query: query.erased) { box in
            box.value(as: Value.self).map(isReached) ?? true
        }
        notes.said.withLock { $0.conditions.append(condition) }
    }

    /// Says which id the backend has given to what had a temporary one.
    ///
    /// Wherever a string in the members or the lane of this mutation, or of one that waits, is the
    /// temporary id, the real one stands from the acknowledgement on: on disk, in the effects, and
    /// in what is sent. What is performed with the temporary id later in this process is too. For
    /// a view that shows it see ``SanguineClient/model(of:_:)->ValueModel<Value>``.
    public func replaceID(_ temporary: String, by real: String) {
        notes.said.withLock { $0.replaced.append((temporary, real)) }
    }
}
