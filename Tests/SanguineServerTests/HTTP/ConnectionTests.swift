import SanguineAuthority
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineServer

/// The bytes on a connection around a response.
@Suite("Connections", .bounded)
struct ConnectionTests {
    @Test func `a response to HEAD has no body regardless of its status`() async throws {
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
    func `an unread request body closes its connection`(path: String) async throws {
        try await LiveServer.with { server in
            // Half of a chunked body, so that only the server can end the exchange. The request is
            // refused before the body is read: a missing key, a missing route, a route without a
            // body.
            let method = path == "/health/live" ? "GET" : "POST"
            let received = try await exchange(
                server.ports.http,
                "\(method) \(path) HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
                    + "5\r\nhello\r\n"
            )
            #expect(received.lowercased().contains("connection: close"))
        }
    }

    @Test func `a declared length above the limit is refused before the body arrives`() async throws
    {
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
    func `a client that expects 100 Continue gets it, then the response`(
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

    @Test func `a client that expects 100 Continue gets a refusal instead`() async throws {
        try await LiveServer.with { server in
            let large = try await exchange(server.ports.http, Self.guestCall(length: 99_999_999))
            #expect(large.hasPrefix("HTTP/1.1 413"))
            let nowhere = Self.guestCall(length: 2).replacing("/guest", with: "/nobody")
            #expect(try await exchange(server.ports.http, nowhere).hasPrefix("HTTP/1.1 404"))
            let keyless = Self.guestCall(length: 2).replacing("accounts/guest", with: "spend")
            #expect(try await exchange(server.ports.http, keyless).hasPrefix("HTTP/1.1 400"))
        }
    }

    @Test(arguments: ["", "Host: a\r\nHost: b\r\n"])
    func `a request without a Host, or with two, is refused with a problem`(
        hosts: String
    ) async throws {
        try await LiveServer.with { server in
            let received = try await exchange(
                server.ports.http,
                "GET /health/live HTTP/1.1\r\n\(hosts)\r\n"
            )
            #expect(received.hasPrefix("HTTP/1.1 400 "))
            #expect(received.contains("X-Request-Id: "))
            #expect(received.contains("application/problem+json"))
            #expect(received.contains(#""code":"malformed_request""#))
        }
    }

    @Test(arguments: [
        ("BREW /health/live HTTP/1.1\r\nHost: a\r\n\r\n", 501),
        ("GET /health/live HTTP/7.0\r\nHost: a\r\n\r\n", 400),
        ("nonsense\r\n\r\n", 501),
        ("POST /v1/blobs HTTP/1.1\r\nHost: a\r\nContent-Length: -5\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nA b: c\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nA: \(String(repeating: "x", count: 90_000))\r\n\r\n", 431),
    ])
    func `a malformed request is refused with a problem and closes the connection`(
        text: String,
        status: Int
    ) async throws {
        try await LiveServer.with { server in
            let received = try await exchange(server.ports.http, text)
            #expect(received.hasPrefix("HTTP/1.1 \(status) "), "\(received)")
            #expect(received.contains("application/problem+json"))
        }
    }

    @Test(arguments: ["QUERY", "PROPFIND", "TRACE", "PUT"])
    func `an unsupported method is refused regardless of its name`(
        method: String
    ) async throws {
        try await LiveServer.with { server in
            for (path, status) in [
                ("/health/live", 405), ("/v1/holds/a%20b/capture", 405), ("/nothing", 404),
            ] {
                let received = try await exchange(
                    server.ports.http,
                    "\(method) \(path) HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
                )
                #expect(received.hasPrefix("HTTP/1.1 \(status) "), "\(path): \(received)")
                #expect(received.contains("application/problem+json"))
                #expect(status != 405 || received.lowercased().contains("allow: "))
            }
        }
    }

    @Test func `the response before a malformed request is complete`() async throws {
        try await LiveServer.with { server in
            let received = try await exchange(
                server.ports.http,
                "GET /health/live HTTP/1.1\r\nHost: a\r\n\r\nnonsense\r\n\r\n"
            )
            #expect(received.contains(#"{"status":"ok"}HTTP/1.1 501 "#), "\(received)")
        }
    }

    @Test func `an HTTP/1.0 client gets no chunks, and the connection is closed`() async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            let received = try await exchange(
                server.ports.http,
                """
                GET /v1/live?since=0 HTTP/1.0\r\nConnection: keep-alive\r\n\
                Authorization: Bearer \(guest.session.accessToken)\r\n\r\n
                """,
                until: "retry: 2000\n\n"
            )
            #expect(!received.lowercased().contains("transfer-encoding"), "\(received)")
            let plain = try await exchange(
                server.ports.http,
                "GET /health/live HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"
            )
            #expect(plain.contains("200 OK"))
            try await guest.fill(records: 20, bytes: 2_000)
            let pull = try await exchange(
                server.ports.http,
                """
                GET /v1/sync/pull?since=0 HTTP/1.0\r\nAccept-Encoding: gzip\r\n\
                Authorization: Bearer \(guest.session.accessToken)\r\n\r\n
                """
            )
            #expect(pull.lowercased().contains("content-length: "))
            #expect(!pull.lowercased().contains("transfer-encoding"))
        }
    }

    @Test func `too many pipelined requests close the connection after their responses`()
        async throws
    {
        try await LiveServer.with { server in
            let request = "GET /health/live HTTP/1.1\r\nHost: a\r\n\r\n"
            let many = EdgeLimits.pipelinedRequests + 1_000
            let received = try await exchange(
                server.ports.http,
                String(repeating: request, count: many)
            )
            let answers = received.split(separator: #"{"status":"ok"}"#).count - 1
            #expect(answers >= EdgeLimits.pipelinedRequests)
            #expect(answers < many)
            #expect(received.contains(#""code":"overloaded""#))
        }
    }

    @Test func `a client that does not read is disconnected`() async throws {
        try await LiveServer.with {
            $0.settings.limits.writeTimeout = .seconds(1)
        } _: { server in
            let guest = try await server.guest()
            try await guest.fill(records: 120, bytes: 8_000)
            let pull = """
                GET /v1/sync/pull?since=0&limit=1000 HTTP/1.1\r\nHost: a\r\n\
                Authorization: Bearer \(guest.session.accessToken)\r\n\r\n
                """
            let unread = try await UnreadConnection.open(
                server.ports.http,
                String(repeating: pull, count: 50)
            )
            try await unread.closed()
            let metrics = try await server.send("GET", "/metrics", toAdmin: true).body
            #expect(metrics.contains("\nconnections_unread_total 1\n"))
        }
    }

    @Test func `a connection buffers one response at a time and delays no other`()
        async throws
    {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            try await guest.fill(records: 120, bytes: 8_000)
            let path = "/v1/sync/pull?since=0&limit=1000"
            let length = try await guest.get(path).bytes.count
            let pull = """
                GET \(path) HTTP/1.1\r\nHost: a\r\n\
                Authorization: Bearer \(guest.session.accessToken)\r\n\r\n
                """
            let unread = try await UnreadConnection.open(
                server.ports.http,
                String(repeating: pull, count: 50)
            )
            try await eventually("a response waits") { server.answers.count > 0 }
            for _ in 0..<20 {
                #expect(try await guest.get("/v1/balance").status == 200)
                #expect(server.answers.count <= length)
            }
            #expect(try await guest.get(path).bytes.count == length)
            unread.close()
            try await eventually("no response waits") { server.answers.count == 0 }
        }
    }

    @Test func `unread responses are bounded, and further requests are refused for now`()
        async throws
    {
        try await LiveServer.with {
            $0.settings.limits.answerBytes = 1 << 20
        } _: { server in
            let guest = try await server.guest()
            try await guest.fill(records: 60, bytes: 8_000)
            // An account may use an eighth of a mebibyte; this response takes nearly half a
            // mebibyte.
            let reply = try await guest.get("/v1/sync/pull?since=0&limit=1000")
            #expect(reply.status == 503)
            #expect(reply.code == "overloaded")
            #expect(reply["Retry-After"] == "1")
            #expect(try await guest.get("/v1/balance").status == 200)
            #expect(try await guest.get("/v1/sync/pull?since=0&limit=5").status == 200)
        }
    }

    @Test func `an address is limited to half of the connections`() async throws {
        try await LiveServer.with {
            $0.settings.limits.connections = 4
        } _: { server in
            // Each connection is counted on its own thread, in no particular order.
            let first = try await UnreadConnection.answered(server.ports.http)
            let second = try await UnreadConnection.answered(server.ports.http)
            let third = try await UnreadConnection.open(server.ports.http, "")
            try await third.closed()
            #expect(!first.isClosed)
            #expect(!second.isClosed)
        }
    }
}
