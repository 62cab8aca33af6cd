import SanguineModel

/// A session as the client keeps it: written to the store before any of its tokens is used.
struct StoredSession: Hashable, Codable, Sendable {
    let account: Identifier
    let accessToken: String
    let refreshToken: String
    /// When it was received, by the device's clock.
    let receivedAt: Timestamp
    /// Whole seconds that the access token lives.
    let expiresIn: Int
    /// Whether the server has rejected the access token.
    var isRejected = false
    /// The device identity that has made it, if it is a guest's; `nil` for a registered user.
    var guestDevice: String?

    init(_ session: Session, account: Identifier, at now: Timestamp) {
        self.account = account
        accessToken = session.accessToken
        refreshToken = session.refreshToken
        receivedAt = now
        expiresIn = session.expiresIn
    }

    /// Whether the access token has expired, as far as the device's clock can tell.
    func isExpired(at now: Timestamp) -> Bool { now >= receivedAt + .seconds(expiresIn) }

    /// Whether it is time to refresh: in the last ``SessionLimits/refreshAhead`` of the token's
    /// life, or the last third of a short one.
    func isExpiring(at now: Timestamp) -> Bool {
        let ahead = min(SessionLimits.refreshAhead, .seconds(expiresIn) / 3)
        return now >= receivedAt + .seconds(expiresIn) - ahead
    }
}

/// The limits and defaults of sessions.
///
/// One place, with units.
enum SessionLimits {
    /// How long before its end an access token is refreshed.
    static let refreshAhead = Duration.seconds(30)
    /// When one request for a session gives up.
    static let requestTimeout = Duration.seconds(15)
    /// How often a request for a session is sent before its callers get the error.
    static let attempts = 3
    /// When telling the server of a sign-out gives up; the sign-out itself never waits.
    static let signOutTimeout = Duration.seconds(8)
}
