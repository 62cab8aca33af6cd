import NIOCore
import NIOPosix
import Synchronization

/// A server on loopback that sends the exact bytes that a test's script returns for each request.
final class ScriptedUpstream: Sendable {
    enum Reply: Sendable {
        /// Sends the bytes and keeps the connection open.
        case bytes(String)
        /// Sends the bytes and closes the connection.
        case bytesThenHangUp(String)
        /// Sends the bytes, then nothing until the client disconnects.
        case bytesThenSilence(String)
    }

    /// A received request.
    struct Request: Sendable {
        /// The number of the request, from 1.
        let number: Int
        let head: String
        let body: String
    }

    typealias Script = @Sendable (Request) -> Reply

    /// The complete requests, in order.
    let arrivals: AsyncStream<Request>
    let port: Int

    private let counts = Mutex((connections: 0, requests: 0))
    private let arrivalsContinuation: AsyncStream<Request>.Continuation
    private let script: Script

    private init(port: Int, script: @escaping Script) {
        self.port = port
        self.script = script
        (arrivals, arrivalsContinuation) = AsyncStream.makeStream()
    }

    var connections: Int { counts.withLock { $0.connections } }

    /// Runs a server while the body runs.
    static func with<Result: Sendable>(
        _ script: @escaping Script,
        _ body: @escaping @Sendable (ScriptedUpstream) async throws -> Result
    ) async throws -> Result {
        let server = try await ServerBootstrap(group: .singletonMultiThreadedEventLoopGroup)
            .bind(host: "127.0.0.1", port: 0) { channel in
                channel.eventLoop.makeCompletedFuture {
                    try NIOAsyncChannel<ByteBuffer, ByteBuffer>(
                        wrappingChannelSynchronously: channel
                    )
                }
            }
        let upstream = ScriptedUpstream(
            port: server.channel.localAddress?.port ?? 0,
            script: script
        )
        return try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { await upstream.serve(server) }
            defer { group.cancelAll() }
            return try await body(upstream)
        }
    }

    /// A response with a JSON body.
    static func json(_ body: String, status: String = "200 OK", headers: String = "") -> String {
        """
        HTTP/1.1 \(status)\r\nContent-Type: application/json\r\n\(headers)\
        Content-Length: \(body.utf8.count)\r\n\r\n\(body)
        """
    }

    /// A complete chat completion.
    static func completion(_ text: String, usage: String? = nil) -> String {
        let usage = usage.map { #","usage":\#($0)"# } ?? ""
        let message = #"{"role":"assistant","content":"\#(text)"}"#
        return json(#"{"model":"m-1","choices":[{"message":\#(message)}]\#(usage)}"#)
    }

    private func serve(
        _ server: NIOAsyncChannel<NIOAsyncChannel<ByteBuffer, ByteBuffer>, Never>
    ) async {
        try? await server.executeThenClose { inbound in
            try await withThrowingDiscardingTaskGroup { group in
                for try await connection in inbound {  // tidy: allow unbounded-wait: it serves.
                    self.counts.withLock { $0.connections += 1 }
                    group.addTask { try? await self.serve(connection) }
                }
            }
        }
    }

    private func serve(_ connection: NIOAsyncChannel<ByteBuffer, ByteBuffer>) async throws {
        try await connection.executeThenClose { inbound, outbound in
            var received = ""
            for try await chunk in inbound {  // tidy: allow unbounded-wait: it serves.
                received += String(buffer: chunk)
                guard let request = self.takeRequest(from: &received) else { continue }
                let reply = self.script(request)
                self.arrivalsContinuation.yield(request)
                switch reply {
                case .bytes(let text):
                    try await outbound.write(ByteBuffer(string: text))
                case .bytesThenHangUp(let text):
                    try await outbound.write(ByteBuffer(string: text))
                    return
                case .bytesThenSilence(let text):
                    if !text.isEmpty { try await outbound.write(ByteBuffer(string: text)) }
                }
            }
        }
    }

    private func takeRequest(from received: inout String) -> Request? {
        guard let end = received.firstRange(of: "\r\n\r\n") else { return nil }
        let head = String(received[..<end.lowerBound])
        let lines = head.lowercased().split(separator: "\r\n")
        let length =
            lines.first { $0.hasPrefix("content-length:") }
            .flatMap { Int($0.dropFirst(15).drop { $0 == " " }) } ?? 0
        let rest = received[end.upperBound...].utf8
        guard rest.count >= length else { return nil }
        let body = String(decoding: rest.prefix(length), as: UTF8.self)
        received = String(decoding: rest.dropFirst(length), as: UTF8.self)
        let number = counts.withLock { counts in
            counts.requests += 1
            return counts.requests
        }
        return Request(number: number, head: head, body: body)
    }
}
