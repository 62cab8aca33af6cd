import NIOCore
import NIOPosix
import NIOSSL
import SanguineTesting
import TestSupport

/// A frame of HTTP/2 (RFC 9113, section 4.1).
struct Frame: Sendable {
    static let (data, headers, reset, settings, ping, goAway, windowUpdate): Kinds = (
        0, 1, 3, 4, 6, 7, 8
    )
    typealias Kinds = (UInt8, UInt8, UInt8, UInt8, UInt8, UInt8, UInt8)
    static let (endStream, endHeaders): (UInt8, UInt8) = (1, 4)

    var kind: UInt8
    var flags: UInt8 = 0
    var stream: UInt32 = 0
    var payload: [UInt8] = []

    var bytes: [UInt8] {
        let length = payload.count
        var bytes = [UInt8(length >> 16 & 0xFF), UInt8(length >> 8 & 0xFF), UInt8(length & 0xFF)]
        bytes += [kind, flags]
        bytes += Self.four(stream)
        return bytes + payload
    }

    /// Reads the complete frames at the beginning of a buffer.
    static func read(from buffer: inout ByteBuffer) -> [Frame] {
        var frames: [Frame] = []
        while let head = buffer.getBytes(at: buffer.readerIndex, length: 9) {
            let length = head[..<3].reduce(0) { $0 << 8 | Int($1) }
            guard buffer.readableBytes >= 9 + length else { break }
            buffer.moveReaderIndex(forwardBy: 9)
            frames.append(
                Frame(
                    kind: head[3],
                    flags: head[4],
                    stream: head[5...].reduce(0) { $0 << 8 | UInt32($1) },
                    payload: buffer.readBytes(length: length) ?? []
                )
            )
        }
        return frames
    }

    static func four(_ number: UInt32) -> [UInt8] {
        [24, 16, 8, 0].map { UInt8(number >> $0 & 0xFF) }
    }

    /// A request without a body, or the head of one with a body.
    static func request(
        _ path: String,
        method: String = "GET",
        fields: [(String, String)] = [],
        stream: UInt32,
        hasBody: Bool = false
    ) -> Frame {
        // Literal fields without indexing (RFC 7541, section 6.2.2).
        var block: [UInt8] = []
        let pseudo = [
            (":method", method), (":scheme", "https"), (":path", path), (":authority", "localhost"),
        ]
        for (name, value) in pseudo + fields {
            block += [0] + string(name) + string(value)
        }
        let flags = endHeaders | (hasBody ? 0 : endStream)
        return Frame(kind: headers, flags: flags, stream: stream, payload: block)
    }

    private static func string(_ text: String) -> [UInt8] {
        let bytes = Array(text.utf8)
        guard bytes.count >= 127 else { return [UInt8(bytes.count)] + bytes }
        var rest = bytes.count - 127
        var length: [UInt8] = [127]
        while rest >= 128 {
            length.append(UInt8(rest & 0x7F | 0x80))
            rest >>= 7
        }
        return length + [UInt8(rest)] + bytes
    }
}

/// An HTTP/2 client that sends only the frames it is given and never responds on its own.
final class HTTP2Peer: Sendable {
    private struct State {
        var frames: [Frame] = []
        var isReady = false
        var isClosed = false
    }

    private let channel: any Channel
    private let state: WatchedState<State>

    private init(_ channel: any Channel, _ state: WatchedState<State>) {
        self.channel = channel
        self.state = state
        channel.closeFuture.whenComplete { _ in state.withLock { $0.isClosed = true } }
    }

    deinit { channel.close(promise: nil) }

    /// Connects, and sends the preface with the given settings.
    static func open(
        _ port: Int,
        settings: [(UInt16, UInt32)] = []
    ) async throws -> HTTP2Peer {
        var configuration = TLSConfiguration.makeClientConfiguration()
        configuration.trustRoots = .certificates(
            try NIOSSLCertificate.fromPEMBytes(Array(TestCertificate.first.pem.utf8))
        )
        configuration.applicationProtocols = ["h2"]
        let context = try NIOSSLContext(configuration: configuration)
        let state = WatchedState(State())
        let channel = try await ClientBootstrap(group: .singletonMultiThreadedEventLoopGroup)
            .channelOption(.socketOption(.so_rcvbuf), value: 4_096)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    let tls = try NIOSSLClientHandler(
                        context: context,
                        serverHostname: "localhost"
                    )
                    try channel.pipeline.syncOperations.addHandler(tls)
                    try channel.pipeline.syncOperations.addHandler(
                        Recorder { frames in
                            state.withLock {
                                $0.isReady = true
                                $0.frames += frames
                            }
                        }
                    )
                }
            }
            .connect(host: "127.0.0.1", port: port).get()
        let peer = HTTP2Peer(channel, state)
        let payload = settings.flatMap { name, value in
            [UInt8(name >> 8), UInt8(name & 0xFF)] + Frame.four(value)
        }
        let preface = Array("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".utf8)
        try await peer.send(preface + Frame(kind: Frame.settings, payload: payload).bytes)
        try await eventually("the server's settings") { state.withLock { $0.isReady } }
        return peer
    }

    var frames: [Frame] { state.withLock { $0.frames } }
    var isClosed: Bool { state.withLock { $0.isClosed } }

    func send(_ frames: Frame...) async throws { try await send(frames.flatMap(\.bytes)) }

    func send(_ bytes: [UInt8]) async throws {
        try await channel.writeAndFlush(ByteBuffer(bytes: bytes))
    }

    /// Stops reading.
    func stopReading() async throws {
        try await channel.setOption(.autoRead, value: false).get()
    }

    /// Waits until the server has closed the connection, and writes to detect the close.
    func closed() async throws {
        try await eventually("the server closes the connection", within: .seconds(30)) {
            if self.isClosed { return true }
            let ping = Frame(kind: Frame.windowUpdate, payload: Frame.four(1))
            try? await self.send(ping)
            return self.isClosed
        }
    }

    /// Splits received bytes into frames.
    private final class Recorder: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer

        private let record: @Sendable ([Frame]) -> Void
        private var rest = ByteBuffer()

        init(_ record: @escaping @Sendable ([Frame]) -> Void) { self.record = record }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            rest.writeImmutableBuffer(unwrapInboundIn(data))
            record(Frame.read(from: &rest))
        }

        func errorCaught(context: ChannelHandlerContext, error: any Error) {
            context.close(promise: nil)
        }
    }
}
