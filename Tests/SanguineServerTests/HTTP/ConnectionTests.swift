import SanguineAuthority
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

    @Test(arguments: ["", "Host: a\r\nHost: b\r\n"])
    func `a request with no host or two is refused as a problem`(hosts: String) async throws {
        try await LiveServer.with { server in
            let received = try await exchange(
                server.ports.http,
                "GET /health/live HTTP/1.1\r\n\(hosts)\r\n"
            )
            #expect(received.hasPrefix("HTTP/1.1 400 "))
            #expect(received.contains("application/problem+json"))
            #expect(received.contains(#""code":"malformed_request""#))
        }
    }

    @Test(arguments: [
        ("BREW /health/live HTTP/1.1\r\nHost: a\r\n\r\n", 501),
        ("GET /health/live HTTP/7.0\r\nHost: a\r\n\r\n", 400),
        ("nonsense\r\n\r\n", 501),
        ("GET / HTTP/1.1\r\nHost: a\r\nA b: c\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nA: \(String(repeating: "x", count: 90_000))\r\n\r\n", 431),
    ])
    func `what is no request is refused with a problem, and ends the connection`(
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
    func `a method that a path does not take is refused, whatever it is called`(
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

    @Test func `the answer before what is no request is whole`() async throws {
        try await LiveServer.with { server in
            let received = try await exchange(
                server.ports.http,
                "GET /health/live HTTP/1.1\r\nHost: a\r\n\r\nnonsense\r\n\r\n"
            )
            #expect(received.contains(#"{"status":"ok"}HTTP/1.1 501 "#), "\(received)")
        }
    }

    @Test func `a client of HTTP/1.0 gets no chunks, and the end of the connection`() async throws {
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

    @Test func `more requests than are read at once end the connection after their answers`()
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

    @Test func `a reader who does not read is given up`() async throws {
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

    @Test func `a connection holds one answer, however many were asked for, and delays nobody`()
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
            try await eventually("an answer waits") { server.answers.count > 0 }
            for _ in 0..<20 {
                #expect(try await guest.get("/v1/balance").status == 200)
                #expect(server.answers.count <= length)
            }
            #expect(try await guest.get(path).bytes.count == length)
            unread.close()
            try await eventually("nothing waits") { server.answers.count == 0 }
        }
    }

    @Test func `answers that nobody reads are bounded, and who asks for more is told to wait`()
        async throws
    {
        try await LiveServer.with {
            $0.settings.limits.answerBytes = 1 << 20
        } _: { server in
            let guest = try await server.guest()
            try await guest.fill(records: 60, bytes: 8_000)
            // An eighth of a mebibyte is one account's; its answer has nearly half of one.
            let reply = try await guest.get("/v1/sync/pull?since=0&limit=1000")
            #expect(reply.status == 503)
            #expect(reply.code == "overloaded")
            #expect(reply["Retry-After"] == "1")
            #expect(try await guest.get("/v1/balance").status == 200)
            #expect(try await guest.get("/v1/sync/pull?since=0&limit=5").status == 200)
        }
    }

    @Test func `an address with half of the connections gets no more, and others do`() async throws
    {
        try await LiveServer.with {
            $0.settings.limits.connections = 4
        } _: { server in
            // Connections are counted on the threads that they get, in no order.
            let first = try await UnreadConnection.answered(server.ports.http)
            let second = try await UnreadConnection.answered(server.ports.http)
            let third = try await UnreadConnection.open(server.ports.http, "")
            try await third.closed()
            #expect(!first.isClosed)
            #expect(!second.isClosed)
        }
    }
}
