import NIOCore

/// Closes a connection when its peer stops reading a response.
///
/// A peer that does not read keeps the response in memory and occupies a connection. It has
/// ``ServerSettings/Limits/writeTimeout`` to receive each piece of ``EdgeLimits/pieceBytes``.
///
/// The handler is added to HTTP/1.1 connections, to HTTP/2 connections and to HTTP/2 streams. On a
/// stream it closes only that stream.
///
/// Mutable state is confined to the event loop.
final class WriteBackpressure: ChannelOutboundHandler, RemovableChannelHandler {
    typealias OutboundIn = Any

    private let timeout: TimeAmount
    private let gaveUp: @Sendable () -> Void
    /// The number of pieces that were written but not yet sent.
    private var pending = 0
    /// The time at which the last piece was sent, or the first pending piece was written.
    private var lastProgress = NIODeadline.uptimeNanoseconds(0)
    private var timer: Scheduled<Void>?
    /// Whether the end of the connection's task leaves the connection open.
    private var ignoresClose = false

    /// Creates a handler.
    ///
    /// - Parameters:
    ///   - timeout: The time that the peer has for a piece.
    ///   - gaveUp: Called when a connection is closed because its peer does not read.
    init(timeout: TimeAmount, gaveUp: @escaping @Sendable () -> Void) {
        self.timeout = timeout
        self.gaveUp = gaveUp
    }

    func write(
        context: ChannelHandlerContext,
        data: NIOAny,
        promise: EventLoopPromise<Void>?
    ) {
        watch(data, context, promise)
    }

    /// Leaves the connection open when its task ends, because other tasks write the response.
    func ignoreClose() { ignoresClose = true }

    /// Lets the next close through.
    func obeyClose() { ignoresClose = false }

    func close(
        context: ChannelHandlerContext,
        mode: CloseMode,
        promise: EventLoopPromise<Void>?
    ) {
        guard !ignoresClose else {
            promise?.succeed()
            return
        }
        context.close(mode: mode, promise: promise)
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        timer?.cancel()
        timer = nil
    }

    private func watch(
        _ part: NIOAny,
        _ context: ChannelHandlerContext,
        _ promise: EventLoopPromise<Void>?
    ) {
        let written = promise ?? context.eventLoop.makePromise(of: Void.self)
        if pending == 0 { lastProgress = context.eventLoop.now }
        pending += 1
        let flow = NIOLoopBound(self, eventLoop: context.eventLoop)
        written.futureResult.whenComplete { [loop = context.eventLoop] _ in
            flow.value.pending -= 1
            flow.value.lastProgress = loop.now
        }
        context.write(part, promise: written)
        if timer == nil, pending > 0 { watch(context, for: timeout) }
    }

    private func watch(_ context: ChannelHandlerContext, for time: TimeAmount) {
        let bound = NIOLoopBound((self, context), eventLoop: context.eventLoop)
        timer = context.eventLoop.scheduleTask(in: time) {
            let (flow, context) = bound.value
            flow.check(context)
        }
    }

    private func check(_ context: ChannelHandlerContext) {
        timer = nil
        guard pending > 0 else { return }
        let rest = lastProgress + timeout - context.eventLoop.now
        guard rest <= .zero else { return watch(context, for: rest) }
        gaveUp()
        context.close(promise: nil)
    }
}
