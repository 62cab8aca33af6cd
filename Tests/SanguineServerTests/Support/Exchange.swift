import NIOCore
import NIOPosix
import SanguineModel
import SanguineTesting
import TestSupport

/// Sends bytes and returns everything received until the server closes the connection.
///
/// If `after` is given, the rest is sent once exactly that text has arrived. If `until` is given,
/// the exchange also ends once the received text contains it.
func exchange(
    _ port: Int,
    _ text: String,
    after awaited: String? = nil,
    _ rest: String = "",
    until enough: String? = nil
) async throws -> String {
    try await within(.seconds(30), "the end of the connection") {
        let connection = try await ClientBootstrap(group: .singletonMultiThreadedEventLoopGroup)
            .connect(host: "127.0.0.1", port: port) { channel in
                channel.eventLoop.makeCompletedFuture {
                    try NIOAsyncChannel<ByteBuffer, ByteBuffer>(
                        wrappingChannelSynchronously: channel
                    )
                }
            }
        return try await connection.executeThenClose { inbound, outbound in
            try await outbound.write(ByteBuffer(string: text))
            var received = ""
            do {
                for try await part in inbound {  // tidy: allow unbounded-wait: within 30 s.
                    received += String(buffer: part)
                    if let enough, received.contains(enough) { return received }
                    if received == awaited {
                        try await outbound.write(ByteBuffer(string: rest))
                    }
                }
            } catch is IOError {
                // A reset ends the exchange too: the server closed with unread bytes.
            }
            return received
        }
    }
}

/// A connection that sends once and does not read.
final class UnreadConnection: Sendable {
    private let channel: any Channel
    private let end = WatchedState(false)

    private init(_ channel: any Channel) {
        self.channel = channel
        channel.closeFuture.whenComplete { [end] _ in end.withLock { $0 = true } }
    }

    deinit { channel.close(promise: nil) }

    var isClosed: Bool { end.withLock { $0 } }

    static func open(_ port: Int, _ text: String) async throws -> UnreadConnection {
        let channel = try await ClientBootstrap(group: .singletonMultiThreadedEventLoopGroup)
            .channelOption(.autoRead, value: false)
            .channelOption(.socketOption(.so_rcvbuf), value: 4_096)
            .connect(host: "127.0.0.1", port: port).get()
        // A reset is noticed without reading, but an orderly close is not.
        if !text.isEmpty { try await channel.writeAndFlush(ByteBuffer(string: text)) }
        return UnreadConnection(channel)
    }

    /// Opens a connection and waits for a response, so that the server has counted it.
    static func answered(_ port: Int) async throws -> UnreadConnection {
        let isAnswered = WatchedState(false)
        let channel = try await ClientBootstrap(group: .singletonMultiThreadedEventLoopGroup)
            .channelInitializer { channel in
                channel.pipeline.addHandler(FirstBytes(isAnswered))
            }
            .connect(host: "127.0.0.1", port: port).get()
        let request = "GET /health/live HTTP/1.1\r\nHost: a\r\n\r\n"
        try await channel.writeAndFlush(ByteBuffer(string: request))
        try await isAnswered.wait(for: "an answer") { $0 }
        return UnreadConnection(channel)
    }

    private final class FirstBytes: ChannelInboundHandler, Sendable {
        typealias InboundIn = ByteBuffer
        private let isAnswered: WatchedState<Bool>

        init(_ isAnswered: WatchedState<Bool>) { self.isAnswered = isAnswered }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            isAnswered.withLock { $0 = true }
        }
    }

    /// Closes the connection without waiting.
    func close() { channel.close(promise: nil) }

    /// Waits until the server has closed the connection, and writes to detect the close.
    func closed() async throws {
        try await eventually("the server closes the connection") { [channel] in
            if self.isClosed { return true }
            try? await channel.writeAndFlush(ByteBuffer(string: " "))
            return self.isClosed
        }
    }
}

extension Guest {
    /// Creates the given number of notes of about the given size.
    func fill(records: Int, bytes: Int) async throws {
        let text = String(repeating: "x", count: bytes)
        for start in stride(from: 0, to: records, by: 50) {
            let operations = (start..<min(start + 50, records)).map { number in
                """
                {"id":"\(Identifier.new())","sequence":\(number + 1),"lane":"a",\
                "mutator":"record.create","arguments":{"collection":"notes","id":"n\(number)",\
                "fields":{"text":"\(text)"}}}
                """
            }
            let all = operations.joined(separator: ",")
            let body = #"{"device":"a-device-that-fills","operations":[\#(all)]}"#
            _ = try await post("/v1/sync/push", body).decode(PushAnswer.self)
        }
    }
}
