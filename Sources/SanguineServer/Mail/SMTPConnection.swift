import NIOCore
import NIOPosix
import NIOSSL

/// A connection to an SMTP server: sends a command, and returns its reply.
///
/// Bytes that arrive before TLS begins are never read as replies after it: the connection fails
/// (RFC 3207, section 4.2; CVE-2011-0411 describes the attack).
struct SMTPConnection: Sendable {
    /// An error of the connection.
    enum Failure: Error, Hashable {
        case closed
        case malformedReply
        case unexpectedBytes
        case malformedCommand
    }

    private let channel: any Channel
    private let handler: NIOLoopBound<Handler>

    /// Connects, without reading the greeting.
    static func open(
        host: String,
        port: Int,
        connectTimeout: TimeAmount,
        tls: NIOSSLContext?,
        on group: any EventLoopGroup
    ) async throws -> SMTPConnection {
        let bootstrap = ClientBootstrap(group: group)
            .connectTimeout(connectTimeout)
            .channelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    let sync = channel.pipeline.syncOperations
                    if let tls {
                        try sync.addHandler(NIOSSLClientHandler(tls, host))
                    }
                    try sync.addHandler(Handler(on: channel.eventLoop))
                }
            }
        let channel = try await bootstrap.connect(host: host, port: port).get()
        let handler = try await channel.eventLoop.submit {
            NIOLoopBound(
                try channel.pipeline.syncOperations.handler(type: Handler.self),
                eventLoop: channel.eventLoop
            )
        }.get()
        return SMTPConnection(channel: channel, handler: handler)
    }

    private init(channel: any Channel, handler: NIOLoopBound<Handler>) {
        self.channel = channel
        self.handler = handler
    }

    /// The name by which the client introduces itself: its address (RFC 5321, section 4.1.3).
    var ownName: String {
        guard let address = channel.localAddress, let ip = address.ipAddress else {
            return "[127.0.0.1]"
        }
        return address.protocol == .inet6 ? "[IPv6:\(ip)]" : "[\(ip)]"
    }

    /// Waits for a reply without sending a command: the greeting.
    func reply() async throws -> SMTPReply {
        try await channel.eventLoop.flatSubmit { [handler] in handler.value.reply() }.get()
    }

    /// Sends a command, which is one line, and waits for its reply.
    func send(_ command: String) async throws -> SMTPReply {
        guard command.utf8.allSatisfy({ (0x20...0x7E).contains($0) }) else {
            throw Failure.malformedCommand
        }
        return try await write(command + "\r\n")
    }

    /// Sends the content of a message, which is CRLF-terminated lines, and waits for the reply.
    func send(content: String) async throws -> SMTPReply {
        try await write(Self.dotStuffed(content) + ".\r\n")
    }

    /// Begins TLS, after the server has agreed.
    func startTLS(_ context: NIOSSLContext, host: String) async throws {
        try await channel.eventLoop.submit { [channel, handler] in
            guard handler.value.isIdle else { throw Failure.unexpectedBytes }
            try channel.pipeline.syncOperations.addHandler(
                NIOSSLClientHandler(context, host),
                position: .first
            )
        }.get()
    }

    /// Closes the connection; pending replies fail.
    func close() { channel.close(promise: nil) }

    /// Sends QUIT and closes the connection, without waiting for the reply.
    func quit() {
        let buffer = channel.allocator.buffer(string: "QUIT\r\n")
        channel.writeAndFlush(buffer).whenComplete { [channel] _ in channel.close(promise: nil) }
    }

    private func write(_ text: String) async throws -> SMTPReply {
        let buffer = channel.allocator.buffer(string: text)
        return try await channel.eventLoop.flatSubmit { [channel, handler] in
            guard handler.value.isIdle else {
                return channel.eventLoop.makeFailedFuture(Failure.unexpectedBytes)
            }
            channel.writeAndFlush(buffer, promise: nil)
            return handler.value.reply()
        }.get()
    }

    /// Doubles a dot at the beginning of a line (RFC 5321, section 4.5.2).
    static func dotStuffed(_ content: String) -> String {
        let stuffed = content.replacing("\r\n.", with: "\r\n..")
        return stuffed.hasPrefix(".") ? "." + stuffed : stuffed
    }

    /// Reads replies.
    ///
    /// Mutable state: everything, used on the event loop only.
    private final class Handler: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer

        private let loop: any EventLoop
        private var parser = SMTPReplyParser()
        private var early: SMTPReply?
        private var waiting: EventLoopPromise<SMTPReply>?
        private var failure: (any Error)?

        init(on loop: any EventLoop) { self.loop = loop }

        /// Whether no byte was received that no command has asked for.
        var isIdle: Bool { parser.isEmpty && early == nil && waiting == nil }

        func reply() -> EventLoopFuture<SMTPReply> {
            if let early {
                self.early = nil
                return loop.makeSucceededFuture(early)
            }
            if let failure { return loop.makeFailedFuture(failure) }
            let promise = loop.makePromise(of: SMTPReply.self)
            waiting?.fail(Failure.closed)
            waiting = promise
            return promise.futureResult
        }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            guard failure == nil else { return }
            do {
                for reply in try parser.receive(unwrapInboundIn(data).readableBytesView) {
                    if let waiting {
                        self.waiting = nil
                        waiting.succeed(reply)
                    } else if early == nil {
                        early = reply
                    } else {
                        throw Failure.unexpectedBytes
                    }
                }
            } catch {
                fail(error is Failure ? error : Failure.malformedReply)
                context.close(promise: nil)
            }
        }

        func errorCaught(context: ChannelHandlerContext, error: any Error) {
            fail(error)
            context.close(promise: nil)
        }

        func channelInactive(context: ChannelHandlerContext) {
            fail(Failure.closed)
            context.fireChannelInactive()
        }

        private func fail(_ error: any Error) {
            failure = failure ?? error
            waiting?.fail(failure ?? error)
            waiting = nil
        }
    }
}

extension NIOSSLClientHandler {
    /// Creates a handler that verifies the certificate for a host name or an address.
    fileprivate convenience init(_ context: NIOSSLContext, _ host: String) throws {
        // Server names are for host names only (RFC 6066, section 3).
        let isAddress = (try? SocketAddress(ipAddress: host, port: 0)) != nil
        try self.init(context: context, serverHostname: isAddress ? nil : host)
    }
}
