import SanguineAuthority
import SanguineModel

/// The cause of a call that an upstream did not answer, and its consequences: the one table by
/// which calls fail.
///
/// | cause | answer | asks the next | counts |
/// |---|---|---|---|
/// | ``caller``: the request is at fault | 422 `upstream_refused` | no | no |
/// | ``settings``: no such model, address or parameter | 502 | yes | no |
/// | ``credentials``: key, permission, credit | 502 | yes | for the account |
/// | ``upstream``: it failed, is busy, or is unreadable | 502 | yes | for the account |
/// | ``silence``: it did not answer in time | 504 | yes | for the account |
/// | ``connection``: it cannot be reached | 502 or 504 | yes | in full |
/// | ``limit``: the answer is too long | 502 | no | no |
/// | ``nobody``: the caller gave up, or no upstream was asked | by the error | no | no |
///
/// 502 is `upstream_failed`, 504 `upstream_timeout`. What the caller caused has the upstream's
/// words, and the next upstream would say the same. Other functions may use an upstream that
/// refuses the settings of one. "For the account" is a failure that this account saw: alone it
/// keeps only this account from the upstream. Silence counts from ``Upstreams/fairSilence`` on. No
/// account can cause a connection that cannot be made.
///
/// Nothing is charged unless parts of an answer came first.
enum UpstreamBlame: String, Hashable, Sendable, CaseIterable {
    case caller, settings, credentials, upstream, silence, connection, limit, nobody

    /// What a failure counts against the upstream.
    enum Count: String, Hashable, Sendable {
        /// Nothing.
        case nothing
        /// A failure that one account saw: alone it keeps only this account from the upstream.
        case ofAccount
        /// A failure that no account can cause.
        case full
    }

    /// Whether the next upstream is asked.
    var fallsBack: Bool {
        switch self {
        case .caller, .limit, .nobody: false
        case .settings, .credentials, .upstream, .silence, .connection: true
        }
    }

    /// What it counts against the upstream.
    var count: Count {
        switch self {
        case .caller, .settings, .limit, .nobody: .nothing
        case .credentials, .upstream, .silence: .ofAccount
        case .connection: .full
        }
    }
}

extension UpstreamBlame {
    /// The cause of an error.
    ///
    /// - Parameters:
    ///   - error: The error.
    ///   - couldNotConnect: Whether no connection was made within the time.
    init(_ error: UpstreamError, couldNotConnect: Bool = false) {
        switch error {
        case .refused(let refusal): self.init(refusal)
        case .timeout: self = couldNotConnect ? .connection : .silence
        case .failed(let mayHaveBeenSent): self = mayHaveBeenSent ? .upstream : .connection
        case .unfinished, .unreadable: self = .upstream
        case .tooLarge: self = .limit
        case .cancelled, .unavailable, .videoUnreadable, .noFrames: self = .nobody
        }
    }

    /// The cause of a refusal: by its code, otherwise by its status, and by its type only where
    /// the status says no more than that something failed.
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

    /// Statuses below 500 that are no fault of the caller's request.
    static let statuses: [Int: UpstreamBlame] = [
        401: .credentials, 402: .credentials, 403: .credentials, 404: .settings, 405: .settings,
        407: .credentials, 408: .upstream, 421: .upstream, 425: .upstream, 429: .upstream,
    ]

    /// Codes and types of OpenAI, Azure, Anthropic, Google and servers like theirs, in lower case
    /// and without `_`, `-` and spaces.
    static let words: [String: UpstreamBlame] = {
        var words: [String: UpstreamBlame] = [:]
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

    /// Codes that speak of a member of the request: the fault of its author.
    private static let parameters: Set = [
        "unsupportedparameter", "unknownparameter", "unsupportedvalue", "missingrequiredparameter",
    ]

    private static func word(_ text: String) -> String {
        text.lowercased().filter { $0 != "_" && $0 != "-" && $0 != " " }
    }
}

/// The end of an attempt at an upstream, judged by ``UpstreamBlame``.
struct UpstreamJudgement: Sendable {
    /// What metrics call it.
    let outcome: UpstreamReports.Outcome
    /// Whether the next upstream is asked.
    let fallsBack: Bool
    /// What it counts for the upstream's breaker.
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
        let blame = UpstreamBlame(error, couldNotConnect: progress.couldNotConnect)
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
    /// What metrics call an error.
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
    /// The pause that the upstream asks all callers for: with the statuses of a server that
    /// is busy (RFC 6585; RFC 9110; 529 is Anthropic's).
    fileprivate var pause: Duration? {
        guard case .refused(let refusal) = self, [429, 503, 529].contains(refusal.status) else {
            return nil
        }
        return refusal.retryAfter
    }
}

extension Problem {
    /// The answer to the caller when an upstream gave none: the upstream's words only where
    /// the client can change the request by them.
    init(upstream error: UpstreamError) {
        switch error {
        case .timeout: self = .upstreamTooSlow
        case .refused(let refusal) where UpstreamBlame(refusal) == .caller:
            self.init(
                .upstreamRefused,
                "Change the request as the language model asks, then send it with a new key."
            )
            upstream = refusal.reason
        case .refused(let refusal):
            self = .upstreamFailed
            if let seconds = refusal.retryAfterSeconds { retryAfter = Self.told(seconds) }
        case .unavailable(let seconds):
            self.init(
                .overloaded,
                "Nothing was charged. Wait for 'Retry-After', then send the call again.",
                retryAfter: Self.told(seconds)
            )
        case .videoUnreadable:
            self.init(
                .invalidContent,
                "Send another video: no pictures can be taken from this one."
            )
        case .failed, .unfinished, .unreadable, .tooLarge, .cancelled, .noFrames:
            self = .upstreamFailed
        }
    }

    private static func told(_ seconds: Int) -> Int {
        max(1, min(seconds, CallRunner.longestRetryAfter))
    }
}
