import HTTPTypes
import Hummingbird
import Logging
import NIOCore
import SanguineAuthority
import SanguineModel

/// Wraps every handler: converts errors to problems, adds the headers common to all responses, and
/// writes the access log and the metrics.
struct ProblemMiddleware: RouterMiddleware {
    let proxies: TrustedProxies
    let metrics: RequestMetrics
    let answers: SharedPool
    /// The requests in progress.
    let requests: SharedPool
    /// The rate limiter for requests without a valid token; `nil` for the admin port.
    let visitors: RateLimiter<String>?
    let accessLog: LogQueue?
    /// The epoch of the numbers in responses.
    let epoch: Epoch
    let clock: any WallClock
    // Used only for measurements.
    private let stopwatch = ContinuousClock()
    private let compression = Compression()

    func handle(
        _ request: Request,
        context: ServerContext,
        next: (Request, ServerContext) async throws -> Response
    ) async throws -> Response {
        let start = stopwatch.now
        let context = context.locating(request, behind: proxies)
        var response: Response
        do {
            try checkVisitor(request, context)
            let permit = try admitted(context)
            defer {
                permit.release()
                context.exchange.leaveBody()
            }
            response = try await next(request, context)
            response = try await compression.compress(response, to: request)
            response = try reserving(response, context)
        } catch {
            response = refusal(problem(error, context))
            if response.status == .unsupportedMediaType, Gate.hasCoding(request) {
                // RFC 9110, section 15.5.16: names the encodings that are accepted.
                response.headers[.acceptEncoding] = "identity"
            }
        }
        if let problem = countVisitor(context) { response = refusal(problem) }
        addCommonHeaders(to: &response, context)
        let duration = start.duration(to: stopwatch.now)
        let route = context.endpointPath ?? "unmatched"
        metrics.record(request.method, route, response.status, duration)
        accessLog?.append(
            AccessLogEntry(
                time: clock.now(),
                method: request.method.rawValue,
                route: route,
                status: response.status.code,
                duration: duration,
                requestID: context.requestID,
                requestBytes: request.headers[.contentLength].flatMap { Int($0) } ?? 0,
                responseBytes: response.body.contentLength ?? 0
            )
        )
        // A response to HEAD has no body: the client would read one as the start of the next
        // response.
        if request.method == .head { response = response.createHeadResponse() }
        if context.exchange.isUnread {
            // The client does not read, so pipelined requests are not answered.
            response.headers[.connection] = "close"
        }
        if Self.hasBody(request), !context.exchange.hasReadBody {
            // The unread rest of a body may be endless, so the connection is closed.
            response.headers[.connection] = "close"
        }
        return response
    }

    private func addCommonHeaders(to response: inout Response, _ context: ServerContext) {
        response.headers.add(.requestID, context.requestID)
        if Self.hasNumbers(response) { response.headers.add(.sanguineEpoch, epoch.text) }
        if let rate = context.exchange.rate {
            response.headers.add(.rateLimitPolicy, rate.policy.headerValue)
            response.headers.add(.rateLimit, rate.headerValue)
        }
    }

    /// Returns whether a response contains numbers of a feed, in its header or in its events.
    private static func hasNumbers(_ response: Response) -> Bool {
        response.headers[.sanguineHead] != nil
            || response.headers[.contentType] == WireResponse.eventStream
    }

    /// Counts a problem and returns it as a response.
    private func refusal(_ problem: Problem) -> Response {
        metrics.record(problem)
        return Response(.problem(problem))
    }

    /// Refuses a request without a token at once if its address has sent too many.
    private func checkVisitor(
        _ request: Request,
        _ context: ServerContext
    ) throws(Problem) {
        guard let visitors, request.headers[.authorization] == nil else { return }
        let decision = visitors.look(context.address)
        guard !decision.isAdmitted else { return }
        context.exchange.isCounted = true
        context.exchange.rate = decision
        throw .tooFast(decision)
    }

    /// Counts a request that has no valid token and was not counted yet.
    private func countVisitor(_ context: ServerContext) -> Problem? {
        guard let visitors, context.exchange.account == nil, !context.exchange.isCounted else {
            return nil
        }
        let decision = visitors.admit(context.address)
        guard !decision.isAdmitted else { return nil }
        context.exchange.rate = decision
        return .tooFast(decision)
    }

    /// Reserves a permit for a request in progress.
    ///
    /// One address cannot take all of them, and so cannot exhaust shared resources such as the
    /// command queue.
    private func admitted(_ context: ServerContext) throws(Problem) -> SharedPool.Permit {
        do throws(SharedPool.Refusal) {
            return try requests.acquire(address: context.address)
        } catch {
            throw Problem(
                .overloaded,
                "Too many requests are in progress. Send this one again after 'Retry-After'.",
                retryAfter: EdgeLimits.retryAfterSeconds
            )
        }
    }

    /// Reserves the bytes of a long response until they are written.
    ///
    /// A response that is read while it is written reserves only the bytes held in memory.
    private func reserving(
        _ response: Response,
        _ context: ServerContext
    ) throws(Problem) -> Response {
        guard let length = response.body.contentLength, length > EdgeLimits.exemptAnswerBytes else {
            return response
        }
        let permit: SharedPool.Permit
        do throws(SharedPool.Refusal) {
            let account = context.exchange.account
            let waiting = min(length, context.exchange.streamedBytes ?? length)
            permit = try answers.acquire(waiting, account: account, address: context.address)
        } catch {
            context.exchange.isUnread = true
            throw .unread
        }
        var reserved = response
        let body = response.body
        reserved.body = ResponseBody(contentLength: length) { [permit] writer in
            try await body.write(PieceWriter(base: writer))
            permit.release()
        }
        return reserved
    }

    private static func hasBody(_ request: Request) -> Bool {
        request.headers[.transferEncoding] != nil
            || request.headers[.contentLength].map { $0 != "0" } == true
    }

    private func problem(_ error: any Error, _ context: ServerContext) -> Problem {
        switch error {
        case let problem as Problem:
            return problem
        case let error as HTTPError where error.status == .notFound:
            return .noEndpoint
        case let error as any HTTPResponseError where error.status.code == 413:
            return Problem(.bodyTooLarge, "Send a smaller body.")
        case let error as any HTTPResponseError where (400..<500).contains(error.status.code):
            return Problem(.malformedRequest, "Check the request against /openapi.json.")
        default:
            context.logger.error(
                "A request handler failed",
                metadata: ["error": "\(String(reflecting: type(of: error)))"]
            )
            return Problem(.internalFault, "Send the request again with the same key.")
        }
    }
}

/// Writes long buffers in pieces, so that the connection waits for its reader between them.
private struct PieceWriter: ResponseBodyWriter {
    var base: any ResponseBodyWriter

    mutating func write(_ buffer: ByteBuffer) async throws {
        var rest = buffer
        while let piece = rest.readSlice(length: min(EdgeLimits.pieceBytes, rest.readableBytes)),
            piece.readableBytes > 0
        {
            try await base.write(piece)
        }
    }

    consuming func finish(_ trailers: HTTPFields?) async throws {
        try await base.finish(trailers)
    }
}
