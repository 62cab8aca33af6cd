import HTTPTypes
import NIOCore
import NIOHTTPTypes

/// Gives the answers of a stream the form of HTTP/2 (RFC 9113).
///
/// Fields that mean the connection are left out (section 8.2.2). A stream whose request has not
/// ended when its answer has is closed then (section 8.1): nobody reads the rest.
///
/// Mutable state belongs to the event loop.
final class StreamForm: ChannelDuplexHandler, RemovableChannelHandler {
    typealias InboundIn = HTTPRequestPart
    typealias InboundOut = HTTPRequestPart
    typealias OutboundIn = HTTPResponsePart
    typealias OutboundOut = HTTPResponsePart

    private var hasRequestEnded = false

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        if case .end = unwrapInboundIn(data) { hasRequestEnded = true }
        context.fireChannelRead(data)
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
