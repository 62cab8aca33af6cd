import Foundation
import NIOCore
import NIOPosix
import SanguineModel
import SanguineTesting

/// A language model on loopback that follows a test's script.
final class ScriptedUpstream: Sendable {
    enum Reply: Sendable {
        /// A whole answer, with `usage` as JSON or without it.
        case answer(String, usage: String? = Reply.honest)
        /// Another status, without a body.
        case status(Int)
        /// Sends the bytes and closes the connection.
        case bytesThenHangUp(String)
        /// Sends nothing until the server disconnects.
        case silence

        /// Usage that costs three tokens by the default price of `ask`.
        static let honest = #"{"prompt_tokens":100,"completion_tokens":300}"#
    }

    /// A received request.
    struct Request: Sendable {
        let question: String
        /// The request line and the headers.
        let head: String
    }

    typealias Script = @Sendable (Request) async -> Reply

    let port: Int
    /// The complete requests, in order.
    let requests = Watched<[Request]>([])
    private let script: Script

    var url: String { "http://127.0.0.1:\(port)" }

    private init(port: Int, script: @escaping Script) {
        self.port = port
        self.script = script
    }

    /// Runs an upstream while the body runs.
    static func with<Value: Sendable>(
        _ script: @escaping Script,
        _ body: @Sendable (ScriptedUpstream) async throws -> Value
    ) async throws -> Value {
        let server = try await ServerBootstrap(group: .singletonMultiThreadedEventLoopGroup)
            // For a thousand concurrent connections, because dropped ones would arrive seconds
            // later or never.
            .serverChannelOption(.backlog, value: 1_024)
            .bind(host: "127.0.0.1", port: 0) { channel in
                channel.eventLoop.makeCompletedFuture {
                    try NIOAsyncChannel<ByteBuffer, ByteBuffer>(
                        wrappingChannelSynchronously: channel
                    )
                }
            }
        let port = server.channel.localAddress?.port ?? 0
        let upstream = ScriptedUpstream(port: port, script: script)
        return try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { await upstream.serve(server) }
            defer { group.cancelAll() }
            return try await body(upstream)
        }
    }

    private func serve(
        _ server: NIOAsyncChannel<NIOAsyncChannel<ByteBuffer, ByteBuffer>, Never>
    ) async {
        try? await server.executeThenClose { inbound in
            try await withThrowingDiscardingTaskGroup { group in
                for try await connection in inbound {  // tidy: allow unbounded-wait: it serves.
                    group.addTask { try? await self.serve(connection) }
                }
            }
        }
    }

    private func serve(_ connection: NIOAsyncChannel<ByteBuffer, ByteBuffer>) async throws {
        try await connection.executeThenClose { inbound, outbound in
            var received = ByteBuffer()
            for try await var chunk in inbound {  // tidy: allow unbounded-wait: it serves.
                received.writeBuffer(&chunk)
                guard let request = Self.takeRequest(from: &received) else { continue }
                requests.update { $0.append(request) }
                switch await script(request) {
                case .answer(let text, let usage):
                    try await outbound.write(ByteBuffer(string: Self.completion(text, usage)))
                case .status(let status):
                    let head = "HTTP/1.1 \(status) Scripted\r\nContent-Length: 0\r\n\r\n"
                    try await outbound.write(ByteBuffer(string: head))
                case .bytesThenHangUp(let bytes):
                    if !bytes.isEmpty { try await outbound.write(ByteBuffer(string: bytes)) }
                    return
                case .silence:
                    continue
                }
            }
        }
    }

    private static func completion(_ text: String, _ usage: String?) -> String {
        let usage = usage.map { #","usage":\#($0)"# } ?? ""
        let message = #"{"role":"assistant","content":"\#(text)"}"#
        let body = #"{"model":"scripted","choices":[{"message":\#(message)}]\#(usage)}"#
        return """
            HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\
            Content-Length: \(body.utf8.count)\r\n\r\n\(body)
            """
    }

    /// Removes and returns a complete request, or returns `nil` if it is incomplete.
    private static func takeRequest(from received: inout ByteBuffer) -> Request? {
        let text = String(buffer: received)
        guard let end = text.firstRange(of: "\r\n\r\n") else { return nil }
        let length =
            text[..<end.lowerBound].lowercased().split(separator: "\r\n")
            .first { $0.hasPrefix("content-length:") }
            .flatMap { Int($0.dropFirst("content-length:".count).drop { $0 == " " }) } ?? 0
        let headBytes = text[..<end.upperBound].utf8.count
        guard received.readableBytes >= headBytes + length else { return nil }
        received.moveReaderIndex(forwardBy: headBytes)
        let body = received.readSlice(length: length) ?? ByteBuffer()
        let head = String(text[..<end.lowerBound])
        let json = try? JSONDecoder().decode(JSONValue.self, from: Data(body.readableBytesView))
        guard case .array(let messages) = json?["messages"] else {
            return Request(question: "", head: head)
        }
        return Request(question: messages.last?["content"]?.string ?? "", head: head)
    }
}
