import Foundation
import SanguineModel
import SanguineTesting
import Synchronization
import TestSupport
import Testing

@testable import Sanguine

/// The client as an app uses it with its own backend: a plain HTTP server on a socket that knows
/// nothing of Sanguine, the default transport, and only an address configured.
@Suite("The app's own backend", .bounded)
struct BackendTests {
    private struct Post: Codable, Sendable, Equatable {
        var id: Int
    }

    private static let posts = Batch<Int, Post>("post") { request, ids in
        let list = ids.map { URLQueryItem(name: "id", value: "\($0)") }
        let found: [Post] = try await request.get("posts", query: list)
        return Dictionary(found.map { ($0.id, $0) }) { first, _ in first }
    }

    private static func json(_ body: String) -> LoopbackServer.Reply {
        LoopbackServer.Reply(headers: ["Content-Type: application/json"], body: body)
    }

    private static func client(
        _ server: LoopbackServer,
        delay: any Clock<Duration> = ContinuousClock()
    ) throws -> SanguineClient {
        var configuration = SanguineClient.Configuration.inMemory()
        configuration.baseURL = server.url("/api/")
        configuration.baseHeaders = { ["Authorization": "Bearer the app's own"] }
        configuration.delay = delay
        configuration.logger = .silent
        return try SanguineClient(configuration)
    }

    @Test func `a query needs only the address`() async throws {
        let server = try LoopbackServer { _, _ in Self.json(#"{"name":"Ada"}"#) }
        defer { server.stop() }
        let client = try Self.client(server)
        defer { client.close() }

        #expect(try await client.value(of: .profile("42")) == Profile(name: "Ada"))
        #expect(try await client.value(of: .profile("42")) == Profile(name: "Ada"))
        let text = try #require(server.received.first).lowercased()
        #expect(server.received.count == 1)
        #expect(text.hasPrefix("get /api/profiles/42 http/1.1"))
        #expect(text.contains("authorization: bearer the app's own"))
        #expect(text.contains("accept: application/json"))
    }

    @Test func `a missing value is reported at once`() async throws {
        let server = try LoopbackServer { _, _ in LoopbackServer.Reply(status: 404, body: "no") }
        defer { server.stop() }
        let client = try Self.client(server)
        defer { client.close() }

        let error = await #expect(throws: SanguineError.self) {
            try await client.value(of: .profile("42"))
        }
        #expect(error?.code == "http_404")
        #expect(error?.errorClass == .gone)
        #expect(server.received.count == 1)
    }

    @Test func `an overloaded backend is retried when it asks for it`() async throws {
        let count = Mutex(0)
        let server = try LoopbackServer { _, _ in
            let isFirst = count.withLock { count in
                count += 1
                return count == 1
            }
            guard isFirst else { return Self.json(#"{"name":"Ada"}"#) }
            return LoopbackServer.Reply(status: 503, headers: ["Retry-After: 3"])
        }
        defer { server.stop() }
        let delay = ManualClock()
        let client = try Self.client(server, delay: delay)
        defer { client.close() }
        async let profile = client.value(of: .profile("42"))
        // The other sleeper is the read's deadline.
        let longest = Duration.seconds(3) * 1.25
        try await eventually("the retry is scheduled") {
            delay.timeToNextWake.map { $0 <= longest } ?? false
        }
        #expect(delay.timeToNextWake ?? .zero >= .seconds(3))
        #expect(server.received.count == 1)
        delay.advance(by: longest)

        #expect(try await profile == Profile(name: "Ada"))
        #expect(server.received.count == 2)
    }

    @Test func `simultaneous lookups share one request`() async throws {
        let server = try LoopbackServer { _, _ in Self.json(#"[{"id":1},{"id":2}]"#) }
        defer { server.stop() }
        let delay = ManualClock()
        let client = try Self.client(server, delay: delay)
        defer { client.close() }
        let callers = [1, 2, 3].map { id in
            Task { try await client.value(of: .batched(by: Self.posts, id)) }
        }
        try await eventually("three callers have joined") { client.batches.askerCount == 3 }
        try await eventually("the window is open") {
            delay.timeToNextWake == ClientLimits.batchWindow
        }
        delay.advance(by: ClientLimits.batchWindow)

        #expect(try await callers[0].finished() == Post(id: 1))
        #expect(try await callers[1].finished() == Post(id: 2))
        let error = await #expect(throws: SanguineError.self) { try await callers[2].finished() }
        #expect(error?.code == "not_found")
        #expect(server.received.count == 1)
    }

    @Test func `an expired token is refreshed once for reads and writes together`() async throws {
        let valid = Mutex(false)
        let renewals = Mutex(0)
        let server = try LoopbackServer { target, text in
            guard text.lowercased().contains("authorization: bearer new") else {
                return LoopbackServer.Reply(status: 401)
            }
            return Self.json(target.contains("like") ? "{}" : #"{"name":"Ada"}"#)
        }
        defer { server.stop() }
        var configuration = SanguineClient.Configuration.inMemory()
        configuration.baseURL = server.url("/api")
        configuration.logger = .silent
        configuration.register(LikeSong.self)
        configuration.authorize = { request in
            request.headers["Authorization"] = "Bearer \(valid.withLock { $0 } ? "new" : "old")"
        }
        configuration.refresh = {
            renewals.withLock { $0 += 1 }
            valid.withLock { $0 = true }
        }
        let client = try SanguineClient(configuration)
        defer { client.close() }
        let receipt = try client.perform(LikeSong(song: "a"))
        let profile = try await client.value(of: .profile("42"))
        let outcome = try await within(.seconds(30), "the outcome") { try await receipt.outcome }

        #expect(profile == Profile(name: "Ada"))
        #expect(outcome == .applied)
        #expect(renewals.withLock { $0 } == 1)
    }

    @Test func `a screen that closes cancels its request`() async throws {
        let server = try LoopbackServer()
        defer { server.stop() }
        let client = try Self.client(server)
        defer { client.close() }
        let silent = ValueQuery<Profile>("silent", base: server.url("/")) {
            try await $0.get("silent")
        }
        let caller = Task { try await client.value(of: silent) }
        try await server.waitForRequests(1)
        caller.cancel()

        await #expect(throws: SanguineError.cancelled) { try await caller.finished() }
        try await eventually("nothing is under way") {
            client.queue.underWay(to: server.url("/").hostKey) == 0
        }
        #expect(client.snapshot(of: silent) == ValueSnapshot())
    }

    @Test func `a burst of reads reaches the backend a few at a time`() async throws {
        let present = WatchedState((now: 0, most: 0))
        let gate = DispatchSemaphore(value: 0)
        let server = try LoopbackServer { _, _ in
            present.withLock { $0 = ($0.now + 1, max($0.most, $0.now + 1)) }
            _ = gate.wait(timeout: .now() + 30)
            present.withLock { $0.now -= 1 }
            return Self.json(#"{"name":"Ada"}"#)
        }
        defer { server.stop() }
        let client = try Self.client(server)
        defer { client.close() }
        let callers = (1...20).map { id in
            Task { try await client.value(of: .profile("\(id)")) }
        }
        try await present.wait(for: "reads in all slots") { $0.now >= ClientLimits.readsPerHost }
        for _ in callers { gate.signal() }
        for caller in callers { _ = try await caller.finished() }

        #expect(present.value.most == ClientLimits.readsPerHost)
        #expect(server.received.count == 20)
    }
}
