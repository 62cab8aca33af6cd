import NIOCore
import NIOPosix
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineServer

/// What happens on a connection around an answer, seen byte by byte.
@Suite("Connections", .bounded)
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
            #expect(received.hasPrefix("HTTP/1.1 405"))
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

    private static func guestCall(length: Int, expect: String = "100-continue") -> String {
        """
        POST /v1/accounts/guest HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n\
        Expect: \(expect)\r\nContent-Length: \(length)\r\nConnection: close\r\n\r\n
        """
    }

    @Test(arguments: ["100-continue", "100-Continue"])
    func `a client that asks first is told to go on, and then answered`(
        expect: String
    ) async throws {
        try await LiveServer.with { server in
            let body = #"{"deviceId":"a-device-that-asks","deviceSecret":"\#(Guest.secret(7))"}"#
            let head = Self.guestCall(length: body.utf8.count, expect: expect)
            let goOn = "HTTP/1.1 100 Continue\r\n\r\n"
            let received = try await exchange(server.ports.http, head, after: goOn, body)
            #expect(received.hasPrefix(goOn + "HTTP/1.1 201"))
        }
    }

    @Test func `a client that asks first is not told to send what would be refused`()
        async throws
    {
        try await LiveServer.with { server in
            let large = try await exchange(server.ports.http, Self.guestCall(length: 99_999_999))
            #expect(large.hasPrefix("HTTP/1.1 413"))
            let nowhere = Self.guestCall(length: 2).replacing("/guest", with: "/nobody")
            #expect(try await exchange(server.ports.http, nowhere).hasPrefix("HTTP/1.1 404"))
            let keyless = Self.guestCall(length: 2).replacing("accounts/guest", with: "spend")
            #expect(try await exchange(server.ports.http, keyless).hasPrefix("HTTP/1.1 400"))
        }
    }

    /// Sends bytes, and returns all that comes until the server ends the connection.
    ///
    /// What is to be sent after something is sent once exactly that has come.
    private func exchange(
        _ port: Int,
        _ text: String,
        after awaited: String? = nil,
        _ rest: String = ""
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
                        if received == awaited {
                            try await outbound.write(ByteBuffer(string: rest))
                        }
                    }
                } catch is IOError {
                    // A reset is an end, too: the server closed with bytes unread.
                }
                return received
            }
        }
    }
}
