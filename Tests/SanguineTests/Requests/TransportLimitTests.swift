import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

/// Oversized bodies and redirects, with the default transport and real sockets.
@Suite("Limits of the default transport", .bounded)
struct TransportLimitTests {
    /// The bytes that both ends of a connection buffer, and that are read before a task has ended.
    private static let slack = 64 << 20

    @Test(arguments: ["/endless/1000000000", "/announced/1000000000"])
    func `an answer over its limit is not received`(path: String) async throws {
        let server = try LoopbackServer()
        defer { server.stop() }
        let transport = URLSessionTransport()
        defer { transport.close() }
        let limit = ClientLimits.responseBytes

        await #expect(throws: TransportError.bodyTooLarge(limitBytes: limit)) {
            try await transport.send(TransportRequest(url: server.url(path)))
        }
        try await eventually("the end of the connection") { server.sentBytes != nil }
        let sent = try #require(server.sentBytes)
        #expect(sent < limit + Self.slack, "\(sent) bytes were accepted")
    }

    @Test(arguments: [404, 503])
    func `an oversized error body is truncated`(status: Int) async throws {
        let limit = 1 << 20
        let server = try LoopbackServer { _, _ in
            LoopbackServer.Reply(status: status, body: String(repeating: "x", count: 2 * limit))
        }
        defer { server.stop() }
        let transport = URLSessionTransport(bodyLimitBytes: limit)
        defer { transport.close() }
        let response = try await transport.send(TransportRequest(url: server.url("/")))

        #expect(response.status == status && response.body.count == limit)
    }

    @Test func `a file may be as large as the upload limit`() async throws {
        let server = try LoopbackServer()
        defer { server.stop() }
        let transport = URLSessionTransport()
        defer { transport.close() }
        let size = ClientLimits.fileBytes
        let file = try await transport.send(TransportRequest(url: server.url("/picture/\(size)")))

        #expect(file.body.count == size && size == WireLimits.blobBytes)
        await #expect(throws: TransportError.bodyTooLarge(limitBytes: size)) {
            try await transport.send(TransportRequest(url: server.url("/picture/\(size + 1)")))
        }
    }

    // MARK: - Redirects

    private static func redirecting(_ status: Int, to target: String) throws -> LoopbackServer {
        try LoopbackServer { path, _ in
            guard path == "/old" else { return LoopbackServer.Reply(body: "{}") }
            return LoopbackServer.Reply(status: status, headers: ["Location: \(target)"])
        }
    }

    @Test(arguments: [301, 302, 303, 307, 308], ["GET", "HEAD"])
    func `a read follows a redirect within the origin, with its token`(
        status: Int,
        method: String
    ) async throws {
        let server = try Self.redirecting(status, to: "/new")
        defer { server.stop() }
        let transport = URLSessionTransport()
        defer { transport.close() }
        var request = TransportRequest(method: method, url: server.url("/old"))
        request.headers = ["Authorization": "Bearer t"]
        let response = try await transport.send(request)

        #expect(response.status == 200)
        #expect(server.received.count == 2)
        #expect(server.received.last?.hasPrefix("\(method) /new ") == true)
        #expect(server.received.last?.contains("Authorization: Bearer t") == true)
    }

    @Test(arguments: [301, 302, 303], ["POST", "PUT", "PATCH", "DELETE"])
    func `no redirect turns a write into a read`(status: Int, method: String) async throws {
        let server = try Self.redirecting(status, to: "/login")
        defer { server.stop() }
        let transport = URLSessionTransport()
        defer { transport.close() }
        let request = TransportRequest(method: method, url: server.url("/old"))
        let response = try await transport.send(request)

        #expect(response.status == status)
        #expect(server.received.count == 1)
    }

    @Test(arguments: ["POST", "DELETE"])
    func `a write without a body follows a redirect that keeps its method`(
        method: String
    ) async throws {
        let server = try Self.redirecting(307, to: "/new")
        defer { server.stop() }
        let transport = URLSessionTransport()
        defer { transport.close() }
        var request = TransportRequest(method: method, url: server.url("/old"))
        request.headers = ["Authorization": "Bearer t"]
        let response = try await transport.send(request)

        #expect(response.status == 200)
        #expect(server.received.last?.hasPrefix("\(method) /new ") == true)
        #expect(server.received.last?.contains("Authorization: Bearer t") == true)
    }

    @Test(arguments: [301, 307])
    func `no redirect sends a token to another origin`(status: Int) async throws {
        let other = try LoopbackServer()
        defer { other.stop() }
        let server = try Self.redirecting(status, to: other.url("/hello").absoluteString)
        defer { server.stop() }
        let transport = URLSessionTransport()
        defer { transport.close() }
        var request = TransportRequest(url: server.url("/old"))
        request.headers = ["Authorization": "Bearer t"]
        let response = try await transport.send(request)

        #expect(response.status == status)
        #expect(other.received.isEmpty)
    }

    @Test func `a stream follows a redirect too`() async throws {
        let server = try Self.redirecting(307, to: "/new")
        defer { server.stop() }
        let transport = URLSessionTransport()
        defer { transport.close() }
        var request = TransportRequest(url: server.url("/old"))
        request.headers = ["Authorization": "Bearer t"]
        let stream = try await transport.stream(request)

        #expect(stream.response.status == 200)
        #expect(server.received.last?.hasPrefix("GET /new ") == true)
        #expect(server.received.last?.contains("Authorization: Bearer t") == true)
    }
}
