import SanguineModel

/// A session in its stored form; it is written before any of its tokens is used.
struct StoredSession: Hashable, Codable, Sendable {
    let account: Identifier
    let accessToken: String
    let refreshToken: String
    /// The time at which it was received, by the device's clock.
    let receivedAt: Timestamp
    /// The lifetime of the access token in whole seconds.
    let expiresIn: Int
    /// Whether the server has rejected the access token.
    var isRejected = false
    /// The device identity that has created it, if it is a guest's; `nil` for a registered user.
    var guestDevice: String?
    /// Whether the user is registered, so that only credentials begin another session: the server
    /// does not accept the device's secret after it has ended one.
    var isRegistered: Bool?
    /// The guest that has become a part of the account, if the user of the session was that guest.
    var mergedFrom: Identifier?
    /// Whether the server has ended it.
    var isEnded: Bool?

    init(_ session: Session, account: Identifier, at now: Timestamp) {
        self.account = account
        accessToken = session.accessToken
        refreshToken = session.refreshToken
        receivedAt = now
        expiresIn = session.expiresIn
    }

    /// Creates the session of an answer to the user's credentials, or to the secret of the device.
    init(_ answer: SignedIn, device: String?, at now: Timestamp) {
        self.init(answer.session, account: answer.account.id, at: now)
        if answer.account.kind == .guest {
            guestDevice = device
        } else {
            isRegistered = true
        }
        mergedFrom = answer.merged?.from
    }

    /// Whether the server has ended it, so that the user must sign in.
    var hasEnded: Bool { isEnded ?? false }

    /// Returns whether the access token has expired according to the device's clock.
    func isExpired(at now: Timestamp) -> Bool { now >= receivedAt + .seconds(expiresIn) }

    /// Returns whether it is time to refresh: in the last ``SessionLimits/refreshAhead`` of the
    /// token's lifetime, or in the last third of a short one.
    func isExpiring(at now: Timestamp) -> Bool {
        let ahead = min(SessionLimits.refreshAhead, .seconds(expiresIn) / 3)
        return now >= receivedAt + .seconds(expiresIn) - ahead
    }
}

/// The limits and defaults of sessions.
///
/// Every limit is declared here, with its unit.
enum SessionLimits {
    /// The time before its expiry at which an access token is refreshed.
    static let refreshAhead = Duration.seconds(30)
    /// The timeout of one request for a session.
    static let requestTimeout = Duration.seconds(15)
    /// The number of attempts for a request for a session.
    static let attempts = 3
    /// The time that ``SanguineClient/Configuration/appTransaction`` may take before a guest is
    /// created without it.
    static let proofTimeout = Duration.seconds(5)
    /// The time that a method of ``SanguineClient/Configuration/deviceAttestor`` may take.
    static let attestationTimeout = Duration.seconds(40)
    /// The longest wait before a guest is requested again, even if the server asks for more.
    static let guestPause = Duration.seconds(3_600)
    /// The timeout of an export's first bytes.
    static let exportTimeout = Duration.seconds(60)
    /// The timeout of the request that ends a session; the sign-out itself does not wait for it.
    static let signOutTimeout = Duration.seconds(8)
}
