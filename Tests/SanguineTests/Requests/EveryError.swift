import Foundation
import SanguineModel
import SanguineTesting

@testable import Sanguine

/// Provokes each error of the client, by code.
enum EveryError {
    struct NotProvoked: Error {}

    private struct OwnError: Error {}

    /// The guide's text.
    static let guide: String? = {
        let guide = URL(filePath: #filePath).deletingLastPathComponent()
            .appending(path: "../../../Sources/Sanguine/Sanguine.docc/Errors-and-What-to-Do.md")
            .standardizedFileURL
        return try? String(contentsOf: guide, encoding: .utf8)
    }()

    static let all: [String: EveryErrorTests.Provocation] = [
        "timed_out": timedOut, "offline": offline, "interrupted": interrupted,
        "queue_full": queueFull, "outbox_full": outboxFull, "range_too_long": rangeTooLong,
        "outcome_unknown": outcomeUnknown, "balance_unsettled": balanceUnsettled,
        "cancelled": cancelled, "closed": closed, "user_changed": userChanged,
        "answer_too_large": answerTooLarge, "invalid_exchange": invalidExchange,
        "decoding": decoding, "store": store, "not_configured": notConfigured,
        "sign_in_refused": signInRefused, "conflicting_query": conflictingQuery,
        "intercepted": intercepted, "query_failed": queryFailed,
        "invalid_declaration": invalidDeclaration,
    ]

    /// The answers of the server in addition to those of ``LoopbackServer``.
    static func answer(_ target: String, _ text: String) -> LoopbackServer.Reply? {
        if target == "/login" {
            return LoopbackServer.Reply(headers: ["Content-Type: text/html"], body: "<html>")
        }
        guard target.hasPrefix("/v1/balance") else { return nil }
        let balance = try? WireCoding.encode(InMemoryAuthority().balance())
        return LoopbackServer.Reply(
            headers: ["Content-Type: application/json"],
            body: String(decoding: balance ?? Data(), as: UTF8.self)
        )
    }

    static func client(
        _ server: LoopbackServer,
        delay: any Clock<Duration> = ContinuousClock(),
        _ change: (inout SanguineClient.Configuration) -> Void = { _ in }
    ) throws -> SanguineClient {
        var configuration = SanguineClient.Configuration.inMemory()
        configuration.baseURL = server.url("/")
        configuration.delay = delay
        configuration.logger = .silent
        configuration.retries = false
        configuration.mutations = [LikeSong.self]
        change(&configuration)
        return try SanguineClient(configuration)
    }

    static func error(
        _ body: () async throws -> some Sendable
    ) async throws -> SanguineError {
        do {
            _ = try await body()
        } catch let error as SanguineError {
            return error
        }
        throw NotProvoked()
    }

    /// Returns the error of reading a path.
    private static func error(
        of path: String,
        _ server: LoopbackServer,
        _ change: (inout SanguineClient.Configuration) -> Void = { _ in }
    ) async throws -> SanguineError {
        let client = try client(server, change)
        defer { client.close() }
        return try await error { try await client.value(of: profile(path)) }
    }

    private static func profile(_ path: String) -> ValueQuery<Profile> {
        ValueQuery("path", path) { try await $0.get(path) }
    }

    /// Returns the error of a task while the clock advances.
    private static func error(
        of task: Task<some Sendable, any Error>,
        _ clock: ManualClock,
        _ step: Duration
    ) async throws -> SanguineError {
        let failed = WatchedState<SanguineError?>(nil)
        Task {
            let failure = try await error { try await task.finished() }
            failed.withLock { $0 = failure }
        }
        try await eventually("the task has failed") {
            clock.advance(by: step)
            return failed.value != nil
        }
        return try failed.value ?? { throw NotProvoked() }()
    }

    // MARK: - The network

    private static let timedOut: EveryErrorTests.Provocation = { server in
        let clock = ManualClock()
        let client = try client(server, delay: clock)
        defer { client.close() }
        let task = Task { try await client.value(of: profile("silent")) }
        try await server.waitForRequests(1)
        return try await error(of: task, clock, ClientLimits.requestTimeout)
    }

    private static let offline: EveryErrorTests.Provocation = { server in
        server.stop()
        return try await error(of: "hello", server)
    }

    private static let interrupted: EveryErrorTests.Provocation = { server in
        try await error(of: "half", server)
    }

    private static let answerTooLarge: EveryErrorTests.Provocation = { server in
        let transport = URLSessionTransport(bodyLimitBytes: 10)
        defer { transport.close() }
        return try await error(of: "large/11", server) { $0.transport = transport }
    }

    private static let invalidExchange: EveryErrorTests.Provocation = { server in
        try await error(of: "hello", server) {
            $0.baseURL = URL(string: "ftp://127.0.0.1:\(server.port)/")
        }
    }

    private static let intercepted: EveryErrorTests.Provocation = { server in
        try await error(of: "login", server)
    }

    private static let decoding: EveryErrorTests.Provocation = { server in
        try await error(of: "hello", server)
    }

    // MARK: - Identity

    private static let cancelled: EveryErrorTests.Provocation = { server in
        let client = try client(server)
        defer { client.close() }
        let task = Task { try await client.value(of: profile("silent")) }
        try await server.waitForRequests(1)
        task.cancel()
        return try await error { try await task.finished() }
    }

    private static let closed: EveryErrorTests.Provocation = { server in
        let client = try client(server)
        client.close()
        return try await error { try await client.value(of: profile("hello")) }
    }

    private static let userChanged: EveryErrorTests.Provocation = { server in
        let client = try client(server)
        defer { client.close() }
        let task = Task { try await client.value(of: profile("silent")) }
        try await server.waitForRequests(1)
        await client.signOut()
        return try await error { try await task.finished() }
    }

    private static let signInRefused: EveryErrorTests.Provocation = { server in
        let client = try client(server)
        defer { client.close() }
        return try await error { try client.signIn(as: "") }
    }

    // MARK: - Limits

    private static let queueFull: EveryErrorTests.Provocation = { server in
        let client = try client(server)
        defer { client.close() }
        let count = ClientLimits.readsPerHost + ClientLimits.waitingReadsPerHost + 1
        let failures = WatchedState<[SanguineError]>([])
        let tasks = (0..<count).map { number in
            Task {
                let query = ValueQuery<Profile>("silent", number) { try await $0.get("silent") }
                do throws(SanguineError) {
                    _ = try await client.value(of: query)
                } catch {
                    failures.withLock { $0.append(error) }
                }
            }
        }
        try await failures.wait(for: "a rejected read") { !$0.isEmpty }
        let failure = failures.value[0]
        for task in tasks { task.cancel() }
        return failure
    }

    private static let outboxFull: EveryErrorTests.Provocation = { server in
        let connectivity = ManualConnectivity()
        connectivity.disconnect()
        let client = try client(server) { $0.connectivity = connectivity }
        defer { client.close() }
        for _ in 0..<RecordLimits.operations { try client.perform(LikeSong(song: "a")) }
        return try await error { try client.perform(LikeSong(song: "a")) }
    }

    private static let rangeTooLong: EveryErrorTests.Provocation = { server in
        let client = try client(server)
        defer { client.close() }
        return try await error {
            try await client.value(of: .tens, in: 1...(RangeLimits.readSpan + 1))
        }
    }

    // MARK: - Calls and the balance

    private static func metered(
        _ server: LoopbackServer,
        _ clock: ManualClock
    ) throws -> SanguineClient {
        var configuration = SanguineClient.Configuration.inMemory(server: server.url("/"))
        configuration.delay = clock
        configuration.logger = .silent
        return try SanguineClient(configuration, authorizers: TestAuthorizer())
    }

    private static let outcomeUnknown: EveryErrorTests.Provocation = { server in
        let clock = ManualClock()
        let client = try metered(server, clock)
        defer { client.close() }
        let task = Task { try await client.call(Ask(question: "Why?")) }
        try await server.waitForRequests(1)
        return try await error(of: task, clock, BalanceLimits.callTimeout)
    }

    private static let balanceUnsettled: EveryErrorTests.Provocation = { server in
        let client = try metered(server, ManualClock())
        defer { client.close() }
        // The server never answers the call and does not report it with the balance.
        let task = Task { try await client.call(Ask(question: "Why?")) }
        try await eventually("the call is on its way") {
            server.received.contains { $0.contains("/v1/functions/") }
        }
        defer { task.cancel() }
        return try await error { try await client.value(of: .balance) }
    }

    // MARK: - The app

    private static let notConfigured: EveryErrorTests.Provocation = { server in
        try await error(of: "hello", server) { $0.baseURL = nil }
    }

    private static let invalidDeclaration: EveryErrorTests.Provocation = { server in
        let client = try client(server) { $0.mutations = [] }
        defer { client.close() }
        return try await error { try client.perform(LikeSong(song: "a")) }
    }

    private static let conflictingQuery: EveryErrorTests.Provocation = { server in
        let client = try client(server)
        defer { client.close() }
        let text = ValueQuery<Int>("path", "a") { try await $0.response("hello").status }
        _ = try await client.value(of: text)
        return try await error { try await client.value(of: profile("a")) }
    }

    private static let queryFailed: EveryErrorTests.Provocation = { server in
        let client = try client(server)
        defer { client.close() }
        let query = ValueQuery<Int>("own") { request in
            _ = try await request.response("hello")
            throw OwnError()
        }
        return try await error { try await client.value(of: query) }
    }

    private static let store: EveryErrorTests.Provocation = { server in
        let folder = TemporaryFolder()
        // A folder at the path of the file.
        let outbox = folder.user.appending(path: OutboxFile.name)
        try FileManager.default.createDirectory(at: outbox, withIntermediateDirectories: true)
        let client = try client(server) { configuration in
            configuration.isInMemory = false
            configuration.folder = folder.url
        }
        defer { client.close() }
        return try await error { try client.perform(LikeSong(song: "a")) }
    }
}
