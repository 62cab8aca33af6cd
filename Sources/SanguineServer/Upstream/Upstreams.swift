import SanguineAuthority
public import SanguineModel

/// An upstream with the name by which settings, metrics and functions speak of it.
public struct NamedUpstream: Sendable {
    /// The name.
    public let name: String
    /// What calls it.
    public let client: UpstreamClient

    /// Names an upstream.
    public init(_ name: String, _ client: UpstreamClient) {
        self.name = name
        self.client = client
    }
}

/// What is told of calls of upstreams, for metrics and logs; nothing of their content.
///
/// The closures are called at once, on any thread, and must not wait.
public struct UpstreamReports: Sendable {
    /// How an attempt at one upstream ended.
    public enum Outcome: String, Hashable, Sendable, CaseIterable {
        /// With a whole answer.
        case answered
        /// With a status other than 200, or an error in the stream.
        case refused
        /// With its time.
        case timeout
        /// With a connection that could not be made, or broke.
        case failed
        /// With an answer that is none.
        case unreadable
        /// With an answer that is too long.
        case tooLarge
        /// With the caller, who gave up.
        case cancelled
    }

    /// An upstream's breaker has come to another phase: the upstream's name, and the phase.
    ///
    /// Two changes at once may be told in either order; ``Upstreams/phases`` is the present.
    public var breakerChanged: @Sendable (String, BreakerPhase) -> Void = { _, _ in }
    /// An attempt has ended: the upstream's name, how, and the time to the first byte of the
    /// answer, if one came.
    public var attempt: @Sendable (String, Outcome, Duration?) -> Void = { _, _, _ in }

    /// An upstream has refused a parameter and taken another one, or none: the upstream's name, and
    /// the settings that say so.
    public var learned: @Sendable (String, String) -> Void = { _, _ in }
    /// An attempt has failed: the upstream's name, and why.
    public var failed: @Sendable (String, UpstreamError) -> Void = { _, _ in }

    /// Creates reports to nobody.
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
/// Each upstream has a circuit breaker. One that takes no calls is passed over; one that fails is
/// followed by the next, unless the request is at fault or the answer is too long. An account whose
/// own calls fail at an upstream is kept out of it, and no other.
///
/// The `Retry-After` or `retry-after-ms` of a 429, 503 or 529 pauses the upstream, for five minutes
/// at most.
///
/// A call falls back even where the failed upstream may have done the work and may bill for it: the
/// caller waits for an answer, and is charged once, for the answer that came. What the operator
/// may pay twice is bounded by the number of upstreams. But nothing falls back once a piece was
/// given to `onEvent`: another model's words would follow the first one's.
public struct Upstreams: Sendable {
    /// How long an upstream must have been silent for a timeout to count against it, if its own
    /// timeout is not shorter still.
    ///
    /// A caller who gives a call no time would otherwise close the upstream for all.
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
    ///   - clock: The clock of timeouts and breakers, which is the clients' too.
    ///   - random: A number from 0 to 1, which varies the time for which a breaker is open.
    ///   - reports: What is told of calls.
    public init(
        _ upstreams: [NamedUpstream],
        clock: any Clock<Duration> = ContinuousClock(),
        random: @escaping @Sendable () -> Double = { .random(in: 0...1) },
        reports: UpstreamReports = UpstreamReports()
    ) {
        self.init(upstreams, frames: nil, clock: clock, random: random, reports: reports)
    }

    /// Creates a pool with what makes pictures of videos, for upstreams that take no others.
    init(
        _ upstreams: [NamedUpstream],
        frames: FrameSampler?,
        clock: any Clock<Duration> = ContinuousClock(),
        random: @escaping @Sendable () -> Double = { .random(in: 0...1) },
        reports: UpstreamReports = UpstreamReports()
    ) {
        precondition(
            Set(upstreams.map(\.name)).count == upstreams.count,
            "Each upstream has a name of its own."
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

    /// Why no call can leave now, or `nil` if one can.
    ///
    /// - Parameters:
    ///   - names: The upstreams in question, in order. Default: all. Names that are not known are
    ///     passed over.
    ///   - account: The account that calls; it is kept out if its calls fail. Default: no account
    ///     in particular.
    /// - Returns: `upstream_missing` if there is none, `overloaded` with the seconds until one may
    ///   take a call.
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
            "The language model has failed lately. Call again in \(seconds) s.",
            retryAfter: seconds
        )
    }

    /// Runs one request.
    ///
    /// - Parameters:
    ///   - request: What is asked.
    ///   - names: The upstreams that may be asked, in order. Default: all.
    ///   - account: Who asks: accounts take turns where pictures are made of videos, and one whose
    ///     calls fail is kept out. Default: no account in particular.
    ///   - timeout: The time for the whole, with the wait for a connection and all fall-backs. Each
    ///     attempt gets what is left; one in one piece, at most its upstream's own timeout.
    ///   - silence: The longest time for which a streamed answer may pause, at most its upstream's
    ///     own timeout. Default: that timeout.
    ///   - streamed: Whether the answer comes in pieces. Default: no. Embeddings never do.
    ///   - onEvent: Takes each piece; nothing more is read before it returns.
    /// - Returns: The whole answer.
    /// - Throws: ``UpstreamError``: `unavailable` if no upstream takes calls, otherwise why the
    ///   last one that was asked failed, or an earlier one if that alone may have done work.
    public func answer(
        _ request: UpstreamRequest,
        among names: [String] = [],
        for account: Identifier? = nil,
        within timeout: Duration,
        silence: Duration? = nil,
        streamed: Bool = false,
        onEvent: @escaping @Sendable (UpstreamEvent) async -> Void = { _ in }
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
            let progress = member.client.progress()
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

    /// What a video is shown as, at most.
    ///
    /// - Parameter names: The upstreams that may be asked. Default: all.
    /// - Returns: How many pictures; one if each upstream takes the file.
    func picturesOfVideo(_ names: [String] = []) -> Int {
        guard let frames, chosen(names).contains(where: takesFrames) else { return 1 }
        return frames.count
    }

    /// Returns what distinguishes the upstreams that may be asked, in their order.
    ///
    /// - Parameter names: The upstreams that may be asked. Default: all.
    /// - Returns: Name, address, model, and how it is shown a video; no keys.
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

    /// The request as an upstream takes it: videos as pictures, which are made once.
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

    /// The error that may cost something, otherwise the later one.
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
