import SanguineModel

/// The client's session; only this code decides how to get a token.
///
/// At most one request for a session runs at a time, and every caller that needs a token waits for
/// it. Its result is dropped if the user has ended.
///
/// A session is stored before it is used: the shell writes it between the response and
/// ``completed(_:requestNumber:)``. It belongs to one user: a session of another account is not
/// accepted, and the user's scope is replaced.
///
///     none ──need──▶ signing in as guest ──▶ signed in ──expired, or rejected──▶ refreshing
///                        ▲                       ▲                                 │   │
///                        │                       └─────────────────────────────────┘   │
///                        └───────────────────── the session has ended ─────────────────┘
///
/// A registered user's session that has ended is not replaced by a guest's: the user signs in
/// again, and keeps everything on the device until then. So does a guest who was registered, or
/// merged into an account, on another device. If the account was deleted, the data of its user or
/// guest is removed from the device instead.
///
/// After a sign-out, no guest is created until the app makes a request that needs an account.
/// Otherwise, views that are still observing would sign in again, and store data again that was
/// just removed.
///
/// The server decides, not the clock: a token that it rejects is refreshed even if it seems valid,
/// and the clock only avoids the rejection.
///
/// Invariants, checked by ``checkInvariants()`` after every event in debug builds:
///
/// 1. A refresh uses the refresh token of the existing session.
/// 2. The account is the session's, if there is a session, and never another one.
struct SessionState: Sendable {
    /// The action of a caller that needs a token.
    enum Need: Hashable, Sendable {
        /// Use this token.
        case use(String)
        /// Wait for the running request.
        case wait(requestNumber: Int)
        /// Send the request, then wait for it.
        case start(Request, requestNumber: Int)
        /// Fail: the user has signed out, and the app has made no request since.
        case refuse
        /// Fail: the session of a registered user, or of a guest who was registered on another
        /// device, has ended, and only the user can begin another one.
        case ended
    }

    /// A request for a session.
    enum Request: Hashable, Sendable {
        /// `POST /v1/accounts/guest` with the device's identity.
        case guest
        /// `POST /v1/sessions/refresh` with this refresh token.
        case refresh(String)
    }

    /// The outcome of a request for a session.
    enum RequestOutcome: Hashable, Sendable {
        /// Return the session's token; the account may have become known.
        case signedIn(isFirst: Bool)
        /// The session belongs to another account, so the user changes.
        case otherAccount
        /// Send this request next.
        case goOn(Request)
        /// Fail the callers with the request's error.
        case failed
        /// Fail the callers, and remove the user's data: the account was deleted.
        case accountDeleted
        /// Fail the callers, because the user has ended.
        case overtaken
    }

    private enum Phase: Hashable {
        case idle
        case requesting(Request, requestNumber: Int)
    }

    private(set) var session: StoredSession?
    private(set) var account: Identifier?
    private var phase = Phase.idle
    private var lastRequest = 0
    private var isSignedOut: Bool
    /// Whether the guest was registered, or merged into an account, which the device's secret does
    /// not open.
    private(set) var isRegisteredElsewhere = false
    private let followsSignOut: Bool

    /// Creates the state with the session that an earlier process left, if there is one.
    ///
    /// - Parameters:
    ///   - session: The session.
    ///   - isSignedOut: Whether the state follows a sign-out.
    init(restoring session: StoredSession? = nil, isSignedOut: Bool = false) {
        self.session = session
        self.isSignedOut = isSignedOut
        followsSignOut = isSignedOut
        account = session?.account
    }

    /// Whether another user has signed out on this device, and no user has signed in since.
    ///
    /// An account that the device's secret opens then is not a guest's but the former user's.
    var hasNoUserYet: Bool { followsSignOut && account == nil }

    /// Whether a token may be requested, although this may create a guest.
    var maySignIn: Bool { !isSignedOut || account != nil }

    /// Whether the next request would be one for a guest.
    var mayCreateGuest: Bool {
        session == nil && phase == .idle && maySignIn && !isRegisteredElsewhere
    }

    /// Whether only the user's credentials begin another session.
    var needsSignIn: Bool { isRegisteredElsewhere || session?.hasEnded ?? false }

    /// Whether a request for a guest is running.
    var isCreatingGuest: Bool {
        guard case .requesting(.guest, _) = phase else { return false }
        return true
    }

    /// Allows the creation of a guest, because the app has made a request that needs an account.
    mutating func allowSignIn() { isSignedOut = false }

    /// Decides how a caller gets a token.
    mutating func need(at now: Timestamp) -> Need {
        defer { checkInvariants() }
        if case .requesting(_, let requestNumber) = phase {
            // An early refresh delays no caller while the session is still valid.
            if let session, !session.isExpired(at: now), !session.isRejected {
                return .use(session.accessToken)
            }
            return .wait(requestNumber: requestNumber)
        }
        guard !needsSignIn else { return .ended }
        guard let session else { return maySignIn ? start(.guest) : .refuse }
        guard session.isExpiring(at: now) || session.isRejected else {
            return .use(session.accessToken)
        }
        return start(.refresh(session.refreshToken))
    }

    /// Records that the server has rejected an access token.
    ///
    /// A token that was replaced in the meantime is ignored.
    mutating func rejected(_ token: String, at now: Timestamp) -> Need {
        if session?.accessToken == token { session?.isRejected = true }
        return need(at: now)
    }

    /// Whether the request is running.
    ///
    /// Only then may its session be stored.
    func isCurrent(_ requestNumber: Int) -> Bool {
        guard case .requesting(_, requestNumber) = phase else { return false }
        return true
    }

    /// Completes the request with its session, which is stored and may be used.
    mutating func completed(_ new: StoredSession, requestNumber: Int) -> RequestOutcome {
        defer { checkInvariants() }
        guard isCurrent(requestNumber) else { return .overtaken }
        phase = .idle
        guard account == nil || account == new.account else { return .otherAccount }
        defer { account = new.account }
        session = new
        return .signedIn(isFirst: account == nil)
    }

    /// Replaces the session with one that the server has issued for the user's credentials.
    ///
    /// A request in progress is overtaken. The account may become another one: that of which the
    /// guest is now a part.
    mutating func adopt(_ new: StoredSession) {
        defer { checkInvariants() }
        (session, account, phase, isSignedOut) = (new, new.account, .idle, false)
        isRegisteredElsewhere = false
    }

    /// Handles a failure of the request, after its retries.
    ///
    /// - Parameters:
    ///   - code: The server's reason; `nil` if it gave none.
    ///   - requestNumber: The number of the request.
    /// - Returns: The outcome.
    mutating func failed(_ code: ProblemCode?, requestNumber: Int) -> RequestOutcome {
        defer { checkInvariants() }
        guard isCurrent(requestNumber), case .requesting(let request, _) = phase else {
            return .overtaken
        }
        if case .refresh = request, let code, Self.endings.contains(code) {
            if code == .accountDeleted || session?.isRegistered == true {
                // The device's secret would sign in another account.
                session?.isEnded = true
                phase = .idle
                return code == .accountDeleted ? .accountDeleted : .failed
            }
            // The device's secret signs the same guest in again, without any interaction. The
            // account and its cached values are kept.
            session = nil
            phase = .requesting(.guest, requestNumber: requestNumber)
            return .goOn(.guest)
        }
        if request == .guest, code == .guestRegistered { isRegisteredElsewhere = true }
        phase = .idle
        return .failed
    }

    /// Ends the user: no token is returned and no result is accepted afterwards.
    ///
    /// - Returns: The session to end on the server, if there was one.
    mutating func end() -> StoredSession? {
        defer { (session, phase) = (nil, .idle) }
        return session
    }

    /// The server's reasons that no later refresh can overcome.
    private static let endings: Set<ProblemCode> = [
        .refreshReused, .refreshInvalid, .sessionEnded, .unauthenticated, .attestationFailed,
        .accountDeleted,
    ]

    private mutating func start(_ request: Request) -> Need {
        lastRequest += 1
        phase = .requesting(request, requestNumber: lastRequest)
        return .start(request, requestNumber: lastRequest)
    }

    func checkInvariants() {
        if case .requesting(.refresh(let token), _) = phase {
            assert(session?.refreshToken == token, "A refresh of another session is under way.")
        }
        if let session { assert(account == session.account) }
    }
}
