import NIOCore
import NIOHTTP2

/// Closes an HTTP/2 connection whose peer does not respond to GOAWAY.
///
/// The server sends GOAWAY and PING when it stops, and to a client that has been idle for long.
/// When the client acknowledges the PING, the connection ends in order. Otherwise this handler
/// closes it after a timeout.
///
/// Mutable state is confined to the event loop.
final class GoAwayTimeout: ChannelDuplexHandler, RemovableChannelHandler {
    typealias InboundIn = HTTP2Frame
    typealias InboundOut = HTTP2Frame
    typealias OutboundIn = HTTP2Frame
    typealias OutboundOut = HTTP2Frame

    private let timeout: TimeAmount
    private var timer: Scheduled<Void>?

    private init(timeout: TimeAmount) { self.timeout = timeout }

    /// Adds the handler directly after the one that decodes frames.
    static func add(
        to pipeline: ChannelPipeline.SynchronousOperations,
        timeout: TimeAmount
    ) throws {
        let frames = try pipeline.handler(type: NIOHTTP2Handler.self)
        try pipeline.addHandler(GoAwayTimeout(timeout: timeout), position: .after(frames))
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        if case .ping(_, ack: true) = unwrapInboundIn(data).payload { cancel() }
        context.fireChannelRead(data)
    }

    func write(
        context: ChannelHandlerContext,
        data: NIOAny,
        promise: EventLoopPromise<Void>?
    ) {
        if case .goAway = unwrapOutboundIn(data).payload, timer == nil {
            let channel = context.channel
            timer = context.eventLoop.scheduleTask(in: timeout) { channel.close(promise: nil) }
        }
        context.write(data, promise: promise)
    }

    func handlerRemoved(context: ChannelHandlerContext) { cancel() }

    private func cancel() {
        timer?.cancel()
        timer = nil
    }
}
