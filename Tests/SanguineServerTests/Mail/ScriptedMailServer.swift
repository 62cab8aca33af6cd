import NIOCore
import NIOPosix
import NIOSSL
import Synchronization

@testable import SanguineServer

/// An SMTP server on a loopback port that answers as a test says, and records what it receives.
final class ScriptedMailServer: Sendable {
    /// The behaviour of the server.
    struct Script: Sendable {
        /// The extensions without TLS.
        var extensions = ["STARTTLS", "SIZE 1000"]
        /// The extensions with TLS.
        var extensionsWithTLS = ["AUTH PLAIN LOGIN"]
        /// The replies to commands, by their verb; others get the usual reply.
        var replies: [String: String] = [:]
        /// The greeting.
        var greeting = "220 mail.example.org ready\r\n"
        /// The bytes that are sent without TLS after the reply to STARTTLS.
        var injected = ""
        /// The verb that gets no reply.
        var silentOn: String?
    }

    /// Everything that a server received.
    struct Received: Sendable {
        /// The commands, with "TLS" before those that were encrypted.
        var commands: [String] = []
        /// The lines of messages, as sent.
        var content: [String] = []
        var connections = 0
    }

    let script: Script
    let received = Mutex(Received())
    private let tls: NIOSSLContext

    init(_ script: Script) throws {
        self.script = script
        let certificate = TestCertificate.first
        tls = try NIOSSLContext(
            configuration: .makeServerConfiguration(
                certificateChain: try NIOSSLCertificate.fromPEMBytes(Array(certificate.pem.utf8))
                    .map { .certificate($0) },
                privateKey: .privateKey(
                    try NIOSSLPrivateKey(bytes: Array(certificate.keyPEM.utf8), format: .pem)
                )
            )
        )
    }

    var commands: [String] { received.withLock { $0.commands } }
    var content: [String] { received.withLock { $0.content } }
    var connections: Int { received.withLock { $0.connections } }

    /// Runs a server, and calls the body with its port.
    static func with(
        _ change: (inout Script) -> Void = { _ in },
        _ body: (ScriptedMailServer, Int) async throws -> Void
    ) async throws {
        var script = Script()
        change(&script)
        let server = try ScriptedMailServer(script)
        let channel = try await ServerBootstrap(group: .singletonMultiThreadedEventLoopGroup)
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    try channel.pipeline.syncOperations.addHandler(Peer(server))
                }
            }
            .bind(host: "127.0.0.1", port: 0).get()
        do {
            try await body(server, channel.localAddress?.port ?? 0)
        } catch {
            try? await channel.close()
            throw error
        }
        try await channel.close()
    }

    /// One connection.
    private final class Peer: ChannelInboundHandler {
        typealias InboundIn = ByteBuffer
        typealias OutboundOut = ByteBuffer

        private let server: ScriptedMailServer
        private var line: [UInt8] = []
        private var isEncrypted = false
        private var isInContent = false
        private var logins = 0

        init(_ server: ScriptedMailServer) { self.server = server }

        func channelActive(context: ChannelHandlerContext) {
            server.received.withLock { $0.connections += 1 }
            send(server.script.greeting, context)
        }

        func channelRead(context: ChannelHandlerContext, data: NIOAny) {
            for byte in unwrapInboundIn(data).readableBytesView {
                if byte == UInt8(ascii: "\n") {
                    let text = String(decoding: line, as: UTF8.self)
                    line = []
                    read(text.hasSuffix("\r") ? String(text.dropLast()) : text + "<LF>", context)
                } else {
                    line.append(byte)
                }
            }
        }

        private func read(_ line: String, _ context: ChannelHandlerContext) {
            if isInContent {
                guard line == "." else {
                    return server.received.withLock { $0.content.append(line) }
                }
                isInContent = false
                return answer("CONTENT", "250 accepted\r\n", context)
            }
            server.received.withLock { $0.commands.append(isEncrypted ? "TLS \(line)" : line) }
            if logins > 0 {
                logins -= 1
                return answer("LOGIN", logins > 0 ? "334 UGFzc3dvcmQ6\r\n" : "235 ok\r\n", context)
            }
            let verb = line.prefix { $0 != " " && $0 != ":" }.uppercased()
            switch verb {
            case "EHLO": answer(verb, greeting, context)
            case "STARTTLS": beginTLS(context)
            case "AUTH" where line.hasSuffix("LOGIN"):
                logins = 2
                answer(verb, "334 VXNlcm5hbWU6\r\n", context)
            case "AUTH": answer(verb, "235 ok\r\n", context)
            case "DATA":
                isInContent = server.script.replies[verb] == nil
                answer(verb, "354 go on\r\n", context)
            case "QUIT": context.close(promise: nil)
            default: answer(verb, "250 ok\r\n", context)
            }
        }

        private var greeting: String {
            let script = server.script
            let names = ["hello"] + (isEncrypted ? script.extensionsWithTLS : script.extensions)
            return names.enumerated().map { number, name in
                "250\(number == names.count - 1 ? " " : "-")\(name)\r\n"
            }.joined()
        }

        private func beginTLS(_ context: ChannelHandlerContext) {
            guard server.script.replies["STARTTLS"] == nil else {
                return answer("STARTTLS", "", context)
            }
            send("220 go on\r\n" + server.script.injected, context)
            isEncrypted = true
            try? context.pipeline.syncOperations.addHandler(
                NIOSSLServerHandler(context: server.tls),
                position: .first
            )
        }

        private func answer(_ verb: String, _ usual: String, _ context: ChannelHandlerContext) {
            guard server.script.silentOn != verb else { return }
            send(server.script.replies[verb] ?? usual, context)
        }

        private func send(_ text: String, _ context: ChannelHandlerContext) {
            let buffer = context.channel.allocator.buffer(string: text)
            context.writeAndFlush(wrapOutboundOut(buffer), promise: nil)
        }

        func errorCaught(context: ChannelHandlerContext, error: any Error) {
            context.close(promise: nil)
        }
    }
}
