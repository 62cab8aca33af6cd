import AsyncHTTPClient
import HostileUpstream
import NIOCore
import SanguineModel
import SanguineTesting
import Synchronization

@testable import SanguineServer

/// A pool of hostile upstreams, with its reports.
final class UpstreamWorld: Sendable {
    /// A reported attempt.
    struct Attempt: Hashable, Sendable {
        let name: String
        let outcome: UpstreamReports.Outcome
    }

    /// The reports, in order.
    struct Reported: Sendable {
        var attempts: [Attempt] = []
        var phases: [BreakerPhase] = []
        var firstBytes: [Duration?] = []
    }

    static let key = "sk-do-not-tell"

    let pool: Upstreams
    let upstreams: [HostileUpstream]
    let clock = ManualClock()
    let wallClock = ManualWallClock(Timestamp(millisecondsSince1970: 784_111_777_000))
    let reported = Mutex(Reported())

    private init(
        _ upstreams: [HostileUpstream],
        _ connections: UpstreamConnections,
        answerBytes: Int,
        timeouts: [Duration]
    ) throws {
        self.upstreams = upstreams
        var named: [NamedUpstream] = []
        for (index, upstream) in upstreams.enumerated() {
            let configuration = try UpstreamConfiguration(
                url: upstream.url,
                apiKey: Secret(Self.key),
                model: "m-\(index + 1)",
                timeout: timeouts.indices.contains(index) ? timeouts[index] : .seconds(60),
                answerBytes: answerBytes
            )
            let client = UpstreamClient(
                configuration: configuration,
                connections: connections,
                clock: clock,
                wallClock: wallClock
            )
            named.append(NamedUpstream("u\(index + 1)", client))
        }
        var reports = UpstreamReports()
        let log = Relay()
        reports.attempt = { log.world?.note(attempt: Attempt(name: $0, outcome: $1), $2) }
        reports.breakerChanged = { log.world?.note(phase: $1) }
        pool = Upstreams(named, clock: clock, random: { 0.5 }, reports: reports)
        log.set(self)
    }

    /// Runs the body with one upstream per closure, which chooses the fault for each request.
    static func with(
        _ faults: [@Sendable (HostileUpstream.Request) -> HostileUpstream.Fault],
        answerBytes: Int = UpstreamConfiguration.defaultAnswerBytes,
        timeouts: [Duration] = [],
        adjust: (inout HTTPClient.Configuration) -> Void = { _ in },
        _ body: (UpstreamWorld) async throws -> Void
    ) async throws {
        var upstreams: [HostileUpstream] = []
        for fault in faults { upstreams.append(try await HostileUpstream.start(fault)) }
        // The tests do not measure how long a busy machine takes to connect.
        let settings = try UpstreamConfiguration(
            url: upstreams[0].url,
            model: "m",
            connectTimeout: .seconds(60)
        )
        var configuration = settings.httpClientConfiguration()
        adjust(&configuration)
        let connections = UpstreamConnections(configuration)
        let result: Result<Void, any Error>
        do {
            try await body(
                try UpstreamWorld(
                    upstreams,
                    connections,
                    answerBytes: answerBytes,
                    timeouts: timeouts
                )
            )
            result = .success(())
        } catch {
            result = .failure(error)
        }
        try await connections.shutdown()
        for upstream in upstreams { try? await upstream.close() }
        try result.get()
    }

    /// Runs the body with one upstream, which treats each request with the given fault.
    static func with(
        _ fault: HostileUpstream.Fault,
        answerBytes: Int = UpstreamConfiguration.defaultAnswerBytes,
        _ body: (UpstreamWorld) async throws -> Void
    ) async throws {
        try await with([{ _ in fault }], answerBytes: answerBytes, body)
    }

    /// Makes a call and returns its pieces with the answer or error.
    func ask(
        _ prompt: String = "id=a words=5",
        among names: [String] = [],
        for account: Identifier? = nil,
        within timeout: Duration = .seconds(60),
        streamed: Bool = true,
        onEvent: @escaping @Sendable (UpstreamEvent) async -> Void = { _ in }
    ) async -> Asked {
        let texts = Mutex<[String]>([])
        let result: Result<UpstreamAnswer, UpstreamError>
        do throws(UpstreamError) {
            result = .success(
                try await pool.answer(
                    .prompt(Self.prompt(prompt)),
                    among: names,
                    for: account,
                    within: timeout,
                    streamed: streamed
                ) { event in
                    if !event.text.isEmpty { texts.withLock { $0.append(event.text) } }
                    await onEvent(event)
                }
            )
        } catch {
            result = .failure(error)
        }
        return Asked(pieces: texts.withLock { $0 }, result: result)
    }

    static func prompt(_ text: String) -> UpstreamPrompt {
        UpstreamPrompt(messages: [.init(.user, text)], maxOutputTokens: 1_000)
    }

    /// The reported outcomes, in order.
    var outcomes: [UpstreamReports.Outcome] { reported.withLock { $0.attempts.map(\.outcome) } }

    /// The names of the called upstreams, in order.
    var asked: [String] { reported.withLock { $0.attempts.map(\.name) } }

    private func note(attempt: Attempt, _ firstByte: Duration?) {
        reported.withLock { reported in
            reported.attempts.append(attempt)
            reported.firstBytes.append(firstByte)
        }
    }

    private func note(phase: BreakerPhase) { reported.withLock { $0.phases.append(phase) } }
}

extension UpstreamWorld {
    /// The result of a call.
    struct Asked: Sendable {
        let pieces: [String]
        let result: Result<UpstreamAnswer, UpstreamError>

        var answer: UpstreamAnswer? { try? result.get() }

        var error: UpstreamError? {
            guard case .failure(let error) = result else { return nil }
            return error
        }
    }

    /// Forwards the pool's reports to the world that is created after the pool.
    private final class Relay: Sendable {
        private struct Weak: Sendable {
            weak var world: UpstreamWorld?
        }

        private let link = Mutex(Weak())

        var world: UpstreamWorld? { link.withLock { $0.world } }

        func set(_ world: UpstreamWorld) { link.withLock { $0.world = world } }
    }
}

extension UpstreamError {
    /// A refusal without further details.
    static func refused(status: Int, retryAfterSeconds: Int?) -> UpstreamError {
        .refused(
            UpstreamRefusal(status: status, retryAfter: retryAfterSeconds.map { .seconds($0) })
        )
    }

    /// The same error without the text of a refusal.
    var withoutWords: UpstreamError {
        guard case .refused(let refusal) = self else { return self }
        return .refused(UpstreamRefusal(status: refusal.status, retryAfter: refusal.retryAfter))
    }
}
