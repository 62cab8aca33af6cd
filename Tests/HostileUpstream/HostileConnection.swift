import Foundation
import NIOCore
import NIOHTTP1

/// One connection of the hostile upstream.
///
/// Everything runs on the connection's event loop. Each piece is billed and written, and the next
/// one follows after its interval while the connection is open and writable.
final class HostileConnection: ChannelInboundHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias OutboundOut = ByteBuffer

    /// The number of bytes written at once, before checking that the client accepts more.
    private static let batchBytes = 1 << 16

    private let upstream: HostileUpstream
    private var head: HTTPRequestHead?
    private var body: [UInt8] = []
    private var requests = 0
    /// The number of words of the current answer that were written.
    private var written = 0
    private var present: HostileUpstream.Request?

    init(_ upstream: HostileUpstream) { self.upstream = upstream }

    func channelActive(context: ChannelHandlerContext) {
        upstream.opened()
        context.fireChannelActive()
    }

    func channelInactive(context: ChannelHandlerContext) {
        upstream.closed()
        if let present { upstream.forget(present.id) }
        context.fireChannelInactive()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        context.close(promise: nil)
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch unwrapInboundIn(data) {
        case .head(let head):
            self.head = head
            body = []
        case .body(let buffer):
            body += buffer.readableBytesView
        case .end:
            guard let head = head.take() else { return }
            requests += 1
            let (request, fault) = upstream.take(head, body, numberOnConnection: requests)
            body = []
            written = 0
            present = request
            write(HostileReply(to: request, fault), from: 0, for: request, context)
        }
    }

    /// Writes the pieces from the given one on.
    ///
    /// Pieces without an interval are written together, as far as the reader has acknowledged
    /// words.
    private func write(
        _ reply: HostileReply,
        from start: Int,
        for request: HostileUpstream.Request,
        _ context: ChannelHandlerContext
    ) {
        guard context.channel.isActive else { return }
        var index = start
        var buffer = ByteBuffer()
        var words = 0
        var turn: EventLoopFuture<Void>?
        repeat {
            guard index < reply.pieces.count else { break }
            if reply.pieces[index].words > 0 {
                let word = written + words
                turn = upstream.turn(of: word, in: request, on: context.eventLoop)
            }
            guard turn == nil else { break }
            buffer.writeString(reply.pieces[index].bytes)
            words += reply.pieces[index].words
            index += 1
        } while !isPause(before: index, in: reply) && buffer.readableBytes < Self.batchBytes
        if buffer.readableBytes > 0 {
            written += words
            upstream.bill(words, to: request.id)
            let (upstream, count) = (upstream, words)
            context.writeAndFlush(wrapOutboundOut(buffer)).whenFailure { _ in
                upstream.bill(-count, to: request.id)
            }
        }
        if let turn {
            turn.assumeIsolated().whenComplete { [index] _ in
                self.write(reply, from: index, for: request, context)
            }
        } else if index < reply.pieces.count {
            later(reply, index, request, context)
        } else {
            end(reply, request, context)
        }
    }

    private func isPause(before index: Int, in reply: HostileReply) -> Bool {
        index < reply.pieces.count && reply.interval > .zero && reply.pieces[index].words > 0
    }

    private func end(
        _ reply: HostileReply,
        _ request: HostileUpstream.Request,
        _ context: ChannelHandlerContext
    ) {
        switch reply.ending {
        case .next, .silence: return
        case .close: context.close(promise: nil)
        case .reset:
            // With a linger time of zero, closing discards unsent bytes and resets the connection.
            // On the event loop, the option is set at once.
            if let socket = context.channel as? any SocketOptionProvider {
                _ = socket.setSoLinger(linger(l_onoff: 1, l_linger: 0))
            }
            context.close(promise: nil)
        case .again:
            later(reply, reply.pieces.count - 1, request, context)
        }
    }

    private func later(
        _ reply: HostileReply,
        _ index: Int,
        _ request: HostileUpstream.Request,
        _ context: ChannelHandlerContext
    ) {
        // Bytes that the client does not accept are not written, because the server's memory is
        // bounded too.
        guard context.channel.isWritable || !context.channel.isActive else {
            upstream.stalled()
            context.eventLoop.assumeIsolated().scheduleTask(in: .milliseconds(1)) {
                self.later(reply, index, request, context)
            }
            return
        }
        context.eventLoop.assumeIsolated().scheduleTask(in: max(reply.interval, .nanoseconds(1))) {
            self.write(reply, from: index, for: request, context)
        }
    }
}
