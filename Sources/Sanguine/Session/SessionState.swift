import SanguineModel

/// What the client knows of its session, and the only code that decides how to get a token.
///
/// At most one request for a session, a *flight*, is under way. Whoever needs a token meanwhile
/// waits for it. A flight that the user's end has overtaken lands in nothing.
///
/// A session is stored before it is used: the shell writes it between the answer and the landing.
/// It is one user's: a session of another account is not taken, and the user's scope is replaced.
///
///     none ──need──▶ signing in as guest ──▶ signed in ──expired, or rejected──▶ refreshing
///                        ▲                       ▲                                 │   │
///                        │                       └─────────────────────────────────┘   │
///                        └───────────────────── the session has ended ─────────────────┘
///
/// After a sign-out no guest is made before the app asks for something that needs an account:
/// screens that still observe would sign the user in again, and store again what was just removed.
///
/// The server's word counts, not the clock's: a token that seems alive and is rejected is
/// refreshed, and the clock only saves the rejection.
///
/// Invariants, checked by ``checkInvariants()`` after every event in debug builds:
///
/// 1. A flight refreshes only a session that is there, with that session's refresh token.
/// 2. The account is the session's, if there is a session, and never another one.
struct SessionState: Sendable {
    /// What a caller who needs a token must do.
    enum Need: Hashable, Sendable {
        /// Use this token.
        case use(String)
        /// Wait for the flight that is under way.
        case wait(flight: Int)
        /// Start the flight, then wait for it.
        case start(Request, flight: Int)
        /// Ask for nothing: the user has signed out, and the app has asked for nothing since.
        case refuse
    }

    /// The request that a flight makes.
    enum Request: Hashable, Sendable {
        /// `POST /v1/accounts/guest` with the device's identity.
        case guest
        /// `POST /v1/sessions/refresh` with this refresh token.
        case refresh(String)
    }

    /// What the landing of a flight means.
    enum Landing: Hashable, Sendable {
        /// Give out the session's token; the account may have become known.
        case signedIn(isFirst: Bool)
        /// It is another account's: another user is there.
        case otherAccount
        /// Fly on with this request.
        case goOn(Request)
        /// Refuse the callers: the flight's error is theirs.
        case failed
        /// Refuse the callers: the user has gone meanwhile.
        case overtaken
    }

    private enum Phase: Hashable {
        case idle
        case flying(Request, flight: Int)
    }

    private(set) var session: StoredSession?
    private(set) var account: Identifier?
    private var phase = Phase.idle
    private var flights = 0
    private var isSignedOut: Bool

    /// Creates the state with the session that an earlier process left, if there is one.
    ///
    /// - Parameters:
    ///   - session: That session.
    ///   - isSignedOut: Whether the state follows a sign-out.
    init(restoring session: StoredSession? = nil, isSignedOut: Bool = false) {
        self.session = session
        self.isSignedOut = isSignedOut
        account = session?.account
    }

    /// Whether a token may be asked for, although that may make a guest.
    var maySignIn: Bool { !isSignedOut || account != nil }

    /// Allows a guest to be made: the app has asked for something that needs an account.
    mutating func allowSignIn() { isSignedOut = false }

    /// Someone needs a token.
    mutating func need(at now: Timestamp) -> Need {
        defer { checkInvariants() }
        if case .flying(_, let flight) = phase {
            // While a session that still lives is refreshed ahead of time, nobody has to wait.
            if let session, !session.isExpired(at: now), !session.isRejected {
                return .use(session.accessToken)
            }
            return .wait(flight: flight)
        }
        guard let session else { return maySignIn ? start(.guest) : .refuse }
        guard session.isExpiring(at: now) || session.isRejected else {
            return .use(session.accessToken)
        }
        return start(.refresh(session.refreshToken))
    }

    /// The server has rejected an access token.
    ///
    /// One that was replaced meanwhile means nothing.
    mutating func rejected(_ token: String, at now: Timestamp) -> Need {
        if session?.accessToken == token { session?.isRejected = true }
        return need(at: now)
    }

    /// Whether the flight is under way.
    ///
    /// Only then may its session be stored.
    func isCurrent(_ flight: Int) -> Bool {
        guard case .flying(_, flight) = phase else { return false }
        return true
    }

    /// The flight brought a session, and it is stored: it may be used from now on.
    mutating func landed(_ new: StoredSession, flight: Int) -> Landing {
        defer { checkInvariants() }
        guard isCurrent(flight) else { return .overtaken }
        phase = .idle
        guard account == nil || account == new.account else { return .otherAccount }
        defer { account = new.account }
        session = new
        return .signedIn(isFirst: account == nil)
    }

    /// The flight's request failed, after its retries.
    ///
    /// - Parameters:
    ///   - code: The server's reason; `nil` if it gave none.
    ///   - flight: Which flight.
    /// - Returns: What to do now.
    mutating func failed(_ code: ProblemCode?, flight: Int) -> Landing {
        defer { checkInvariants() }
        guard isCurrent(flight), case .flying(let request, _) = phase else { return .overtaken }
        if case .refresh = request, let code, Self.endings.contains(code) {
            // The device's secret signs the same guest in again, without a word to the user. The
            // account is kept, and what is cached with it.
            session = nil
            phase = .flying(.guest, flight: flight)
            return .goOn(.guest)
        }
        phase = .idle
        return .failed
    }

    /// The user is gone: from now on nothing of them is given out or taken in.
    ///
    /// - Returns: The session to end on the server, if there was one.
    mutating func end() -> StoredSession? {
        defer { (session, phase) = (nil, .idle) }
        return session
    }

    /// Reasons of the server after which no refresh will ever succeed.
    private static let endings: Set<ProblemCode> = [
        .refreshReused, .refreshInvalid, .sessionEnded, .unauthenticated,
    ]

    private mutating func start(_ request: Request) -> Need {
        flights += 1
        phase = .flying(request, flight: flights)
        return .start(request, flight: flights)
    }

    func checkInvariants() {
        if case .flying(.refresh(let token), _) = phase {
            assert(session?.refreshToken == token, "A refresh of another session is under way.")
        }
        if let session { assert(account == session.account) }
    }
}
