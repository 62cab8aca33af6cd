import NIOCore
import NIOPosix
import SanguineTesting

/// A connection from a loopback address that stays open.
final class PlainConnection: Sendable {
    private let channel: any Channel
    private let received: Watched<String>

    private init(_ channel: any Channel, _ received: Watched<String>) {
        self.channel = channel
        self.received = received
    }

    deinit { channel.close(promise: nil) }

    /// Connects to the port from 127.0.0.`address`.
    ///
    /// - Parameters:
    ///   - port: The port.
    ///   - address: The last number of the address, 1 by default.
    ///   - reads: Whether received bytes are read, by default yes. Otherwise the peer can write
    ///     only as much as a small buffer holds.
    /// - Returns: The connection.
    /// - Throws: An error if the connection fails.
    static func open(
        _ port: Int,
        from address: Int = 1,
        reads: Bool = true
    ) async throws -> PlainConnection {
        let received = Watched("")
        var bootstrap = ClientBootstrap(group: .singletonMultiThreadedEventLoopGroup)
        if !reads {
            bootstrap = bootstrap.channelOption(.autoRead, value: false)
                .channelOption(.socketOption(.so_rcvbuf), value: 4_096)
        }
        let channel =
            try await bootstrap
            .bind(to: SocketAddress(ipAddress: "127.0.0.\(address)", port: 0))
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(Collector(received))
                }
            }
            .connect(host: "127.0.0.1", port: port).get()
        return PlainConnection(channel, received)
    }

    func close() async { try? await channel.close() }

    func send(_ text: String) async throws {
        try await channel.writeAndFlush(ByteBuffer(string: text))
    }

    /// Requests the server's health, and waits for the response.
    func askIfAlive(fileID: String = #fileID, line: Int = #line) async throws {
        received.update { $0 = "" }
        try await send("GET /health/live HTTP/1.1\r\nHost: a\r\n\r\n")
        try await answered(fileID: fileID, line: line)
    }

    /// Waits for the response.
    func answered(fileID: String = #fileID, line: Int = #line) async throws {
        try await received.when("an answer", fileID: fileID, line: line) {
            $0.hasPrefix("HTTP/1.1 200 ") && $0.hasSuffix(#"{"status":"ok"}"#)
        }
    }

    private final class Collector: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer
        private let received: Watched<String>

        init(_ received: Watched<String>) { self.received = received }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            let text = String(buffer: unwrapInboundIn(data))
            received.update { $0 += text }
        }

        func errorCaught(context: ChannelHandlerContext, error: any Error) {
            context.close(promise: nil)
        }
    }
}
