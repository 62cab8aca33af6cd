import Foundation
import SanguineModel

extension QueryRequest {
    /// The two ways out of a client, and what stands before them.
    ///
    /// What goes to the Sanguine server speaks its protocol. What goes to any other backend is as
    /// the app's configuration says.
    struct Backend: Sendable {
        /// In the name of a user, or of whoever is there.
        var call: ServerCall
        let baseURL: URL?
        let queue: RequestQueue
        let retries: RetryGuard
        let batches: Batches
        /// Where forms with files are put together.
        let spool: UploadSpool
        let fault: PlantedFault?
        private let baseHeaders: @Sendable () -> [String: String]
        private let decoder: JSONDecoder
        private let encoder: JSONEncoder
        private let exchange: Exchange
        /// Proves to ``baseURL`` who asks.
        ///
        /// One for all users, so that no two renewals are under way.
        let authorizer: BackendAuthorizer

        init(call: ServerCall, configuration: SanguineClient.Configuration) {
            self.call = call
            baseURL = configuration.baseURL
            baseHeaders = configuration.baseHeaders
            queue = RequestQueue(limits: .init(lanes: configuration.readsPerHost))
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

        /// The same ways for another user.
        func with(_ call: ServerCall) -> Backend {
            var backend = self
            backend.call = call
            return backend
        }
    }
}

// MARK: - JSON

extension QueryRequest.Backend {
    /// The request with a body in JSON.
    ///
    /// - Parameters:
    ///   - request: A request without a body.
    ///   - body: What to send; `nil` for none.
    ///   - own: What writes it, if not what the configuration says.
    /// - Returns: The request with it.
    /// - Throws: A problem if JSON cannot hold it.
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
            throw .problem(
                Problem(.malformedBody, "Make the body such as JSON can hold: \(error)")
            )
        }
        request.headers.setHeader("Content-Type", ifMissing: "application/json")
        return request
    }

    /// Decodes an answer.
    ///
    /// - Parameters:
    ///   - type: The type to decode.
    ///   - response: The answer.
    ///   - request: What it answers.
    ///   - own: What reads it, if not what the configuration says.
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

    /// What reads the answer to a request, unless the app names another one.
    func decoder(for request: TransportRequest, _ own: JSONDecoder?) -> JSONDecoder {
        own ?? (isServer(request.url) ? WireCoding.makeDecoder() : decoder)
    }

    private func isServer(_ url: URL) -> Bool {
        call.server.map { $0.origin == url.origin } ?? false
    }
}

// MARK: - Sending

extension QueryRequest.Backend {
    /// Sends a request where it goes to, with what proves there who asks.
    ///
    /// - Parameters:
    ///   - request: What to send.
    ///   - report: Receives the progress of the upload. Default: `nil`.
    ///   - enter: Waits for a lane to the host, before each time that the request goes out. None is
    ///     held while a token is renewed: what needs no token goes on. Default: there is no lane.
    /// - Returns: The response, with a status from 200 to 299.
    /// - Throws: ``SanguineError``: a problem for any other status;
    ///   ``SanguineError/userChanged`` if the user is gone before it goes out.
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
        return try await authorizer.attempt(curing: isCuredByToken) {
            _ throws(SanguineError) in
            var lane = first
            first = nil
            if lane == nil { lane = try await enter() }
            defer { lane?.release() }
            return try await sendToBase(request, report)
        }
    }

    /// Sends a request with bytes, a file or a form.
    ///
    /// - Parameters:
    ///   - request: A request without a body.
    ///   - body: Its body.
    ///   - seed: What the boundary between parts begins with.
    ///   - report: Is told how much has been sent.
    ///   - enter: As for ``send(_:_:entering:)``.
    /// - Returns: The response, with a status from 200 to 299.
    /// - Throws: As ``send(_:_:entering:)`` does, and for a body that is too large or cannot be
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
        // After the app has said its headers: they may be the next user's already.
        try call.authorizer.check()
        return try await exchange.send(request, report)
    }

    /// Whether the backend has rejected a token for which there can be another.
    ///
    /// Not if there was none to send, and not for a user who is gone.
    private func isCuredByToken(_ problem: Problem) -> Bool {
        authorizer.renews && problem.status == 401 && problem.known?.response != nil
            && (try? call.authorizer.check()) != nil
    }
}
