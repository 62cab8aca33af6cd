import SanguineModel

/// What the client knows of its session, and the only code that decides how to get a token.
///
/// At most one request for a session, a *flight*, is under way. Whoever needs a token meanwhile
/// waits for it. A flight that a sign-out has overtaken lands in nothing.
///
/// A session is stored before it is used: the shell writes it between the answer and the landing.
/// And an epoch is told before it is used: until every part of the client has adopted the present
/// one, see ``told(_:)``, nobody gets a token, and no flight begins. So nothing is asked for in an
/// epoch by a part that still is in the one before.
///
///     none ──need──▶ signing in as guest ──▶ signed in ──expired, or rejected──▶ refreshing
///                        ▲                       ▲  │                              │   │
///                        │                       └──┼──────────────────────────────┘   │
///                        ├───────── sign-out ───────┘                                  │
///                        └───────────────────── the session has ended ─────────────────┘
///
/// The server's word counts, not the clock's: a token that seems alive and is rejected is
/// refreshed, and the clock only saves the rejection.
///
/// Invariants, checked by ``checkInvariants()`` after every event in debug builds:
///
/// 1. A flight refreshes only a session that is there, with that session's refresh token.
/// 2. The epoch's number never falls, and grows with every sign-out and change of account.
/// 3. The epoch's account is the session's, if there is a session.
struct SessionState: Sendable {
    /// What a caller who needs a token must do.
    enum Need: Hashable, Sendable {
        /// Use this token.
        case use(String)
        /// Wait for the flight that is under way.
        case wait(flight: Int)
        /// Start the flight, then wait for it.
        case start(Request, flight: Int)
        /// Ask again when the present epoch was told.
        case hold
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
        /// Give out the session's token, after telling of a change of account if there is one.
        case signedIn(otherAccount: Bool)
        /// Fly on with this request.
        case goOn(Request)
        /// Refuse the callers: the flight's error is theirs.
        case failed
        /// Refuse the callers: the user has signed out meanwhile.
        case overtaken
    }

    private enum Phase: Hashable {
        case idle
        case flying(Request, flight: Int)
    }

    private(set) var session: StoredSession?
    private(set) var epoch: SessionEpoch
    /// The epoch in which all parts of the client are known to be.
    private var toldEpoch: SessionEpoch
    private var phase = Phase.idle
    private var flights = 0

    /// Creates the state with the session that an earlier process left, if there is one.
    init(restoring session: StoredSession? = nil) {
        self.session = session
        epoch = SessionEpoch(number: 0, account: session?.account)
        toldEpoch = epoch
    }

    /// Whether all parts of the client are known to be in the present epoch.
    var isTold: Bool { toldEpoch == epoch }

    /// All parts of the client have adopted the epoch, or one that came after it.
    mutating func told(_ epoch: SessionEpoch) {
        // Of two that are told at the same time the later one counts, and the one that knows more.
        guard
            (toldEpoch.number, toldEpoch.account == nil ? 0 : 1)
                <= (epoch.number, epoch.account == nil ? 0 : 1)
        else { return }
        toldEpoch = epoch
    }

    /// Someone needs a token.
    mutating func need(at now: Timestamp) -> Need {
        defer { checkInvariants() }
        guard isTold else { return .hold }
        if case .flying(_, let flight) = phase {
            // While a session that still lives is refreshed ahead of time, nobody has to wait.
            if let session, !session.isExpired(at: now), !session.isRejected {
                return .use(session.accessToken)
            }
            return .wait(flight: flight)
        }
        guard let session else { return start(.guest) }
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

    /// Whether a sign-out has not overtaken the flight.
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
        let isOther = epoch.account != nil && epoch.account != new.account
        epoch = SessionEpoch(number: epoch.number + (isOther ? 1 : 0), account: new.account)
        session = new
        return .signedIn(otherAccount: isOther)
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
            // epoch keeps the account, so that what is cached stays.
            session = nil
            phase = .flying(.guest, flight: flight)
            return .goOn(.guest)
        }
        phase = .idle
        return .failed
    }

    /// The user signs out: from now on nothing of them is given out or taken in.
    ///
    /// Returns the session to end on the server, if there was one, and the flight that was
    /// overtaken.
    mutating func signedOut() -> (ended: StoredSession?, overtaken: Int?) {
        defer { checkInvariants() }
        defer {
            session = nil
            phase = .idle
            epoch = SessionEpoch(number: epoch.number + 1, account: nil)
        }
        guard case .flying(_, let flight) = phase else { return (session, nil) }
        return (session, flight)
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
        if let session { assert(epoch.account == session.account) }
    }
}
