public import Foundation

/// The context in which a query's closure fetches: the backend's address, the user's token, and the
/// time limit.
///
/// Requests to the Sanguine server carry the user's token; requests to any other host never do.
public struct QueryRequest: Sendable {
    /// The time limit of one request, from the policy.
    public let timeout: Duration

    let base: URL?
    let attempts: ReadAttempts
    let fetchContext: FetchContext

    var backend: Backend { attempts.backend }
    var priority: RequestPriority { fetchContext.priority }

    /// Gets a path and decodes the JSON response.
    ///
    /// - Parameters:
    ///   - path: A path below the query's base address, or a URL.
    ///   - query: Query parameters to append, not encoded.
    ///   - headers: Additional header fields.
    ///   - decoder: The decoder of the response. Default: the configuration's, or the protocol's
    ///     own for the Sanguine server.
    ///   - type: The type to decode. Default: inferred from the context.
    /// - Returns: The decoded response.
    /// - Throws: ``SanguineError``: a problem for any status outside 200 to 299.
    public func get<Value: Decodable & Sendable>(
        _ path: String,
        query: [URLQueryItem] = [],
        headers: [String: String] = [:],
        decoder: JSONDecoder? = nil,
        as type: Value.Type = Value.self
    ) async throws(SanguineError) -> Value {
        let request = try request("GET", path, query, headers)
        let response = try await send(request)
        return try backend.decode(type, from: response, to: request, with: decoder)
    }

    /// Posts to a path and decodes the JSON response, for example for GraphQL or a search with a
    /// body.
    ///
    /// The request must not change anything, because reads are repeated. Use a ``RemoteMutation``
    /// for changes.
    ///
    /// - Parameters:
    ///   - path: A path below the query's base address, or a URL.
    ///   - body: The value to send as JSON.
    ///   - query: Query parameters to append, not encoded.
    ///   - headers: Additional header fields; a `Content-Type` here replaces the default one.
    ///   - encoder: The encoder of the body. Default: the configuration's, or the protocol's own
    ///     for the Sanguine server.
    ///   - decoder: The decoder of the response. Default: as for `encoder`.
    ///   - type: The type to decode. Default: inferred from the context.
    /// - Returns: The decoded response.
    /// - Throws: ``SanguineError``: a problem for any status outside 200 to 299.
    public func post<Value: Decodable & Sendable>(
        _ path: String,
        _ body: (any Encodable & Sendable)? = nil,
        query: [URLQueryItem] = [],
        headers: [String: String] = [:],
        encoder: JSONEncoder? = nil,
        decoder: JSONDecoder? = nil,
        as type: Value.Type = Value.self
    ) async throws(SanguineError) -> Value {
        let bare = try request("POST", path, query, headers)
        let request = try backend.request(bare, sending: body, with: encoder)
        let response = try await send(request)
        return try backend.decode(type, from: response, to: request, with: decoder)
    }

    /// Sends a request and returns the response, undecoded.
    ///
    /// The request first waits for a slot of its host, behind requests of a higher priority; see
    /// ``FetchPriority``. The time limit starts when the request is sent.
    ///
    /// - Parameters:
    ///   - path: A path below the query's base address, or a URL.
    ///   - method: The HTTP method. It must not change anything, because reads are repeated.
    ///   - query: Query parameters to append, not encoded.
    ///   - headers: Additional header fields; an `Accept` or `Content-Type` here replaces the
    ///     client's.
    ///   - json: A body in JSON, or in the `Content-Type` that `headers` names.
    /// - Returns: The response, with a status from 200 to 299.
    /// - Throws: ``SanguineError``: a problem for any status outside 200 to 299;
    ///   ``SanguineError/queueFull(limit:)`` if too many requests of the same priority wait.
    public func response(
        _ path: String,
        method: String = "GET",
        query: [URLQueryItem] = [],
        headers: [String: String] = [:],
        json: Data? = nil
    ) async throws(SanguineError) -> TransportResponse {
        try await send(request(method, path, query, headers, json: json))
    }

    /// The request to the Sanguine server, even if the app has a backend of its own.
    func toServer() throws(SanguineError) -> QueryRequest {
        guard let server = backend.call.server else { throw .notConfigured("'server'") }
        return QueryRequest(
            timeout: timeout,
            base: server,
            attempts: attempts,
            fetchContext: fetchContext
        )
    }

    /// Creates a request without a body or with a JSON body.
    func request(
        _ method: String,
        _ path: String,
        _ query: [URLQueryItem],
        _ headers: [String: String],
        json: Data? = nil
    ) throws(SanguineError) -> TransportRequest {
        try TransportRequest(
            method: method,
            base: base ?? backend.baseURL ?? backend.call.server,
            path: path,
            query: query,
            headers: headers,
            json: json,
            timeout: timeout
        )
    }

    private func send(
        _ request: TransportRequest
    ) async throws(SanguineError) -> TransportResponse {
        try await backend.send(request) { () async throws(SanguineError) in
            try await enter(request)
        }
    }

    /// Waits for a slot of the request's host.
    func enter(
        _ request: TransportRequest
    ) async throws(SanguineError) -> RequestQueue.Ticket? {
        let host = request.url.hostKey
        let ticket = try await backend.queue.enter(host, priority)
        fetchContext.asks(host)
        return ticket
    }
}
