import HTTPTypes
import Hummingbird
import NIOCore
import NIOHTTPTypes
import SanguineAuthority
import SanguineModel

/// Reads bodies within their size and time limits, and applies rate limits, for all endpoints.
///
/// ``Admission`` decides which requests are admitted, in the order of the wire contract.
struct Gate: Sendable {
    let admission: Admission
    let bodyBytes: Int
    let bodies: SharedPool
    /// The maximum size of an uploaded file in bytes.
    let fileBytes: Int
    /// The memory for files whose requests have no response yet, in bytes.
    let files: SharedPool
    /// The responses that wait to be read.
    let answers: SharedPool
    let uploads: UploadTimeouts
    let accountLimiter: RateLimiter<Identifier>
    let addressLimiter: RateLimiter<String>
    let addressProcessor: RateLimiter<String>

    /// Wraps a request for the endpoints.
    func wire(_ request: Request, _ context: ServerContext) -> HTTPWireRequest {
        HTTPWireRequest(request: request, context: context, gate: self)
    }

    /// Reads a body; an empty one counts as `{}`.
    func collect(_ request: Request, _ context: ServerContext) async throws(Problem) -> [UInt8] {
        let bytes = try await receive(request, context, upTo: bodyBytes, in: bodies, turns: 1)
        return try WireBody.checked(bytes, request.headers[.contentType])
    }

    /// Reads a file, which has its own pool of bytes and more time.
    func file(_ request: Request, _ context: ServerContext) async throws(Problem) -> [UInt8] {
        try await receive(
            request,
            context,
            upTo: fileBytes,
            in: files,
            turns: EdgeLimits.fileTimeFactor
        )
    }

    /// Reads the parts of a file, which are in memory one at a time.
    func parts(
        of request: Request,
        _ context: ServerContext,
        upTo limit: Int,
        _ receive: ([UInt8]) async throws(Problem) -> Void
    ) async throws(Problem) {
        var count = 0
        try await read(request, context, upTo: limit, turns: EdgeLimits.fileTimeFactor) {
            part throws(Problem) in
            guard count + part.readableBytes <= limit else { throw WireBody.tooLarge(limit) }
            count += part.readableBytes
            try await receive(Array(part.readableBytesView))
        }
    }

    /// Reserves memory for a file that arrived in parts.
    func reserve(_ count: Int, _ context: ServerContext) throws(Problem) {
        do throws(SharedPool.Refusal) {
            try context.exchange.reserve(count, in: files, address: context.address)
        } catch {
            throw .tooManyBodies
        }
    }

    // Reads a body while the pool of all bodies in progress has room for it.
    private func receive(
        _ request: Request,
        _ context: ServerContext,
        upTo limit: Int,
        in pool: SharedPool,
        turns factor: Int
    ) async throws(Problem) -> [UInt8] {
        var bytes: [UInt8] = []
        var permit: SharedPool.Permit?
        try await read(request, context, upTo: limit, turns: factor) { part throws(Problem) in
            guard bytes.count + part.readableBytes <= limit else { throw WireBody.tooLarge(limit) }
            do throws(SharedPool.Refusal) {
                if permit == nil {
                    let account = context.exchange.account
                    permit = try pool.acquire(0, account: account, address: context.address)
                    // An array that grows copies megabytes while other connections wait for the
                    // thread. The system gives memory only to the pages that are written.
                    bytes.reserveCapacity(Self.length(of: request))
                }
                try permit?.grow(by: part.readableBytes)
            } catch {
                throw .tooManyBodies
            }
            bytes.append(contentsOf: part.readableBytesView)
        }
        if let permit { context.exchange.keep(permit) }
        return bytes
    }

    /// The declared length; 0 if it is unknown.
    private static func length(of request: Request) -> Int {
        max(0, request.headers[.contentLength].flatMap { Int($0) } ?? 0)
    }

    private func read(
        _ request: Request,
        _ context: ServerContext,
        upTo limit: Int,
        turns factor: Int,
        _ receive: (ByteBuffer) async throws(Problem) -> Void
    ) async throws(Problem) {
        let ticket = uploads.enter(context.channel, times: factor)
        defer { uploads.stopWatching(ticket) }
        if Self.hasCoding(request) {
            throw Problem(.unsupportedMediaType, "Send the body without 'Content-Encoding'.")
        }
        guard Self.length(of: request) <= limit else { throw WireBody.tooLarge(limit) }
        if request.headers[.expect]?.lowercased() == "100-continue" {
            // RFC 9110, section 10.1.1: the client waits for it before it sends the body. A client
            // that was refused earlier is not asked for its body.
            let goOn = HTTPResponsePart.head(HTTPResponse(status: .continue))
            context.channel.writeAndFlush(goOn, promise: nil)
        }
        do {
            for try await part in request.body { try await receive(part) }
        } catch let problem as Problem {
            throw problem
        } catch {
            throw Problem(.malformedBody, "Send the complete body: it ended early.")
        }
        context.exchange.hasReadBody = true
    }

    /// Returns whether the body is encoded, which no endpoint accepts.
    static func hasCoding(_ request: Request) -> Bool {
        let codings = request.headers[values: .contentEncoding]
        return codings.contains { $0.lowercased() != "identity" }
    }

    /// Counts a request against its account's rate.
    func checkRate(_ identity: Identity, _ context: ServerContext) throws(Problem) {
        context.exchange.account = identity.account
        try checkRate(accountLimiter.admit(identity.account), context)
        // Checked before any data is read: a client that does not read gets no more responses.
        if answers.isCrowded(account: identity.account, address: context.address) {
            context.exchange.isUnread = true
            throw .unread
        }
    }

    /// Counts a request against the rate of its address.
    func checkAddressRate(_ context: ServerContext) throws(Problem) {
        context.exchange.isCounted = true
        try checkRate(addressLimiter.admit(context.address), context)
    }

    /// Refuses an address whose requests without a token have used too much processor time.
    func checkProcessorTime(_ context: ServerContext) throws(Problem) {
        let decision = addressProcessor.look(context.address)
        guard !decision.isAdmitted else { return }
        try checkRate(decision, context)
    }

    private func checkRate(_ decision: RateDecision, _ context: ServerContext) throws(Problem) {
        context.exchange.rate = decision
        guard decision.isAdmitted else { throw .tooFast(decision) }
    }
}

extension Problem {
    /// The refusal of a body for which there is no memory.
    fileprivate static var tooManyBodies: Problem {
        Problem(
            .overloaded,
            "Too many request bodies are in progress. Send this one again after 'Retry-After'.",
            retryAfter: EdgeLimits.retryAfterSeconds
        )
    }

    /// The refusal of a request from a client that does not read responses.
    static var unread: Problem {
        Problem(
            .overloaded,
            """
            Too many responses wait to be read. Read them, and send the request again after \
            'Retry-After'.
            """,
            retryAfter: EdgeLimits.retryAfterSeconds
        )
    }

    /// Returns the refusal of a request that exceeds a rate limit.
    static func tooFast(_ decision: RateDecision) -> Problem {
        Problem(
            .rateLimited,
            "The rate limit is exceeded. Send the request again after 'Retry-After'.",
            retryAfter: decision.retryAfterSeconds
        )
    }
}
