import HTTPTypes
import Hummingbird
import NIOCore
import NIOHTTP1
import SanguineAuthority
import SanguineModel

/// Responds with a problem document to requests that violate RFC 9110 or RFC 9112.
///
/// The parser accepts requests without or with several `Host` fields, and any number of pipelined
/// requests; this handler refuses them. It sends no chunks to an HTTP/1.0 client. It closes the
/// connection after a response with `Connection: close`.
///
/// A refusal is reported as a parser error would be: the handler that reads requests first answers
/// the earlier ones and then writes a bare 400, which this handler replaces with the problem.
///
/// Mutable state is confined to the event loop.
final class HTTP1Validator: ChannelDuplexHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias InboundOut = HTTPServerRequestPart
    typealias OutboundIn = HTTPServerResponsePart
    typealias OutboundOut = HTTPServerResponsePart

    /// The versions of the requests without a response so far, the oldest first.
    private var unanswered: [HTTPVersion] = []
    /// The problem that replaces the bare 400.
    private var refusal: Problem?
    /// Whether the current response is the last one.
    private var isLast = false

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard refusal == nil else { return }  // Later bytes cannot be parsed reliably.
        guard case .head(var head) = unwrapInboundIn(data) else {
            return context.fireChannelRead(data)
        }
        if let problem = problem(of: head) {
            refuse(problem, context)
            return
        }
        unanswered.append(head.version)
        if head.version.isWithoutChunks {
            head.headers.replaceOrAdd(name: "Connection", value: "close")
        }
        context.fireChannelRead(wrapInboundOut(.head(head)))
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        guard let error = error as? HTTPParserError else {
            return context.fireErrorCaught(error)
        }
        guard refusal == nil else { return }
        refusal = Self.problem(of: error)
        context.fireErrorCaught(error)
    }

    func write(
        context: ChannelHandlerContext,
        data: NIOAny,
        promise: EventLoopPromise<Void>?
    ) {
        switch unwrapOutboundIn(data) {
        case .head(var head):
            if let refusal, unanswered.isEmpty, head.status == .badRequest {
                let answer = WireResponse.problem(refusal)
                head.status = HTTPResponseStatus(statusCode: answer.status)
                head.headers = [
                    "Connection": "close", "Content-Length": "\(answer.body.count)",
                    "X-Request-Id": RequestID().description,
                ]
                for (field, value) in answer.fields {
                    head.headers.add(name: field.name.rawName, value: value)
                }
                context.write(wrapOutboundOut(.head(head)), promise: promise)
                let body = ByteBuffer(bytes: answer.body)
                context.write(wrapOutboundOut(.body(.byteBuffer(body))), promise: nil)
                return
            }
            if let version = unanswered.first, version.isWithoutChunks {
                // Without chunks, the end of the connection marks the end of the body.
                head.version = version
                head.headers.replaceOrAdd(name: "Connection", value: "close")
            }
            isLast = head.headers[canonicalForm: "Connection"].contains { $0 == "close" }
            context.write(wrapOutboundOut(.head(head)), promise: promise)
        case .end where !unanswered.isEmpty:
            unanswered.removeFirst()
            context.write(data, promise: isLast ? .closing(context, after: promise) : promise)
        default:
            context.write(data, promise: promise)
        }
    }

    private func refuse(_ problem: Problem, _ context: ChannelHandlerContext) {
        refusal = problem
        context.fireErrorCaught(HTTPParserError.unknown)
    }

    private func problem(of head: HTTPRequestHead) -> Problem? {
        let hosts = head.headers["Host"].count
        if hosts > 1 || hosts == 0 && !head.version.isWithoutChunks {
            return Problem(.malformedRequest, "Send one 'Host' header (RFC 9112, section 3.2).")
        }
        if let problem = Problem.form(of: head.uri, head.headers.lazy.map(\.value)) {
            return problem
        }
        if unanswered.count >= EdgeLimits.pipelinedRequests {
            return Problem(
                .overloaded,
                """
                Read the responses before you send more than \(EdgeLimits.pipelinedRequests) \
                requests on one connection.
                """,
                retryAfter: EdgeLimits.retryAfterSeconds
            )
        }
        return nil
    }

    private static func problem(of error: HTTPParserError) -> Problem {
        switch error {
        case .invalidMethod:
            Problem(.init(status: 501), "Use a method of RFC 9110 that '/openapi.json' lists.")
        case .headerOverflow:
            Problem(.init(status: 431), "Send less than 80 KiB of headers.")
        case .invalidVersion:
            Problem(.malformedRequest, "Use HTTP/1.1.")
        default:
            Problem(.malformedRequest, "Send a valid HTTP/1.1 request (RFC 9112).")
        }
    }
}

extension Problem {
    /// Returns the problem with a request's target or field values, if any.
    ///
    /// Long runs of combining marks are refused because comparing such text is slow.
    static func form(of target: String, _ values: some Sequence<String>) -> Problem? {
        if target.utf8.contains(where: { $0 >= 0x80 }) {
            return Problem(.malformedRequest, "Percent-encode the path and query (RFC 3986).")
        }
        if !values.allSatisfy({ $0.hasMarks(inRow: WireLimits.nameMarks) }) {
            return Problem(
                .malformedRequest,
                "Send headers with at most \(WireLimits.nameMarks) combining marks in a row."
            )
        }
        return nil
    }
}

extension HTTPVersion {
    /// Whether it is HTTP/1.0 or older, which requires no `Host` either.
    fileprivate var isWithoutChunks: Bool { major < 1 || major == 1 && minor < 1 }
}

extension EventLoopPromise<Void> {
    /// A promise that closes the channel after a write, in addition to completing `promise`.
    static func closing(
        _ context: ChannelHandlerContext,
        after promise: EventLoopPromise<Void>?
    ) -> EventLoopPromise<Void> {
        let written = promise ?? context.eventLoop.makePromise(of: Void.self)
        let bound = NIOLoopBound(context, eventLoop: context.eventLoop)
        written.futureResult.whenComplete { _ in bound.value.close(promise: nil) }
        return written
    }
}
