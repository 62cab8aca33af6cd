import HTTPTypes
import Hummingbird
import NIOCore
import NIOHTTPTypes
import SanguineAuthority
import SanguineModel

/// Makes requests and responses of a stream conform to HTTP/2 (RFC 9113).
///
/// Refuses a request whose target or fields are too expensive to compare. Removes
/// connection-specific fields from responses (section 8.2.2). Closes a stream whose response ends
/// before its request (section 8.1), because the rest of the request is not read.
///
/// Mutable state is confined to the event loop.
final class HTTP2Validator: ChannelDuplexHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPRequestPart
    typealias InboundOut = HTTPRequestPart
    typealias OutboundIn = HTTPResponsePart
    typealias OutboundOut = HTTPResponsePart

    private var hasRequestEnded = false
    private var isRefused = false

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard !isRefused else { return }
        switch unwrapInboundIn(data) {
        case .head(let head):
            let values = head.headerFields.lazy.map(\.value)
            if let problem = Problem.form(of: head.path ?? "", values) {
                return refuse(problem, context)
            }
        case .end: hasRequestEnded = true
        case .body: break
        }
        context.fireChannelRead(data)
    }

    private func refuse(_ problem: Problem, _ context: ChannelHandlerContext) {
        isRefused = true
        let answer = WireResponse.problem(problem)
        var head = HTTPResponse(status: .init(code: answer.status))
        for (field, value) in answer.fields { head.headerFields[field.name] = value }
        head.headerFields[.contentLength] = String(answer.body.count)
        head.headerFields[.requestID] = RequestID().description
        context.write(wrapOutboundOut(.head(head)), promise: nil)
        context.write(wrapOutboundOut(.body(ByteBuffer(bytes: answer.body))), promise: nil)
        let end = wrapOutboundOut(.end(nil))
        context.writeAndFlush(end, promise: .closing(context, after: nil))
    }

    func write(
        context: ChannelHandlerContext,
        data: NIOAny,
        promise: EventLoopPromise<Void>?
    ) {
        switch unwrapOutboundIn(data) {
        case .head(var head):
            head.headerFields[.connection] = nil
            head.headerFields[.transferEncoding] = nil
            context.write(wrapOutboundOut(.head(head)), promise: promise)
        case .end where !hasRequestEnded:
            context.write(data, promise: .closing(context, after: promise))
        default:
            context.write(data, promise: promise)
        }
    }
}
