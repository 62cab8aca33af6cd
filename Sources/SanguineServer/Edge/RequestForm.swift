import HTTPTypes
import NIOCore
import NIOHTTP1
import SanguineAuthority
import SanguineModel

/// Refuses what is no HTTP/1 request as RFC 9110 and RFC 9112 have it, with a problem document.
///
/// The parser accepts none or several `Host` fields, and any number of requests at once: here they
/// are refused. A request of HTTP/1.0 gets no chunks. After an answer that says so the connection
/// ends.
///
/// The refusal travels as the parser's error would: what reads the requests answers those that
/// came before, then writes a bare 400, which becomes the problem here.
///
/// Mutable state belongs to the event loop.
final class RequestForm: ChannelDuplexHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias InboundOut = HTTPServerRequestPart
    typealias OutboundIn = HTTPServerResponsePart
    typealias OutboundOut = HTTPServerResponsePart

    /// The versions of the requests that have no answer yet, the oldest first.
    private var unanswered: [HTTPVersion] = []
    /// What is answered in place of the bare 400.
    private var refusal: Problem?
    /// Whether the answer that is being written is the last one.
    private var isLast = false

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard refusal == nil else { return }  // Nothing after it can be told from it.
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
                let answer = WireAnswer.problem(refusal)
                head.status = HTTPResponseStatus(statusCode: answer.status)
                head.headers = ["Connection": "close", "Content-Length": "\(answer.body.count)"]
                for (field, value) in answer.fields {
                    head.headers.add(name: field.name.rawName, value: value)
                }
                context.write(wrapOutboundOut(.head(head)), promise: promise)
                let body = ByteBuffer(bytes: answer.body)
                context.write(wrapOutboundOut(.body(.byteBuffer(body))), promise: nil)
                return
            }
            if let version = unanswered.first, version.isWithoutChunks {
                // Without chunks the end of the connection is the end of the body.
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
                Read the answers before you send more than \(EdgeLimits.pipelinedRequests) requests.
                """,
                retryAfter: EdgeLimits.retryAfterSeconds
            )
        }
        return nil
    }

    private static func problem(of error: HTTPParserError) -> Problem {
        switch error {
        case .invalidMethod:
            Problem(.init(status: 501), "Use a method of RFC 9110 that '/openapi.json' names.")
        case .headerOverflow:
            Problem(.init(status: 431), "Send less than 80 KiB of headers.")
        case .invalidVersion:
            Problem(.malformedRequest, "Speak HTTP/1.1.")
        default:
            Problem(.malformedRequest, "Send a request of HTTP/1.1 as RFC 9112 describes it.")
        }
    }
}

extension Problem {
    /// What is wrong with a request's target and the values of its fields, if anything is.
    ///
    /// Comparing text with many combining marks in a row takes long.
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
    /// Whether it is HTTP/1.0 or older, which needs no `Host` either.
    fileprivate var isWithoutChunks: Bool { major < 1 || major == 1 && minor < 1 }
}

extension EventLoopPromise<Void> {
    /// A promise that ends the channel when something was written, and then tells another one.
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
