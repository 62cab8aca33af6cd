import NIOCore
import NIOPosix
import NIOSSL
import SanguineTesting

/// A language model over HTTP/2 that ends each stream as a test declares.
///
/// Mutable state: `state`, behind its mutex, for tests to await.
final class HTTP2Upstream: Sendable {
    /// A complete request.
    struct Request: Sendable {
        /// The number of the request, from 1.
        var number: Int
        /// The number of its connection, from 1.
        var connection: Int
        /// The id of its stream.
        var stream: UInt32
    }

    /// The end of a stream (RFC 9113, sections 6.4 and 6.8).
    enum Ending: Hashable, Sendable {
        case answers
        /// A reset with an error code.
        case resets(UInt32)
        /// The end of the connection, which names the last stream that may have been processed.
        case goesAway(last: UInt32, closes: Bool = false)
        /// The connection is closed without notice.
        case hangsUp
    }

    /// The requests and connections.
    struct State: Sendable {
        var requests: [Request] = []
        var connections = 0
        fileprivate var channels: [any Channel] = []
    }

    static let (internalError, refusedStream, cancel, calm): (UInt32, UInt32, UInt32, UInt32) = (
        2, 7, 8, 11
    )
    /// The text of every answer.
    static let text = "over HTTP/2"

    let state: WatchedState<State>
    private let server: any Channel

    private init(_ server: any Channel, _ state: WatchedState<State>) {
        (self.server, self.state) = (server, state)
    }

    var url: String { "https://localhost:\(server.localAddress?.port ?? 0)" }

    /// Runs the body with a server, which is closed at its end.
    static func with(
        _ ending: @escaping @Sendable (Request) -> Ending,
        _ body: (HTTP2Upstream) async throws -> Void
    ) async throws {
        let state = WatchedState(State())
        let context = try context()
        let server = try await ServerBootstrap(group: .singletonMultiThreadedEventLoopGroup)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    let number = state.withLock { state in
                        state.connections += 1
                        state.channels.append(channel)
                        return state.connections
                    }
                    let pipeline = channel.pipeline.syncOperations
                    try pipeline.addHandler(NIOSSLServerHandler(context: context))
                    try pipeline.addHandler(Connection(number, state, ending))
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        let upstream = HTTP2Upstream(server, state)
        let result: Result<Void, any Error>
        do { result = .success(try await body(upstream)) } catch { result = .failure(error) }
        await upstream.hangUp()
        try await server.close()
        try result.get()
    }

    private static func context() throws -> NIOSSLContext {
        let certificates = try NIOSSLCertificate.fromPEMBytes(Array(TestCertificate.first.pem.utf8))
        let key = Array(TestCertificate.first.keyPEM.utf8)
        var configuration = TLSConfiguration.makeServerConfiguration(
            certificateChain: certificates.map { .certificate($0) },
            privateKey: .privateKey(try NIOSSLPrivateKey(bytes: key, format: .pem))
        )
        configuration.applicationProtocols = ["h2"]
        return try NIOSSLContext(configuration: configuration)
    }

    /// Closes all connections.
    func hangUp() async {
        let channels = state.withLock { state in
            defer { state.channels = [] }
            return state.channels
        }
        for channel in channels { try? await channel.close() }
    }

    /// Announces the end of all connections, which continue for now.
    func announceEnd() {
        let frame = Self.goAway(UInt32(Int32.max))
        for channel in state.value.channels {
            // The client may have closed an earlier connection.
            channel.writeAndFlush(ByteBuffer(bytes: frame.bytes), promise: nil)
        }
    }

    private static func goAway(_ last: UInt32) -> Frame {
        Frame(kind: Frame.goAway, payload: Frame.four(last) + Frame.four(0))
    }

    /// The answer to a request without a stream of events.
    private static func answer(_ stream: UInt32) -> [Frame] {
        let body = """
            {"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,\
            "message":{"role":"assistant","content":"\(text)"},"finish_reason":"stop"}],\
            "usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}}
            """
        // Status 200 of the static table, and a literal field (RFC 7541).
        var block: [UInt8] = [0x88, 0]
        for part in ["content-type", "application/json"] {
            block += [UInt8(part.utf8.count)] + Array(part.utf8)
        }
        return [
            Frame(kind: Frame.headers, flags: Frame.endHeaders, stream: stream, payload: block),
            Frame(
                kind: Frame.data,
                flags: Frame.endStream,
                stream: stream,
                payload: Array(body.utf8)
            ),
        ]
    }

    /// Reads the frames of one connection, and ends its streams.
    private final class Connection: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer
        typealias OutboundOut = ByteBuffer

        private static let prefaceBytes = 24

        private let number: Int
        private let state: WatchedState<State>
        private let ending: @Sendable (Request) -> Ending
        private var rest = ByteBuffer()
        private var hasBegun = false

        init(
            _ number: Int,
            _ state: WatchedState<State>,
            _ ending: @escaping @Sendable (Request) -> Ending
        ) {
            (self.number, self.state, self.ending) = (number, state, ending)
        }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            rest.writeImmutableBuffer(unwrapInboundIn(data))
            if !hasBegun {
                guard rest.readableBytes >= Self.prefaceBytes else { return }
                rest.moveReaderIndex(forwardBy: Self.prefaceBytes)
                hasBegun = true
                send([Frame(kind: Frame.settings)], context)
            }
            for frame in Frame.read(from: &rest) { received(frame, context) }
        }

        private func received(_ frame: Frame, _ context: ChannelHandlerContext) {
            switch frame.kind {
            case Frame.settings where frame.flags & 1 == 0:
                send([Frame(kind: Frame.settings, flags: 1)], context)
            case Frame.ping where frame.flags & 1 == 0:
                send([Frame(kind: Frame.ping, flags: 1, payload: frame.payload)], context)
            case Frame.data, Frame.headers:
                guard frame.flags & Frame.endStream != 0 else { return }
                let request = state.withLock { state in
                    let request = Request(
                        number: state.requests.count + 1,
                        connection: number,
                        stream: frame.stream
                    )
                    state.requests.append(request)
                    return request
                }
                end(request, context)
            default: break
            }
        }

        private func end(_ request: Request, _ context: ChannelHandlerContext) {
            switch ending(request) {
            case .answers: send(HTTP2Upstream.answer(request.stream), context)
            case .resets(let code):
                let payload = Frame.four(code)
                send(
                    [Frame(kind: Frame.reset, stream: request.stream, payload: payload)],
                    context
                )
            case .goesAway(let last, let closes):
                send([HTTP2Upstream.goAway(last)], context)
                if closes { context.close(promise: nil) }
            case .hangsUp: context.close(promise: nil)
            }
        }

        private func send(_ frames: [Frame], _ context: ChannelHandlerContext) {
            let bytes = ByteBuffer(bytes: frames.flatMap(\.bytes))
            context.writeAndFlush(wrapOutboundOut(bytes), promise: nil)
        }

        func errorCaught(context: ChannelHandlerContext, error: any Error) {
            context.close(promise: nil)
        }
    }
}
