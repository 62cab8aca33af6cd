import NIOCore
import NIOPosix
import Testing

@testable import SanguineServer

/// What happens on a connection around an answer, seen byte by byte.
@Suite("Connections", .timeLimit(.minutes(1)))
struct ConnectionTests {
    @Test func `an answer to HEAD has no body, whatever its status`() async throws {
        try await LiveServer.with { server in
            let received = try await exchange(
                server.ports.http,
                """
                HEAD /v1/spend HTTP/1.1\r\nHost: a\r\n\r\n\
                GET /health/live HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n
                """
            )
            #expect(received.hasPrefix("HTTP/1.1 404"))
            #expect(received.contains("\r\n\r\nHTTP/1.1 200"))
        }
    }

    @Test(arguments: ["/v1/nowhere", "/health/live", "/v1/spend"])
    func `a body that nobody reads ends its connection`(path: String) async throws {
        try await LiveServer.with { server in
            // Half of a chunked body: only the server can end this. What is not read is refused
            // before it: a missing key, a missing route, a route without a body.
            let method = path == "/health/live" ? "GET" : "POST"
            let received = try await exchange(
                server.ports.http,
                "\(method) \(path) HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
                    + "5\r\nhello\r\n"
            )
            #expect(received.lowercased().contains("connection: close"))
        }
    }

    @Test func `a length above the limit is refused before the body comes`() async throws {
        try await LiveServer.with { server in
            let received = try await exchange(
                server.ports.http,
                """
                POST /v1/accounts/guest HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n\
                Content-Length: 99999999\r\n\r\n
                """
            )
            #expect(received.hasPrefix("HTTP/1.1 413"))
        }
    }

    /// Sends bytes, and returns all that comes until the server ends the connection.
    private func exchange(_ port: Int, _ text: String) async throws -> String {
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
                for try await part in inbound { received += String(buffer: part) }
            } catch is IOError {
                // A reset is an end, too: the server closed with bytes unread.
            }
            return received
        }
    }
}
