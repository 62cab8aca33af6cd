import SanguineModel

/// Devices, and the tokens of their sessions.
///
/// Invariants:
///
/// 1. A refresh token gets one successor; coming again after that was used, it ends its family.
/// 2. There are at most ``TestingLimits/tokens`` of each kind.
struct AuthoritySessions: Sendable {
    /// What is said of an access token.
    enum Verdict {
        case valid(Identifier)
        case expired
        case unknown
    }

    private struct Access {
        let number: UInt64
        let family: UInt64
        let account: Identifier
        var expiresAt: Timestamp
    }

    private struct Refresh {
        let number: UInt64
        let family: UInt64
        let account: Identifier
        var successor: Session?
        var rotatedAt: Timestamp?
    }

    /// How long an access token is valid.
    static let life = Duration.seconds(900)
    /// How long a rotated refresh token still gets its unused successor.
    static let grace = Duration.seconds(60)

    private(set) var devices: [String: (secret: String, account: Identifier)] = [:]
    private var access: [String: Access] = [:]
    private var refreshes: [String: Refresh] = [:]
    private var lastNumber: UInt64 = 0

    // MARK: - Signing in

    /// Whether the secret is that of the device, or the device is new.
    func accepts(_ secret: String, of device: String) -> Bool {
        devices[device].map { $0.secret == secret } ?? true
    }

    /// Signs a device in to an account.
    mutating func signIn(
        _ device: GuestRequest,
        to account: Identifier,
        at now: Timestamp
    ) -> Session {
        devices[device.deviceId] = (device.deviceSecret, account)
        return makeSession(for: account, family: lastNumber + 1, at: now)
    }

    /// A session of no device.
    mutating func makeSession(for account: Identifier, at now: Timestamp) -> Session {
        makeSession(for: account, family: lastNumber + 1, at: now)
    }

    /// Rotates a refresh token.
    mutating func refresh(_ token: String, at now: Timestamp) -> Result<Session, Problem> {
        guard let known = refreshes[token] else {
            return .failure(Problem(.refreshInvalid, "Sign in again."))
        }
        if let successor = known.successor {
            let isUnused = refreshes[successor.refreshToken]?.successor == nil
            let isFresh = known.rotatedAt.map { now <= $0 + Self.grace } ?? false
            if isUnused, isFresh, refreshes[successor.refreshToken] != nil {
                return .success(successor)
            }
            end(family: known.family)
            return .failure(Problem(.refreshReused, "Sign in again: the token was used before."))
        }
        let successor = makeSession(for: known.account, family: known.family, at: now)
        refreshes[token]?.successor = successor
        refreshes[token]?.rotatedAt = now
        return .success(successor)
    }

    private mutating func makeSession(
        for account: Identifier,
        family: UInt64,
        at now: Timestamp
    ) -> Session {
        lastNumber += 1
        let session = Session(
            accessToken: "access-\(lastNumber)",
            expiresIn: Int(Self.life.components.seconds),
            refreshToken: "refresh-\(lastNumber)"
        )
        access[session.accessToken] = Access(
            number: lastNumber,
            family: family,
            account: account,
            expiresAt: now + Self.life
        )
        refreshes[session.refreshToken] = Refresh(
            number: lastNumber,
            family: family,
            account: account
        )
        forgetOldest()
        return session
    }

    private mutating func forgetOldest() {
        if access.count > TestingLimits.tokens {
            let oldest = access.min { $0.value.number < $1.value.number }
            if let oldest { access[oldest.key] = nil }
        }
        if refreshes.count > TestingLimits.tokens {
            let oldest = refreshes.min { $0.value.number < $1.value.number }
            if let oldest { refreshes[oldest.key] = nil }
        }
    }

    // MARK: - Judging and ending

    /// Whose an access token is.
    func verdict(on token: String, at now: Timestamp) -> Verdict {
        guard let known = access[token] else { return .unknown }
        return now < known.expiresAt ? .valid(known.account) : .expired
    }

    /// Makes every access token expire.
    mutating func expire(at now: Timestamp) {
        for token in access.keys { access[token]?.expiresAt = now }
    }

    /// Ends the session of an access token.
    mutating func end(_ token: String) {
        if let family = access[token]?.family { end(family: family) }
    }

    /// Ends all sessions.
    mutating func endAll() {
        access = [:]
        refreshes = [:]
    }

    private mutating func end(family: UInt64) {
        access = access.filter { $0.value.family != family }
        refreshes = refreshes.filter { $0.value.family != family }
    }
}
