import Foundation
import SanguineModel
import SanguineTesting
import Synchronization
import TestSupport
import Testing

@testable import Sanguine

/// An app's own token, which expires.
final class OwnTokens: Sendable {
    struct State {
        var valid = 1
        var held = 1
        var refreshes = 0
        /// The errors that the next refreshes throw.
        var failures: [any Error] = []
        /// Whether refreshes return no valid token.
        var isUseless = false
    }

    let state = WatchedState(State())
    let gate = WatchedState(true)

    func expire() { state.withLock { $0.valid += 1 } }

    func fail(_ errors: any Error...) { state.withLock { $0.failures += errors } }

    var refreshes: Int { state.value.refreshes }

    func refresh() async throws {
        state.withLock { $0.refreshes += 1 }
        try await gate.wait(for: "permission to refresh") { $0 }
        let failure = state.withLock { state -> (any Error)? in
            if !state.failures.isEmpty { return state.failures.removeFirst() }
            if !state.isUseless { state.held = state.valid }
            return nil
        }
        if let failure { throw failure }
    }

    func configure(_ configuration: inout SanguineClient.Configuration) {
        configuration.authorize = { [self] request in
            request.headers["Authorization"] = "Bearer \(state.value.held)"
        }
        configuration.refresh = { [self] in try await refresh() }
    }

    /// Whether a request has the valid token.
    func accepts(_ request: TransportRequest) -> Bool {
        request.headers["Authorization"] == "Bearer \(state.value.valid)"
    }
}

/// An app's own backend token: requested before each request and refreshed once for all.
@Suite("The app's own token", .bounded)
struct OwnTokenTests {
    private struct NotSignedIn: Error, Equatable {}

    private static func client(
        _ tokens: OwnTokens,
        delay: any Clock<Duration> = ManualClock(),
        _ change: (inout SanguineClient.Configuration) -> Void = { _ in }
    ) throws -> TestClient {
        let network = ScriptedTransport { request in
            tokens.accepts(request)
                ? .json(Profile(name: request.url.lastPathComponent)) : .status(401)
        }
        return try TestClient(network: network) { configuration in
            configuration.server = nil
            configuration.baseURL = URL(string: "http://songs.test")
            configuration.delay = delay
            tokens.configure(&configuration)
            change(&configuration)
        }
    }

    @Test func `the token is requested before each request`() async throws {
        let tokens = OwnTokens()
        let test = try Self.client(tokens)
        _ = try await test.client.value(of: .profile("1"))
        tokens.state.withLock { ($0.held, $0.valid) = (7, 7) }
        _ = try await test.client.value(of: .profile("2"))

        let sent = test.network.requests.map { $0.headers["Authorization"] }
        #expect(sent == ["Bearer 1", "Bearer 7"])
        #expect(tokens.refreshes == 0)
    }

    @Test func `the token is sent only to the backend's own address`() async throws {
        let test = try Self.client(OwnTokens())
        let elsewhere = ValueQuery<Profile>("elsewhere", policy: .alwaysStale.retry(.never)) {
            try await $0.get("http://cdn.test/x")
        }
        let refusal = await #expect(throws: SanguineError.self) {
            try await test.client.value(of: elsewhere)
        }
        #expect(refusal?.code == "http_401")

        #expect(test.network.requests.map { $0.headers["Authorization"] } == [nil])
    }

    @Test(arguments: [nil, "http://sanguine.test/v2"])
    func `a token without a backend of the app is rejected`(base: String?) {
        var configuration = SanguineClient.Configuration.inMemory(
            server: URL(string: "http://sanguine.test")
        )
        configuration.baseURL = base.flatMap { URL(string: $0) }
        configuration.authorize = { _ in }

        let error = #expect(throws: SanguineError.self) { try SanguineClient(configuration) }
        #expect(error?.code == "not_configured")
        #expect(error?.description.contains("'baseURL'") == true)
    }

    @Test func `an expired token is refreshed and the request resent`() async throws {
        let tokens = OwnTokens()
        let test = try Self.client(tokens)
        tokens.expire()

        #expect(try await test.client.value(of: .profile("1")) == Profile(name: "1"))
        #expect(tokens.refreshes == 1)
        #expect(test.network.requests.count == 2)
    }

    @Test func `any number of requests cause one refresh`() async throws {
        let tokens = OwnTokens()
        let test = try Self.client(tokens) { $0.readsPerHost = 16 }
        tokens.expire()
        tokens.gate.withLock { $0 = false }
        let callers = (1...16).map { id in
            Task { try await test.client.value(of: .profile("\(id)")) }
        }
        try await test.network.waitForRequests(16)
        try await tokens.state.wait(for: "a refresh") { $0.refreshes == 1 }
        tokens.gate.withLock { $0 = true }
        for caller in callers { _ = try await caller.finished() }

        #expect(tokens.refreshes == 1)
        #expect(test.network.requests.count == 32)
    }

    @Test func `requests of the device and of the user cause one refresh`() async throws {
        let tokens = OwnTokens()
        let test = try Self.client(tokens)
        tokens.expire()
        tokens.gate.withLock { $0 = false }
        let shared = ValueQuery<Profile>("shared", policy: .alwaysStale.audience(.device)) {
            try await $0.get("profiles/shared")
        }
        let callers = [shared, .profile("1")].map { query in
            Task { try await test.client.value(of: query) }
        }
        try await test.network.waitForRequests(2)
        try await tokens.state.wait(for: "a refresh") { $0.refreshes == 1 }
        tokens.gate.withLock { $0 = true }
        for caller in callers { _ = try await caller.finished() }

        #expect(tokens.refreshes == 1)
    }

    @Test func `a refresh occupies no slot of the host`() async throws {
        let tokens = OwnTokens()
        let network = ScriptedTransport { request in
            tokens.accepts(request) || request.url.lastPathComponent == "open"
                ? .json(Profile(name: request.url.lastPathComponent)) : .status(401)
        }
        let test = try Self.client(tokens) { configuration in
            configuration.transport = network
            configuration.readsPerHost = 1
        }
        tokens.expire()
        tokens.gate.withLock { $0 = false }
        let caller = Task { try await test.client.value(of: .profile("1")) }
        try await tokens.state.wait(for: "a refresh") { $0.refreshes == 1 }
        let open = Task { try await test.client.value(of: .profile("open")) }
        #expect(try await open.finished() == Profile(name: "open"))
        tokens.gate.withLock { $0 = true }

        #expect(try await caller.finished() == Profile(name: "1"))
    }

    @Test func `a sign-out cancels a refresh`() async throws {
        let isCancelled = WatchedState(false)
        let isAsked = WatchedState(false)
        let tokens = OwnTokens()
        let test = try Self.client(tokens) { configuration in
            configuration.refresh = {
                isAsked.withLock { $0 = true }
                do {
                    try await isCancelled.wait(for: "the sign-out") { $0 }
                } catch {
                    isCancelled.withLock { $0 = true }
                }
            }
        }
        tokens.expire()
        let caller = Task { try await test.client.value(of: .profile("1")) }
        try await isAsked.wait(for: "a refresh") { $0 }
        await test.client.signOut()

        await #expect(throws: SanguineError.userChanged) { try await caller.finished() }
        try await isCancelled.wait(for: "the cancelled refresh") { $0 }
        #expect(test.network.requests.count == 1)
    }

    @Test func `a request sent before a refresh is resent with the new token`() async throws {
        let tokens = OwnTokens()
        let test = try Self.client(tokens)
        tokens.expire()
        test.network.hold()
        let late = Task { try await test.client.value(of: .profile("late")) }
        try await test.network.waitForHeld(1)
        let early = Task { try await test.client.value(of: .profile("early")) }
        try await test.network.waitForHeld(2)
        try await test.network.releaseFirst { $0.url.lastPathComponent == "early" }
        try await test.network.waitForHeld(2)
        test.network.release()

        #expect(try await early.finished() == Profile(name: "early"))
        #expect(try await late.finished() == Profile(name: "late"))
        #expect(tokens.refreshes == 1)
    }

    @Test func `a 401 after a refresh is thrown to the caller and stops no other request`()
        async throws
    {
        let tokens = OwnTokens()
        let test = try Self.client(tokens)
        tokens.expire()
        tokens.state.withLock { $0.isUseless = true }
        let error = await #expect(throws: SanguineError.self) {
            try await test.client.value(of: .profile("1"))
        }
        #expect(error?.code == "http_401")
        #expect(error?.errorClass == .needsSignIn)
        #expect(test.network.requests.count == 2)
        tokens.state.withLock { $0.isUseless = false }

        #expect(try await test.client.value(of: .profile("1")) == Profile(name: "1"))
    }

    @Test func `a failed refresh is thrown to the caller and stops no other request`() async throws
    {
        let tokens = OwnTokens()
        let test = try Self.client(tokens)
        tokens.expire()
        tokens.fail(NotSignedIn())
        let error = await #expect(throws: SanguineError.self) {
            try await test.client.value(of: .profile("1"))
        }
        #expect(error?.errorClass == .needsSignIn)
        #expect(error?.underlying as? NotSignedIn == NotSignedIn())

        #expect(try await test.client.value(of: .profile("1")) == Profile(name: "1"))
        #expect(tokens.refreshes == 2)
    }

    @Test func `a refresh that fails in the network is retried`() async throws {
        let tokens = OwnTokens()
        let test = try Self.client(tokens, delay: ContinuousClock())
        tokens.expire()
        tokens.fail(TransportError.interrupted("test"))
        let soon = Policy.alwaysStale.retry(RetrySchedule(attempts: 3, base: .milliseconds(1)))
        let query = ValueQuery<Profile>("own", policy: soon) { try await $0.get("profiles/1") }

        #expect(try await test.client.value(of: query) == Profile(name: "1"))
        #expect(tokens.refreshes == 2)
    }

    @Test func `a refresh that never ends times out`() async throws {
        let tokens = OwnTokens()
        let clock = ManualClock()
        let test = try Self.client(tokens, delay: clock)
        tokens.expire()
        tokens.gate.withLock { $0 = false }
        let query = ValueQuery<Profile>("own", policy: .alwaysStale.retry(.never)) {
            try await $0.get("profiles/1")
        }
        let caller = Task { try await test.client.value(of: query) }
        try await tokens.state.wait(for: "a refresh") { $0.refreshes == 1 }
        try await eventually("the deadline is set") {
            clock.timeToNextWake == ClientLimits.refreshTimeout
        }
        clock.advance(by: ClientLimits.refreshTimeout)

        await #expect(throws: SanguineError.transport(.timedOut)) { try await caller.finished() }
        tokens.gate.withLock { $0 = true }
    }

    @Test func `a caller that cancels does not cancel the refresh`() async throws {
        let tokens = OwnTokens()
        let test = try Self.client(tokens)
        tokens.expire()
        tokens.gate.withLock { $0 = false }
        let impatient = Task { try await test.client.value(of: .profile("1")) }
        try await tokens.state.wait(for: "a refresh") { $0.refreshes == 1 }
        let patient = Task { try await test.client.value(of: .profile("2")) }
        try await test.network.waitForRequests(2)
        impatient.cancel()
        await #expect(throws: SanguineError.cancelled) { try await impatient.finished() }
        tokens.gate.withLock { $0 = true }

        #expect(try await patient.finished() == Profile(name: "2"))
        #expect(tokens.refreshes == 1)
    }

    @Test func `without a refresh closure a 401 is thrown at once`() async throws {
        let tokens = OwnTokens()
        let test = try Self.client(tokens) { $0.refresh = nil }
        tokens.expire()
        let error = await #expect(throws: SanguineError.self) {
            try await test.client.value(of: .profile("1"))
        }

        #expect(error?.code == "http_401")
        #expect(test.network.requests.count == 1)
    }

    @Test func `without a token nothing is sent`() async throws {
        let test = try Self.client(OwnTokens()) { configuration in
            configuration.authorize = { _ in throw NotSignedIn() }
        }
        let error = await #expect(throws: SanguineError.self) {
            try await test.client.value(of: .profile("1"))
        }

        #expect(error?.errorClass == .needsSignIn)
        #expect(error?.underlying as? NotSignedIn == NotSignedIn())
        #expect(test.network.requests.isEmpty)
    }

    @Test func `nothing is sent for a user who leaves while the token is requested`() async throws {
        let isAsked = WatchedState(false)
        let gate = WatchedState(false)
        let test = try Self.client(OwnTokens()) { configuration in
            configuration.authorize = { request in
                isAsked.withLock { $0 = true }
                try? await gate.wait(for: "permission to continue") { $0 }
                request.headers["Authorization"] = "Bearer the next one's"
            }
        }
        let caller = Task { try await test.client.value(of: .profile("1")) }
        try await isAsked.wait(for: "the request for the token") { $0 }
        await test.client.signOut()
        gate.withLock { $0 = true }

        await #expect(throws: SanguineError.userChanged) { try await caller.finished() }
        #expect(test.network.requests.isEmpty)
    }

    // MARK: - Mutations

    private static func songs(
        _ tokens: OwnTokens,
        _ change: (inout SanguineClient.Configuration) -> Void = { _ in }
    ) throws -> (fixture: SongFixture, client: SanguineClient) {
        let fixture = SongFixture()
        let client = try fixture.client { configuration in
            let network = fixture.network
            configuration.transport = ScriptedTransport { request in
                guard tokens.accepts(request) else { return .status(401) }
                do throws(TransportError) {
                    return .respond(try await network.send(request))
                } catch {
                    return .fail(error)
                }
            }
            tokens.configure(&configuration)
            change(&configuration)
        }
        return (fixture, client)
    }

    @Test func `the outbox continues after a 401, under the same key`() async throws {
        let tokens = OwnTokens()
        let (fixture, client) = try Self.songs(tokens)
        defer { client.close() }
        tokens.expire()
        let receipts = try ["a", "b"].map { try client.perform(LikeSong(song: $0)) }
        for receipt in receipts {
            let outcome = try await within(.seconds(30), "the outcome") {
                try await receipt.outcome
            }
            #expect(outcome == .applied)
        }

        #expect(tokens.refreshes == 1)
        let keys = fixture.writes.map { $0.headers["Idempotency-Key"] }
        #expect(Set(keys) == Set(receipts.map { "\($0.id)" }))
        #expect(fixture.server.likes(of: "a") == 11 && fixture.server.likes(of: "b") == 21)
    }

    @Test(arguments: [
        NotSignedIn() as any Error, Problem(.malformedBody, "No grant."),
        ClosureErrorTests.Classified(errorClass: .refused), TransportError.invalid("test"),
    ])
    func `a failed refresh refuses no operation`(error: any Error) async throws {
        let tokens = OwnTokens()
        let (_, client) = try Self.songs(tokens) { $0.delay = ContinuousClock() }
        defer { client.close() }
        tokens.expire()
        tokens.fail(error)
        let receipt = try client.perform(LikeSong(song: "a"))
        let outcome = try await within(.seconds(30), "the outcome") { try await receipt.outcome }

        #expect(outcome == .applied)
        #expect(tokens.refreshes == 2)
    }

    @Test(arguments: [true, false])
    func `an unauthorized operation waits and stops no other`(fails: Bool) async throws {
        let tokens = OwnTokens()
        let (fixture, client) = try Self.songs(tokens)
        defer { client.close() }
        tokens.expire()
        if fails {
            tokens.fail(NotSignedIn())
        } else {
            tokens.state.withLock { $0.isUseless = true }
        }
        let first = try client.perform(LikeSong(song: "a"))
        try await eventually("the first operation waits") {
            fixture.delay.timeToNextWake.map { $0 < .seconds(5) } ?? false
        }
        tokens.state.withLock { $0.isUseless = false }
        let second = try client.perform(LikeSong(song: "b"))
        let outcome = try await within(.seconds(30), "the outcome") { try await second.outcome }
        #expect(outcome == .applied)
        #expect(client.outbox.refused.isEmpty)
        client.outbox.resume()
        let last = try await within(.seconds(30), "the outcome") { try await first.outcome }

        #expect(last == .applied)
    }

    @Test func `an operation without a token waits and is not refused`() async throws {
        let isSignedIn = WatchedState(false)
        let (_, client) = try Self.songs(OwnTokens()) { configuration in
            configuration.refresh = nil
            configuration.authorize = { request in
                guard isSignedIn.value else { throw NotSignedIn() }
                request.headers["Authorization"] = "Bearer 1"
            }
        }
        defer { client.close() }
        let receipt = try client.perform(LikeSong(song: "a"))
        let refusal = await #expect(throws: SanguineError.self) { try await client.synchronize() }
        #expect(refusal?.code == "unauthenticated")
        #expect(client.outbox.refused.isEmpty)
        isSignedIn.withLock { $0 = true }
        client.outbox.resume()
        let outcome = try await within(.seconds(30), "the outcome") { try await receipt.outcome }

        #expect(outcome == .applied)
    }
}
