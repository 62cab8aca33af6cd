/// A signed-in device, as `GET /v1/sessions` lists it.
public struct SessionInfo: Hashable, Codable, Sendable {
    /// The session's id.
    public var id: Identifier
    /// The name that the device gave at sign-in; `nil` if it gave none.
    public var deviceName: String?
    /// The time of the sign-in.
    public var createdAt: Timestamp
    /// The time of the sign-in or of the last refresh.
    public var lastUsedAt: Timestamp
    /// Whether the request was sent with a token of this session.
    public var isCurrent: Bool

    /// Creates the description.
    public init(
        id: Identifier,
        deviceName: String? = nil,
        createdAt: Timestamp,
        lastUsedAt: Timestamp,
        isCurrent: Bool = false
    ) {
        self.id = id
        self.deviceName = deviceName
        self.createdAt = createdAt
        self.lastUsedAt = lastUsedAt
        self.isCurrent = isCurrent
    }
}

/// A code that a second device redeems to share the account of the first one.
public struct MoveCode: Hashable, Codable, Sendable {
    /// Ten letters and digits, without those that look alike.
    public var code: String
    /// The time after which it is not valid.
    public var expiresAt: Timestamp

    /// Creates the response.
    public init(code: String, expiresAt: Timestamp) {
        self.code = code
        self.expiresAt = expiresAt
    }
}

/// The body of `POST /v1/sessions/codes/redeem`.
public struct RedeemRequest: Hashable, Codable, Sendable {
    /// The code; case, blanks and hyphens do not matter.
    public var code: String
    /// The id of the new device, 16 to 128 characters.
    public var deviceId: String
    /// 32 random bytes in base64url, without padding, which prove the identity of the device.
    public var deviceSecret: String
    /// The name of the device for the list of sessions, 1 to 64 characters.
    public var deviceName: String?

    /// Creates the body.
    public init(code: String, deviceId: String, deviceSecret: String, deviceName: String? = nil) {
        self.code = code
        self.deviceId = deviceId
        self.deviceSecret = deviceSecret
        self.deviceName = deviceName
    }
}

/// The body of `POST /v1/sessions/codes`.
public struct MoveCodeRequest: Hashable, Codable, Sendable {
    /// The newest refresh token of the session, as proof that the user's device asks.
    ///
    /// Not needed within ten minutes of a sign-in.
    public var refreshToken: String?

    /// Creates the body.
    public init(refreshToken: String? = nil) { self.refreshToken = refreshToken }
}

/// The body of `DELETE /v1/account`.
public struct DeletionRequest: Hashable, Codable, Sendable {
    /// The newest refresh token of the session, as proof that the user's device asks.
    ///
    /// Not needed within ten minutes of a sign-in.
    public var refreshToken: String?

    /// Creates the body.
    public init(refreshToken: String? = nil) { self.refreshToken = refreshToken }
}

/// The progress of a removal of an account, in the response to `DELETE /v1/account`.
public struct RemovalStatus: Hashable, Codable, Sendable {
    /// The state of a removal.
    public enum State: String, Codable, Sendable {
        /// All access has ended; data is still being removed.
        case running
        /// The data has been removed.
        case done
    }

    /// The account.
    public var account: Identifier
    /// The state.
    public var state: State
    /// The time at which all access ended.
    public var startedAt: Timestamp
    /// The number of rows that were removed so far.
    public var removed: Int
    /// The data that is kept: `ledger` for the anonymous entries of the ledger.
    public var kept: [String]

    /// Creates the status.
    public init(
        account: Identifier,
        state: State,
        startedAt: Timestamp,
        removed: Int,
        kept: [String] = ["ledger"]
    ) {
        self.account = account
        self.state = state
        self.startedAt = startedAt
        self.removed = removed
        self.kept = kept
    }
}

/// The response to `DELETE /v1/account`.
public struct RemovalAnswer: Hashable, Codable, Sendable {
    /// The progress.
    public var removal: RemovalStatus

    /// Creates the response.
    public init(removal: RemovalStatus) { self.removal = removal }
}
