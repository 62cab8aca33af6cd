import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

/// Tests the default transport, as apps use it, with real sockets.
@Suite("URLSession transport", .bounded)
struct URLSessionTransportTests {
    private let server: LoopbackServer

    init() throws { server = try LoopbackServer() }

    @Test func `a response is received complete`() async throws {
        let transport = URLSessionTransport()
        defer { transport.close() }
        let response = try await transport.send(TransportRequest(url: server.url("/hello")))

        #expect(response.status == 200)
        #expect(response.body == Data("hello".utf8))
        #expect(response.header("X-MOOD") == "good")
        #expect(response.headers["x-mood"] == "good")
    }

    @Test func `the method, headers and body are sent as given`() async throws {
        let transport = URLSessionTransport()
        defer { transport.close() }
        let request = TransportRequest(
            method: "POST",
            url: server.url("/echo?a=b"),
            headers: ["Idempotency-Key": "k1"],
            body: Data("{}".utf8)
        )
        let echo = try await transport.send(request)

        let text = String(decoding: echo.body, as: UTF8.self)
        #expect(text.hasPrefix("POST /echo?a=b HTTP/1.1"))
        #expect(text.lowercased().contains("idempotency-key: k1"))
    }

    @Test(arguments: ["/large/2000", "/chunked/2000"])
    func `a body over the limit is rejected`(path: String) async throws {
        let transport = URLSessionTransport(bodyLimitBytes: 1_999)
        defer { transport.close() }

        await #expect(throws: TransportError.bodyTooLarge(limitBytes: 1_999)) {
            try await transport.send(TransportRequest(url: server.url(path)))
        }
    }

    @Test(arguments: ["/large/2000", "/chunked/2000"])
    func `a body at the limit is accepted`(path: String) async throws {
        let transport = URLSessionTransport(bodyLimitBytes: 2_000)
        defer { transport.close() }
        let response = try await transport.send(TransportRequest(url: server.url(path)))

        #expect(response.body.count == 2_000)
    }

    @Test func `cancelling a task ends the exchange`() async throws {
        let transport = URLSessionTransport()
        defer { transport.close() }
        let url = server.url("/silent")
        let caller = Task { try await transport.send(TransportRequest(url: url)) }
        try await server.waitForRequests(1)
        caller.cancel()

        await #expect(throws: TransportError.cancelled) { try await caller.finished() }
    }

    @Test func `a task that was already cancelled sends nothing`() async throws {
        let transport = URLSessionTransport()
        defer { transport.close() }
        let url = server.url("/silent")
        let caller = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            return try await transport.send(TransportRequest(url: url))
        }

        await #expect(throws: TransportError.cancelled) { try await caller.finished() }
    }

    @Test func `the timeout of the whole exchange is enforced`() async throws {
        let clock = ManualClock()
        let transport = URLSessionTransport(clock: clock)
        defer { transport.close() }
        // Long, because the system has its own timer.
        let request = TransportRequest(url: server.url("/silent"), timeout: .seconds(3_600))
        let caller = Task { try await transport.send(request) }
        try await clock.waitForSleepers(1)
        #expect(clock.timeToNextWake == .seconds(3_600))
        try await server.waitForRequests(1)
        clock.advance(by: .seconds(3_600))

        await #expect(throws: TransportError.timedOut) { try await caller.finished() }
    }

    @Test func `a refused connection is distinguished from an interrupted one`() async throws {
        let transport = URLSessionTransport()
        defer { transport.close() }
        let stopped = try LoopbackServer()
        stopped.stop()

        let refused = await #expect(throws: TransportError.self) {
            try await transport.send(TransportRequest(url: stopped.url("/hello")))
        }
        guard case .offline = refused else {
            Issue.record("Got \(String(describing: refused)).")
            return
        }
        let broken = await #expect(throws: TransportError.self) {
            try await transport.send(TransportRequest(url: server.url("/half")))
        }
        guard case .interrupted = broken else {
            Issue.record("Got \(String(describing: broken)).")
            return
        }
    }

    @Test func `a redirect to another origin is not followed`() async throws {
        let transport = URLSessionTransport()
        defer { transport.close() }
        let request = TransportRequest(
            url: server.url("/away"),
            headers: ["Authorization": "Bearer secret"]
        )
        let response = try await transport.send(request)

        #expect(response.status == 302)
        #expect(server.received.count == 1)
    }

    @Test func `cookies are not stored`() async throws {
        let transport = URLSessionTransport()
        defer { transport.close() }
        _ = try await transport.send(TransportRequest(url: server.url("/cookie")))
        let echo = try await transport.send(TransportRequest(url: server.url("/echo")))

        #expect(!String(decoding: echo.body, as: UTF8.self).lowercased().contains("cookie: a"))
    }

    @Test func `closing ends requests in flight and rejects later ones`() async throws {
        let transport = URLSessionTransport()
        let url = server.url("/silent")
        let caller = Task { try await transport.send(TransportRequest(url: url)) }
        try await server.waitForRequests(1)
        transport.close()
        transport.close()

        await #expect(throws: TransportError.cancelled) { try await caller.finished() }
        await #expect(throws: TransportError.cancelled) {
            try await transport.send(TransportRequest(url: url))
        }
    }

    @Test func `an address without a scheme is rejected before it is sent`() async throws {
        let transport = URLSessionTransport()
        defer { transport.close() }
        let url = try #require(URL(string: "sanguine.test/x"))
        let error = await #expect(throws: TransportError.self) {
            try await transport.send(TransportRequest(url: url))
        }
        #expect(error == .invalid("the address does not begin with http or https. Correct it."))
    }

    @Test func `a client reads through the transport`() async throws {
        var configuration = SanguineClient.Configuration.inMemory(server: server.url("/"))
        configuration.logger = .silent
        let client = try SanguineClient(configuration, authorizers: TestAuthorizer())
        defer { client.close() }
        let text = ValueQuery<String>("echo") { request in
            let response = try await request.response("/echo")
            return String(decoding: response.body, as: UTF8.self)
        }

        #expect(try await client.value(of: text).contains("Bearer token-0-0"))
        #expect(client.cached(text) != nil)
    }
}
