import Foundation
import SanguineModel

extension QueryRequest {
    /// Sends requests to the Sanguine server or to the app's own backend, through the request
    /// queue.
    ///
    /// Requests to the Sanguine server follow its protocol. Requests to any other backend follow
    /// the app's configuration.
    struct Backend: Sendable {
        /// Sends on behalf of one user, or of the current one.
        var call: ServerCall
        let baseURL: URL?
        private(set) var queue: RequestQueue
        let retries: RetryGuard
        let batches: Batches
        /// The folder in which forms with files are assembled.
        let spool: UploadSpool
        let fault: PlantedFault?
        private let baseHeaders: @Sendable () -> [String: String]
        private let decoder: JSONDecoder
        private let encoder: JSONEncoder
        private let exchange: Exchange
        /// Authenticates requests to ``baseURL``.
        ///
        /// All users share it, so that at most one renewal is in progress.
        let authorizer: BackendAuthorizer

        init(call: ServerCall, configuration: SanguineClient.Configuration) {
            self.call = call
            baseURL = configuration.baseURL
            baseHeaders = configuration.baseHeaders
            queue = RequestQueue(limits: .init(slots: configuration.readsPerHost))
            retries = RetryGuard(clock: configuration.delay)
            batches = Batches(delay: configuration.delay)
            spool = UploadSpool(in: configuration.storeFolder)
            spool.removeLeftovers()
            fault = configuration.plantedFault
            (decoder, encoder) = (configuration.decoder, configuration.encoder)
            var exchange = call.exchange
            exchange.errorBody = configuration.errorBody
            exchange.isAnswer = configuration.isAnswer
            exchange.interceptors = configuration.interceptors
            self.exchange = exchange
            authorizer = BackendAuthorizer(configuration)
        }

        /// The same backend for another user.
        func with(_ call: ServerCall) -> Backend {
            var backend = self
            backend.call = call
            return backend
        }

        /// The same backend, whose reads wait in another queue.
        func with(_ queue: RequestQueue) -> Backend {
            var backend = self
            backend.queue = queue
            return backend
        }
    }
}

// MARK: - JSON

extension QueryRequest.Backend {
    /// Adds a JSON body to a request.
    ///
    /// - Parameters:
    ///   - request: A request without a body.
    ///   - body: The value to send; `nil` for none.
    ///   - own: An encoder that replaces the configured one.
    /// - Returns: The request with the body.
    /// - Throws: A problem if JSON cannot represent the value.
    func request(
        _ request: TransportRequest,
        sending body: (any Encodable & Sendable)?,
        with own: JSONEncoder?
    ) throws(SanguineError) -> TransportRequest {
        guard let body else { return request }
        var request = request
        let encoder = own ?? (isServer(request.url) ? WireCoding.makeEncoder() : encoder)
        do {
            request.body = try encoder.encode(body)
        } catch {
            throw .unencodable("the body", error)
        }
        request.headers.setHeader("Content-Type", ifMissing: "application/json")
        return request
    }

    /// Decodes a response.
    ///
    /// - Parameters:
    ///   - type: The type to decode.
    ///   - response: The response.
    ///   - request: The request that it answers.
    ///   - own: A decoder that replaces the configured one.
    /// - Returns: The value.
    /// - Throws: ``SanguineError/decoding(_:)``.
    func decode<Value: Decodable>(
        _ type: Value.Type,
        from response: TransportResponse,
        to request: TransportRequest,
        with own: JSONDecoder?
    ) throws(SanguineError) -> Value {
        try WireCoding.decode(type, from: response, with: decoder(for: request, own))
    }

    /// Returns the decoder for the response to a request.
    func decoder(for request: TransportRequest, _ own: JSONDecoder?) -> JSONDecoder {
        own ?? (isServer(request.url) ? WireCoding.makeDecoder() : decoder)
    }

    private func isServer(_ url: URL) -> Bool {
        call.server.map { $0.origin == url.origin } ?? false
    }
}

// MARK: - Sending

extension QueryRequest.Backend {
    /// Sends a request to its host, with that host's authentication.
    ///
    /// - Parameters:
    ///   - request: The request to send.
    ///   - report: Receives the progress of the upload. Default: `nil`.
    ///   - enter: Waits for a slot of the host, each time before the request is sent. No slot is
    ///     held while a token is renewed, so that other requests continue. Default: no slot is
    ///     needed.
    /// - Returns: The response, with a status from 200 to 299.
    /// - Throws: ``SanguineError``: a problem for any other status;
    ///   ``SanguineError/userChanged`` if the user leaves before the request is sent.
    func send(
        _ request: TransportRequest,
        _ report: UploadReport? = nil,
        entering enter: () async throws(SanguineError) -> RequestQueue.Ticket? = { nil }
    ) async throws(SanguineError) -> TransportResponse {
        let ticket = try await enter()
        guard let baseURL, request.url.origin == baseURL.origin, !isServer(request.url) else {
            defer { ticket?.release() }
            try call.authorizer.check()
            if isServer(request.url) { return try await call.send(request, report) }
            return try await exchange.send(request, report)
        }
        var first = ticket
        return try await authorizer.attempt(curing: canRetryWithNewToken) {
            _ throws(SanguineError) in
            var slot = first
            first = nil
            if slot == nil { slot = try await enter() }
            defer { slot?.release() }
            return try await sendToBase(request, report)
        }
    }

    /// Sends a request with bytes, a file or a form.
    ///
    /// - Parameters:
    ///   - request: A request without a body.
    ///   - body: The body.
    ///   - seed: The prefix of the boundary between parts.
    ///   - report: Receives the progress of the upload.
    ///   - enter: As for ``send(_:_:entering:)``.
    /// - Returns: The response, with a status from 200 to 299.
    /// - Throws: The errors of ``send(_:_:entering:)``; also if the body is too large or cannot be
    ///   read.
    func send(
        _ request: TransportRequest,
        _ body: RequestBody,
        seed: String,
        _ report: UploadReport,
        entering enter: () async throws(SanguineError) -> RequestQueue.Ticket? = { nil }
    ) async throws(SanguineError) -> TransportResponse {
        let prepared = try await PreparedBody(body, seed: seed, in: spool, report: report)
        defer { prepared.remove() }
        var request = request
        (request.body, request.bodyFile) = (prepared.data, prepared.file)
        request.headers.setHeader("Content-Type", ifMissing: prepared.type)
        return try await send(request, report, entering: enter)
    }

    private func sendToBase(
        _ request: TransportRequest,
        _ report: UploadReport?
    ) async throws(SanguineError) -> TransportResponse {
        try call.authorizer.check()
        var request = request
        request.headers.addHeaders(ifMissing: baseHeaders())
        request = try await authorizer.authorized(request)
        // Checked after the app's closures have run: their header fields may be those of the next
        // user.
        try call.authorizer.check()
        return try await exchange.send(request, report)
    }

    /// Whether the backend has rejected a token that can be renewed.
    ///
    /// Always `false` if there was no token to send, or if the user has left.
    private func canRetryWithNewToken(_ problem: Problem) -> Bool {
        authorizer.renews && problem.status == 401 && problem.known?.response != nil
            && (try? call.authorizer.check()) != nil
    }
}
