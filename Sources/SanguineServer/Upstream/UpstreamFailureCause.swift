import SanguineAuthority
import SanguineModel

/// The cause of a failed upstream call. The table determines the consequences:
///
/// | cause | response | asks the next | counts |
/// |---|---|---|---|
/// | ``caller``: the request is invalid | 422 `upstream_refused` | no | no |
/// | ``settings``: unknown model, URL or parameter | 502 | yes | no |
/// | ``credentials``: key, permission, credit | 502 | yes | for the account |
/// | ``upstream``: it failed, is busy, or is unreadable | 502 | yes | for the account |
/// | ``silence``: it did not answer in time | 504 | yes | for the account |
/// | ``connection``: it cannot be reached | 502 or 504 | yes | in full |
/// | ``limit``: the answer is too long | 502 | no | no |
/// | ``unattributed``: the call was cancelled, or not sent | depends on the error | no | no |
///
/// 502 is `upstream_failed`, 504 `upstream_timeout`. An error of the caller is returned with the
/// upstream's message, and another upstream would report the same. An upstream that refuses the
/// settings of one function may still serve others. "For the account" is a failure seen by this
/// account, which by itself only blocks this account from the upstream. Silence counts if it lasts
/// for ``Upstreams/fairSilence``. No account can cause a failure to connect.
///
/// Nothing is charged unless parts of an answer were received.
enum UpstreamFailureCause: String, Hashable, Sendable, CaseIterable {
    case caller, settings, credentials, upstream, silence, connection, limit, unattributed

    /// The way a failure counts against the upstream.
    enum Count: String, Hashable, Sendable {
        /// Not at all.
        case nothing
        /// As a failure of one account, which by itself only blocks this account from the upstream.
        case ofAccount
        /// As a failure that no account can cause.
        case full
    }

    /// Whether the next upstream is asked.
    var fallsBack: Bool {
        switch self {
        case .caller, .limit, .unattributed: false
        case .settings, .credentials, .upstream, .silence, .connection: true
        }
    }

    /// The way the failure counts against the upstream.
    var count: Count {
        switch self {
        case .caller, .settings, .limit, .unattributed: .nothing
        case .credentials, .upstream, .silence: .ofAccount
        case .connection: .full
        }
    }
}

extension UpstreamFailureCause {
    /// Determines the cause of an error.
    ///
    /// - Parameters:
    ///   - error: The error.
    ///   - couldNotConnect: Whether no connection was established in time.
    init(_ error: UpstreamError, couldNotConnect: Bool = false) {
        switch error {
        case .refused(let refusal): self.init(refusal)
        case .timeout: self = couldNotConnect ? .connection : .silence
        case .failed(let mayHaveBeenSent): self = mayHaveBeenSent ? .upstream : .connection
        case .unfinished, .unreadable: self = .upstream
        case .tooLarge: self = .limit
        case .cancelled, .unavailable, .videoUnreadable, .noFrames: self = .unattributed
        }
    }

    /// Determines the cause of a refusal: by its code, otherwise by its status.
    ///
    /// The type is only used if the status is unspecific.
    init(_ refusal: UpstreamRefusal) {
        let code = refusal.reason.code.map(Self.word)
        if let code, Self.parameters.contains(code) {
            self = refusal.isOfCallersRequest ? .caller : .settings
        } else if let code, let known = Self.words[code] {
            self = known
        } else if (400...499).contains(refusal.status) {
            self = Self.statuses[refusal.status] ?? .caller
        } else if let type = refusal.reason.type, let known = Self.words[Self.word(type)] {
            self = known
        } else {
            self = .upstream
        }
    }

    /// Statuses below 500 that the caller's request does not cause.
    static let statuses: [Int: UpstreamFailureCause] = [
        401: .credentials, 402: .credentials, 403: .credentials, 404: .settings, 405: .settings,
        407: .credentials, 408: .upstream, 421: .upstream, 425: .upstream, 429: .upstream,
    ]

    /// Codes and types of OpenAI, Azure, Anthropic, Google and similar servers, in lowercase and
    /// without `_`, `-` and spaces.
    static let words: [String: UpstreamFailureCause] = {
        var words: [String: UpstreamFailureCause] = [:]
        for word in [
            "contextlengthexceeded", "stringabovemaxlength", "invalidprompt", "invalidrequesterror",
            "invalidrequest", "badrequesterror", "badrequest", "contentfilter",
            "contentpolicyviolation", "moderationblocked", "requesttoolarge", "invalidimage",
            "imagetoolarge", "invalidargument", "invalidvalue", "unprocessableentityerror",
            "responsibleaipolicyviolation", "maxtokensexceeded", "contextwindowexceedederror",
        ] { words[word] = .caller }
        for word in ["modelnotfound", "deploymentnotfound", "notfounderror", "modelnotactive"] {
            words[word] = .settings
        }
        for word in [
            "invalidapikey", "incorrectapikey", "authenticationerror", "permissionerror",
            "permissiondenied", "unauthenticated", "insufficientquota", "billinghardlimitreached",
            "billingnotactive", "billingerror", "accountdeactivated", "insufficientcredits",
        ] { words[word] = .credentials }
        for word in [
            "ratelimitexceeded", "ratelimiterror", "overloadederror", "overloaded", "servererror",
            "apierror", "internalservererror", "internalerror", "timeouterror",
            "resourceexhausted", "serviceunavailable", "unavailable", "slowdown",
        ] { words[word] = .upstream }
        return words
    }()

    /// Codes about a member of the request, which its author caused.
    private static let parameters: Set = [
        "unsupportedparameter", "unknownparameter", "unsupportedvalue", "missingrequiredparameter",
    ]

    private static func word(_ text: String) -> String {
        text.lowercased().filter { $0 != "_" && $0 != "-" && $0 != " " }
    }
}

/// The result of an attempt at an upstream, based on ``UpstreamFailureCause``.
struct UpstreamJudgement: Sendable {
    /// The outcome in metrics.
    let outcome: UpstreamReports.Outcome
    /// Whether the next upstream is asked.
    let fallsBack: Bool
    /// The verdict for the upstream's breaker.
    let verdict: BreakerState.Verdict

    init(
        _ result: UpstreamClient.Outcome,
        _ progress: AttemptProgress,
        _ configuration: UpstreamConfiguration
    ) {
        guard case .failure(let error) = result else {
            (outcome, fallsBack, verdict) = (.answered, false, .success)
            return
        }
        let blame = UpstreamFailureCause(error, couldNotConnect: progress.couldNotConnect)
        outcome = UpstreamReports.Outcome(error)
        fallsBack = blame.fallsBack
        switch blame.count {
        case .nothing: verdict = .nothing
        case .full: verdict = .unreachable
        case .ofAccount:
            let fair = min(Upstreams.fairSilence, configuration.timeout)
            let isUnfair = blame == .silence && !(progress.isSent && progress.silence >= fair)
            verdict = isUnfair ? .nothing : .failure(pause: error.pause)
        }
    }
}

extension UpstreamReports.Outcome {
    /// The outcome of an error in metrics.
    fileprivate init(_ error: UpstreamError) {
        switch error {
        case .refused: self = .refused
        case .timeout: self = .timeout
        case .failed, .unfinished: self = .failed
        case .unreadable: self = .unreadable
        case .tooLarge: self = .tooLarge
        case .cancelled, .unavailable, .videoUnreadable, .noFrames: self = .cancelled
        }
    }
}

extension UpstreamError {
    /// The pause that the upstream requests from all callers, with the status of a busy server (RFC
    /// 6585; RFC 9110; 529 is Anthropic's).
    fileprivate var pause: Duration? {
        guard case .refused(let refusal) = self, [429, 503, 529].contains(refusal.status) else {
            return nil
        }
        return refusal.retryAfter
    }
}

extension Problem {
    /// Creates the problem for the caller if no upstream answered.
    ///
    /// It contains the upstream's message only if the client can correct the request with it.
    init(upstream error: UpstreamError) {
        switch error {
        case .timeout: self = .upstreamTooSlow
        case .refused(let refusal) where UpstreamFailureCause(refusal) == .caller:
            self.init(
                .upstreamRefused,
                "Change the request as the upstream requires, then send it with a new key."
            )
            upstream = refusal.reason
        case .refused(let refusal):
            self = .upstreamFailed
            if let seconds = refusal.retryAfterSeconds { retryAfter = Self.reported(seconds) }
        case .unavailable(let seconds):
            self.init(
                .overloaded,
                "No upstream accepts calls; nothing was charged. Call again after 'Retry-After'.",
                retryAfter: Self.reported(seconds)
            )
        case .videoUnreadable:
            self.init(
                .invalidContent,
                "Send another video: no frames can be extracted from this one."
            )
        case .failed, .unfinished, .unreadable, .tooLarge, .cancelled, .noFrames:
            self = .upstreamFailed
        }
    }

    private static func reported(_ seconds: Int) -> Int {
        max(1, min(seconds, CallRunner.longestRetryAfter))
    }
}
