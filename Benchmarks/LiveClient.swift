import NIOCore
import NIOPosix
import Synchronization

/// A connection that records when bytes arrive, and does not parse them.
final class LiveClient: Sendable {
    /// Shorter texts are comments and are ignored.
    private static let shortest = 100

    let channel: any Channel
    private let arrivals: Arrivals

    private init(channel: any Channel, arrivals: Arrivals) {
        self.channel = channel
        self.arrivals = arrivals
    }

    /// Opens connections, a hundred at a time, and sends a first text on each.
    ///
    /// If `isAnswered` is true, waits for the response.
    static func connect(
        _ count: Int,
        to port: Int,
        on group: any EventLoopGroup,
        isAnswered: Bool = false,
        _ first: @escaping @Sendable (Int) -> String
    ) async throws -> [LiveClient] {
        var clients: [LiveClient] = []
        while clients.count < count {
            let start = clients.count
            let opened = (start..<min(start + 100, count)).map { index in
                let arrivals = Arrivals(eventLoop: group.next())
                let client = ClientBootstrap(group: arrivals.eventLoop)
                    .channelOption(.tcpOption(.tcp_nodelay), value: 1)
                    .channelInitializer { $0.pipeline.addHandler(arrivals) }
                    .connect(host: "127.0.0.1", port: port)
                return (index, arrivals, client)
            }
            for (index, arrivals, opening) in opened {
                let client = LiveClient(channel: try await opening.get(), arrivals: arrivals)
                let text = first(index)
                let arrival = isAnswered ? client.arm() : nil
                if !text.isEmpty { try await client.send(text) }
                _ = try await arrival?.get()
                clients.append(client)
            }
        }
        return clients
    }

    func send(_ text: String) async throws {
        try await channel.writeAndFlush(ByteBuffer(string: text))
    }

    /// Returns the time at which the next event arrives.
    func arm() -> EventLoopFuture<ContinuousClock.Instant> { arrivals.arm() }

    /// The bytes that arrived last.
    var lastBytes: [UInt8] { arrivals.lastBytes }

    private final class Arrivals: ChannelInboundHandler, Sendable {
        typealias InboundIn = ByteBuffer

        private struct State {
            var waiting: EventLoopPromise<ContinuousClock.Instant>?
            var last = ByteBuffer()
        }

        let eventLoop: any EventLoop
        private let state = Mutex(State())

        init(eventLoop: any EventLoop) { self.eventLoop = eventLoop }

        var lastBytes: [UInt8] { state.withLock { Array($0.last.readableBytesView) } }

        func arm() -> EventLoopFuture<ContinuousClock.Instant> {
            let promise = eventLoop.makePromise(of: ContinuousClock.Instant.self)
            state.withLock { $0.waiting = promise }
            return promise.futureResult
        }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            let bytes = unwrapInboundIn(data)
            guard bytes.readableBytes >= LiveClient.shortest else { return }
            let now = ContinuousClock.now
            let waiting = state.withLock { state in
                state.last = bytes
                defer { state.waiting = nil }
                return state.waiting
            }
            waiting?.succeed(now)
        }

        func channelInactive(context: ChannelHandlerContext) {
            state.withLock { $0.waiting }?.fail(ChannelError.eof)
        }
    }
}
