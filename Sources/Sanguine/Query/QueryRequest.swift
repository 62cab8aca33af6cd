public import Foundation

/// What a query's closure fetches with: the backend's address, the user's token, the time allowed.
///
/// Requests to the Sanguine server carry the user's token; requests to any other host never do.
public struct QueryRequest: Sendable {
    /// How long one request may take; from the policy.
    public let timeout: Duration

    let base: URL?
    let attempts: ReadAttempts
    let flight: RequestFlight

    var backend: Backend { attempts.backend }
    var priority: RequestPriority { flight.priority }

    /// The two ways out of a client, and what stands before them.
    struct Backend: Sendable {
        /// In the name of a user, or of whoever is there.
        var call: ServerCall
        let baseURL: URL?
        let baseHeaders: @Sendable () -> [String: String]
        let queue: RequestQueue
        let retries: RetryGuard
        let batches: Batches
        let fault: PlantedFault?

        init(call: ServerCall, configuration: SanguineClient.Configuration) {
            self.call = call
            baseURL = configuration.baseURL
            baseHeaders = configuration.baseHeaders
            queue = RequestQueue(limits: .init(lanes: configuration.readsPerHost))
            retries = RetryGuard(clock: configuration.delay)
            batches = Batches(delay: configuration.delay)
            fault = configuration.plantedFault
        }

        /// The same ways for another user.
        func with(_ call: ServerCall) -> Backend {
            var backend = self
            backend.call = call
            return backend
        }
    }

    /// Gets a path and decodes the JSON of the answer.
    ///
    /// - Parameters:
    ///   - path: Below the query's base address; or an absolute address.
    ///   - query: Parameters to append; encoded here.
    ///   - headers: More header fields.
    ///   - type: What to decode. Default: what the context asks for.
    /// - Returns: The decoded answer.
    /// - Throws: ``SanguineError``: a problem for any status but 200 to 299.
    public func get<Value: Decodable & Sendable>(
        _ path: String,
        query: [URLQueryItem] = [],
        headers: [String: String] = [:],
        as type: Value.Type = Value.self
    ) async throws(SanguineError) -> Value {
        let response = try await response(path, query: query, headers: headers)
        return try WireCoding.decode(type, from: response.body)
    }

    /// Sends a request and returns the response, undecoded.
    ///
    /// It waits for a lane to its host first, behind those that matter more; see
    /// ``FetchPriority``. The time allowed begins when it goes out.
    ///
    /// - Parameters:
    ///   - path: Below the query's base address; or an absolute address.
    ///   - method: The HTTP method. It must be one that changes nothing: reads are repeated.
    ///   - query: Parameters to append; encoded here.
    ///   - headers: More header fields; an `Accept` or a `Content-Type` among them counts more than
    ///     the client's.
    ///   - json: A body in JSON, or in the `Content-Type` that `headers` names.
    /// - Returns: The response, of a status from 200 to 299.
    /// - Throws: ``SanguineError``: a problem for any status but 200 to 299;
    ///   ``SanguineError/queueFull(limit:)`` if too many wait that matter as much.
    public func response(
        _ path: String,
        method: String = "GET",
        query: [URLQueryItem] = [],
        headers: [String: String] = [:],
        json: Data? = nil
    ) async throws(SanguineError) -> TransportResponse {
        var request = try TransportRequest(
            method: method,
            base: base ?? backend.baseURL ?? backend.call.server,
            path: path,
            query: query,
            headers: headers,
            json: json,
            timeout: timeout
        )
        let host = request.url.hostKey
        let ticket = try await backend.queue.enter(host, priority)
        defer { ticket.release() }
        flight.asks(host)
        if let server = backend.call.server, request.url.origin == server.origin {
            return try await backend.call.send(request)
        }
        if let baseURL = backend.baseURL, request.url.origin == baseURL.origin {
            request.headers.addHeaders(ifMissing: backend.baseHeaders())
        }
        return try await backend.call.exchange.send(request)
    }
}
