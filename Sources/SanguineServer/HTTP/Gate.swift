import HTTPTypes
import Hummingbird
import NIOCore
import NIOHTTPTypes
import SanguineAuthority
import SanguineModel

/// What stands before the endpoints of a server: reads bodies within their limit and time, and
/// counts requests against their rates.
///
/// Whom it lets in ``Admission`` decides, by the order of the wire contract.
struct Gate: Sendable {
    let admission: Admission
    let bodyBytes: Int
    let uploads: UploadWatch
    let accountLimiter: RateLimiter<Identifier>
    let addressLimiter: RateLimiter<String>

    /// The request, as what it goes to reads it.
    func wire(_ request: Request, _ context: ServerContext) -> HTTPWireRequest {
        HTTPWireRequest(request: request, context: context, gate: self)
    }

    /// Reads a body; none at all counts as `{}`.
    func collect(_ request: Request, _ context: ServerContext) async throws(Problem) -> [UInt8] {
        let bytes: ByteBuffer
        let ticket = uploads.enter(context.channel)
        defer { uploads.leave(ticket) }
        if let length = request.headers[.contentLength].flatMap({ Int($0) }), length > bodyBytes {
            throw WireBody.tooLarge(bodyBytes)
        }
        if request.headers[.expect]?.lowercased() == "100-continue" {
            // RFC 9110, section 10.1.1: the client waits for it before it sends the body. Whoever
            // is refused before this is never asked for one.
            let goOn = HTTPResponsePart.head(HTTPResponse(status: .continue))
            context.channel.writeAndFlush(goOn, promise: nil)
        }
        do {
            bytes = try await request.body.collect(upTo: bodyBytes)
        } catch is NIOTooManyBytesError {
            throw WireBody.tooLarge(bodyBytes)
        } catch {
            throw Problem(.malformedBody, "Send the body whole: it ended early.")
        }
        context.exchange.hasReadBody = true
        return try WireBody.checked(
            Array(bytes.readableBytesView),
            request.headers[.contentType]
        )
    }

    /// Counts a request against its account's rate.
    func checkRate(_ identity: Identity, _ context: ServerContext) throws(Problem) {
        try checkRate(accountLimiter.admit(identity.account), context)
    }

    /// Counts a request against the rate of its address.
    func checkAddressRate(_ context: ServerContext) throws(Problem) {
        try checkRate(addressLimiter.admit(context.address), context)
    }

    private func checkRate(_ decision: RateDecision, _ context: ServerContext) throws(Problem) {
        context.exchange.rate = decision
        guard decision.isAdmitted else {
            throw Problem(
                .rateLimited,
                "Wait for 'Retry-After', then send the request again.",
                retryAfter: decision.retryAfterSeconds
            )
        }
    }
}
