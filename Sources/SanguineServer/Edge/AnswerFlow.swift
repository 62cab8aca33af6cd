import NIOCore

/// Closes a connection whose peer takes nothing of an answer for too long.
///
/// A peer that does not read keeps its answer in memory and its connection's place: it has
/// ``ServerSettings/Limits/writeTimeout`` for each piece of ``EdgeLimits/pieceBytes``.
///
/// Stands over what is written to a connection of HTTP/1.1, to a stream of HTTP/2, which it closes
/// alone, and to a connection of HTTP/2.
///
/// Mutable state belongs to the event loop.
final class AnswerFlow: ChannelOutboundHandler, RemovableChannelHandler {
    typealias OutboundIn = Any

    private let timeout: TimeAmount
    private let gaveUp: @Sendable () -> Void
    /// Pieces that were written and not yet taken.
    private var pending = 0
    /// When a piece was last taken, or the first of those pending written.
    private var lastProgress = NIODeadline.uptimeNanoseconds(0)
    private var timer: Scheduled<Void>?

    /// Creates a flow.
    ///
    /// - Parameters:
    ///   - timeout: How long a piece may take.
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
            flow.look(context)
        }
    }

    private func look(_ context: ChannelHandlerContext) {
        timer = nil
        guard pending > 0 else { return }
        let rest = lastProgress + timeout - context.eventLoop.now
        guard rest <= .zero else { return watch(context, for: rest) }
        gaveUp()
        context.close(promise: nil)
    }
}
