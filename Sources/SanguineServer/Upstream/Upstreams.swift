import SanguineAuthority
public import SanguineModel

/// An upstream with the name that settings, metrics and functions use.
public struct NamedUpstream: Sendable {
    /// The name.
    public let name: String
    /// The client.
    public let client: UpstreamClient

    /// Creates a named upstream.
    public init(_ name: String, _ client: UpstreamClient) {
        self.name = name
        self.client = client
    }
}

/// Reports about calls to upstreams, for metrics and logs, without content of the calls.
///
/// The closures are called synchronously on any thread, and must not block.
public struct UpstreamReports: Sendable {
    /// The outcome of an attempt at one upstream.
    public enum Outcome: String, Hashable, Sendable, CaseIterable {
        /// A complete answer.
        case answered
        /// A status other than 200, or an error in the stream.
        case refused
        /// The time limit was exceeded.
        case timeout
        /// The connection could not be established, or broke.
        case failed
        /// An invalid answer.
        case unreadable
        /// An answer that is too long.
        case tooLarge
        /// The caller cancelled the call.
        case cancelled
    }

    /// Called when an upstream's breaker has changed, with the upstream's name and the new phase.
    ///
    /// Two simultaneous changes may be reported in either order; ``Upstreams/phases`` is current.
    public var breakerChanged: @Sendable (String, BreakerPhase) -> Void = { _, _ in }
    /// Called when an attempt has ended, with the upstream's name, the outcome, and the time to the
    /// first byte of the answer, if one arrived.
    public var attempt: @Sendable (String, Outcome, Duration?) -> Void = { _, _, _ in }

    /// Called when an upstream accepted a request after refusing a parameter, with the upstream's
    /// name and the corresponding settings.
    public var learned: @Sendable (String, String) -> Void = { _, _ in }
    /// Called when an attempt has failed, with the upstream's name and the error.
    public var failed: @Sendable (String, UpstreamError) -> Void = { _, _ in }

    /// Creates reports without effect.
    public init() {}
}

/// The upstreams that can answer a call, in order of preference.
///
/// ```swift
/// let upstreams = Upstreams([NamedUpstream("main", main), NamedUpstream("spare", spare)])
/// let answer = try await upstreams.answer(.prompt(prompt), within: .seconds(60), streamed: true) {
///     await context.write($0.text)
/// }
/// ```
///
/// Each upstream has a circuit breaker. An upstream that accepts no calls is skipped. After one
/// that fails, the next is asked, unless the request is invalid or the answer is too long. An
/// account whose own calls fail at an upstream is blocked from it, without effect on other
/// accounts.
///
/// The `Retry-After` or `retry-after-ms` of a 429, 503 or 529 pauses the upstream, up to 5 minutes.
///
/// A call falls back even if the failed upstream may have done the work and may charge for it. The
/// caller waits for an answer and is charged once, for the answer received. The operator's cost is
/// limited by the number of upstreams. There is no fallback after a piece was passed to `onEvent`,
/// because another model's text would follow the first one's.
public struct Upstreams: Sendable {
    /// The silence after which a timeout counts against an upstream with no shorter timeout.
    ///
    /// Otherwise, a caller with a very short time limit could block the upstream for all callers.
    public static let fairSilence = Duration.seconds(10)

    private struct Member: Sendable {
        let name: String
        let client: UpstreamClient
        let breaker: Breaker
    }

    private let members: [Member]
    private let frames: FrameSampler?
    private let clock: any Clock<Duration>
    private let reports: UpstreamReports
    private let now: @Sendable () -> Duration

    /// Creates a pool.
    ///
    /// - Parameters:
    ///   - upstreams: The upstreams, the preferred one first. Names are unique.
    ///   - clock: The clock of timeouts and breakers, which the clients also use.
    ///   - random: A number from 0 to 1 that varies the time for which a breaker is open.
    ///   - reports: Receives reports about calls.
    public init(
        _ upstreams: [NamedUpstream],
        clock: any Clock<Duration> = ContinuousClock(),
        random: @escaping @Sendable () -> Double = { .random(in: 0...1) },
        reports: UpstreamReports = UpstreamReports()
    ) {
        self.init(upstreams, frames: nil, clock: clock, random: random, reports: reports)
    }

    /// Creates a pool with a sampler for upstreams that accept only frames of videos.
    init(
        _ upstreams: [NamedUpstream],
        frames: FrameSampler?,
        clock: any Clock<Duration> = ContinuousClock(),
        random: @escaping @Sendable () -> Double = { .random(in: 0...1) },
        reports: UpstreamReports = UpstreamReports()
    ) {
        precondition(
            Set(upstreams.map(\.name)).count == upstreams.count,
            "The names of the upstreams must be unique."
        )
        let now = Stopwatch(clock).elapsed
        members = upstreams.map { upstream in
            Member(
                name: upstream.name,
                client: upstream.client,
                breaker: Breaker(now: now, random: random) {
                    reports.breakerChanged(upstream.name, $0)
                }
            )
        }
        self.frames = frames
        self.clock = clock
        self.reports = reports
        self.now = now
    }

    /// The names, the preferred one first.
    public var names: [String] { members.map(\.name) }

    /// The phase of each upstream's breaker, in order.
    public var phases: [(name: String, phase: BreakerPhase)] {
        members.map { ($0.name, $0.breaker.phase) }
    }

    /// Returns the reason why no call can be sent now, or `nil` if one can.
    ///
    /// - Parameters:
    ///   - names: The upstreams to consider, in order. Default: all. Unknown names are ignored.
    ///   - account: The account of the call, which its failures may have blocked. Default: none.
    /// - Returns: `upstream_missing` if there is no upstream, or `overloaded` with the seconds
    ///   until one may accept a call.
    public func unavailable(_ names: [String] = [], for account: Identifier? = nil) -> Problem? {
        let chosen = chosen(names)
        guard !chosen.isEmpty else {
            return Problem(
                .upstreamMissing,
                "Ask the operator to set SANGUINE_UPSTREAM_URL.",
                retryAfter: 60
            )
        }
        guard let seconds = secondsUntilOneCanLeave(chosen, for: account) else { return nil }
        return Problem(
            .overloaded,
            "The language model has failed recently. Call again in \(seconds) s.",
            retryAfter: seconds
        )
    }

    /// Sends a request to the upstreams until one answers.
    ///
    /// - Parameters:
    ///   - request: The request.
    ///   - names: The upstreams that may be asked, in order. Default: all.
    ///   - account: The account of the call. Accounts take turns when frames of videos are
    ///     extracted, and an account whose calls fail is blocked. Default: none.
    ///   - timeout: The total time limit, which includes waiting for a connection and all
    ///     fallbacks. Each attempt gets the remaining time; one that is not streamed gets at most
    ///     its upstream's own timeout.
    ///   - silence: The longest pause in a streamed answer, at most its upstream's own timeout.
    ///     Default: that timeout.
    ///   - streamed: Whether to stream the answer. Default: false. Embeddings are never streamed.
    ///   - onEvent: Receives each piece; reading continues after it returns.
    /// - Returns: The complete answer.
    /// - Throws: ``UpstreamError``: `unavailable` if no upstream accepts calls, otherwise the error
    ///   of the last upstream that was asked, or of an earlier one if only that may have done work.
    public func answer(
        _ request: UpstreamRequest,
        among names: [String] = [],
        for account: Identifier? = nil,
        within timeout: Duration,
        silence: Duration? = nil,
        streamed: Bool = false,
        onEvent: @escaping @Sendable (UpstreamEvent) async -> Void = { _ in }
    ) async throws(UpstreamError) -> UpstreamAnswer {
        try await answer(
            request,
            among: names,
            for: account,
            within: timeout,
            silence: silence,
            streamed: streamed,
            onAttempt: { _ in },
            onEvent: onEvent
        )
    }

    /// Sends a request, and reports the model of each attempt before it begins.
    func answer(
        _ request: UpstreamRequest,
        among names: [String],
        for account: Identifier?,
        within timeout: Duration,
        silence: Duration?,
        streamed: Bool,
        onAttempt: @Sendable (_ model: String) -> Void,
        onEvent: @escaping @Sendable (UpstreamEvent) async -> Void
    ) async throws(UpstreamError) -> UpstreamAnswer {
        let end = now() + timeout
        let chosen = chosen(names)
        var failure: UpstreamError?
        var asFrames: UpstreamRequest?
        for member in chosen {
            let asked: UpstreamRequest
            do throws(UpstreamError) {
                asked = try await form(of: request, for: member, account, until: end, &asFrames)
            } catch {
                failure = Self.graver(failure, error)
                if case .cancelled = error { break }
                continue
            }
            let own = member.client.configuration.timeout
            let left = streamed ? end - now() : min(end - now(), own)
            guard left > .zero else {
                failure = failure ?? .timeout(mayHaveBeenSent: false)
                break
            }
            guard let pass = member.breaker.admit(for: account) else { continue }
            onAttempt(request.model ?? member.client.configuration.model)
            let progress = member.client.progress(for: account)
            let outcome = await member.client.attempt(
                asked,
                within: left,
                silence: streamed ? min(silence ?? own, own) : nil,
                streamed: streamed,
                progress: progress,
                onEvent: onEvent
            )
            let judgement = UpstreamJudgement(outcome, progress, member.client.configuration)
            member.breaker.end(pass, judgement.verdict)
            reports.attempt(member.name, judgement.outcome, progress.timeToFirstByte)
            if let learned = progress.learned { reports.learned(member.name, learned) }
            switch outcome {
            case .success(let answer): return answer
            case .failure(let error):
                reports.failed(member.name, error)
                failure = error.mayHaveBeenSent ? error : Self.graver(failure, error)
                guard judgement.fallsBack, !progress.hasGiven else { throw failure ?? error }
            }
        }
        let seconds = secondsUntilOneCanLeave(chosen, for: account) ?? 1
        throw failure ?? .unavailable(retryAfterSeconds: seconds)
    }

    /// Returns the maximum number of images for a video.
    ///
    /// - Parameter names: The upstreams that may be asked. Default: all.
    /// - Returns: The number of frames; one if all upstreams accept the file.
    func picturesOfVideo(_ names: [String] = []) -> Int {
        guard let frames, chosen(names).contains(where: takesFrames) else { return 1 }
        return frames.count
    }

    /// Returns the values that identify the upstreams that may be asked, in order.
    ///
    /// - Parameter names: The upstreams that may be asked. Default: all.
    /// - Returns: Name, URL, model, and the form of videos; no keys.
    func identities(
        of names: [String] = []
    ) -> [(name: String, endpoint: String, model: String, video: String)] {
        chosen(names).map { member in
            let configuration = member.client.configuration
            return (
                member.name, configuration.endpoint, configuration.model,
                configuration.video.rawValue
            )
        }
    }

    private func takesFrames(_ member: Member) -> Bool {
        frames != nil && member.client.configuration.video == .frames
    }

    /// Returns the request in the form for an upstream; the frames of videos are extracted once.
    private func form(
        of request: UpstreamRequest,
        for member: Member,
        _ account: Identifier?,
        until end: Duration,
        _ asFrames: inout UpstreamRequest?
    ) async throws(UpstreamError) -> UpstreamRequest {
        guard takesFrames(member), member.breaker.wait(for: account) == nil else { return request }
        if let asFrames { return asFrames }
        let made = try await makeFrames(of: request, account, within: end - now())
        asFrames = made
        return made
    }

    private func makeFrames(
        of request: UpstreamRequest,
        _ account: Identifier?,
        within timeout: Duration
    ) async throws(UpstreamError) -> UpstreamRequest {
        guard let frames else { return request }
        do throws(FrameSampler.Failure) {
            return try await frames.request(request, of: account, within: timeout, clock)
        } catch {
            switch error {
            case .unreadable(let reason): throw .videoUnreadable(reason)
            case .noProgram(let reason): throw .noFrames(reason)
            case .timeout: throw .timeout(mayHaveBeenSent: false)
            case .cancelled: throw .cancelled(mayHaveBeenSent: false)
            }
        }
    }

    /// Returns the error of a call that may have been sent, otherwise the later one.
    private static func graver(_ first: UpstreamError?, _ second: UpstreamError) -> UpstreamError {
        if let first, first.mayHaveBeenSent { first } else { second }
    }

    private func chosen(_ names: [String]) -> [Member] {
        guard !names.isEmpty else { return members }
        return names.compactMap { name in members.first { $0.name == name } }
    }

    private func secondsUntilOneCanLeave(
        _ chosen: [Member],
        for account: Identifier? = nil
    ) -> Int? {
        var shortest: Duration?
        for member in chosen {
            guard let wait = member.breaker.wait(for: account) else { return nil }
            shortest = min(shortest ?? wait, wait)
        }
        return shortest.map { max(1, $0.secondsRoundedUp) }
    }
}
