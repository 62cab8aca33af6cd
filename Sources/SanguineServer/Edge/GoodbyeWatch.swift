import NIOCore
import NIOHTTP2

/// Closes a connection of HTTP/2 whose peer does not answer the server's goodbye.
///
/// The server says goodbye with GOAWAY and PING when it stops, and to who has asked nothing for
/// long; with the answer to PING the connection ends in order. Who does not answer is not waited
/// for.
///
/// Mutable state belongs to the event loop.
final class GoodbyeWatch: ChannelDuplexHandler, RemovableChannelHandler {
    typealias InboundIn = HTTP2Frame
    typealias InboundOut = HTTP2Frame
    typealias OutboundIn = HTTP2Frame
    typealias OutboundOut = HTTP2Frame

    private let timeout: TimeAmount
    private var timer: Scheduled<Void>?

    private init(timeout: TimeAmount) { self.timeout = timeout }

    /// Adds a watch between the frames and who answers them.
    static func add(
        to pipeline: ChannelPipeline.SynchronousOperations,
        timeout: TimeAmount
    ) throws {
        let frames = try pipeline.handler(type: NIOHTTP2Handler.self)
        try pipeline.addHandler(GoodbyeWatch(timeout: timeout), position: .after(frames))
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
