/// What the server knows of a user, and nothing secret.
public struct Account: Hashable, Codable, Sendable {
    /// Whether the user has made themselves known.
    public enum Kind: String, Codable, Sendable {
        /// Known by a device alone.
        case guest
        /// Known by an e-mail address or an identity provider.
        case registered
    }

    /// What the user pays for.
    public enum Plan: String, Codable, Sendable {
        /// Daily quotas apply.
        case free
        /// Daily quotas do not apply.
        case premium
    }

    /// The account's id; the `sub` of its access tokens.
    public var id: Identifier
    /// Guest or registered.
    public var kind: Kind
    /// The verified address, if there is one.
    public var email: String?
    /// The zone whose midnights end the user's days, as an IANA name.
    public var timeZone: String
    /// The user's language as a BCP 47 tag.
    public var language: String
    /// A name to show, if the user gave one.
    public var displayName: String?
    /// Free or premium.
    public var plan: Plan
    /// The app's own settings: an object of at most 4 KiB.
    public var settings: JSONValue
    /// When the account was made.
    public var createdAt: Timestamp

    /// Creates an account from its parts.
    public init(
        id: Identifier,
        kind: Kind,
        email: String? = nil,
        timeZone: String,
        language: String,
        displayName: String? = nil,
        plan: Plan = .free,
        settings: JSONValue = [:],
        createdAt: Timestamp
    ) {
        self.id = id
        self.kind = kind
        self.email = email
        self.timeZone = timeZone
        self.language = language
        self.displayName = displayName
        self.plan = plan
        self.settings = settings
        self.createdAt = createdAt
    }
}

/// The tokens of one signed-in device.
public struct Session: Hashable, Codable, Sendable {
    /// The JWT for `Authorization: Bearer`.
    public var accessToken: String
    /// Whole seconds until the access token expires.
    public var expiresIn: Int
    /// What gets the next session; valid once.
    public var refreshToken: String

    /// Creates a session from its tokens.
    public init(accessToken: String, expiresIn: Int, refreshToken: String) {
        self.accessToken = accessToken
        self.expiresIn = expiresIn
        self.refreshToken = refreshToken
    }
}

/// The body of `POST /v1/accounts/guest`.
public struct GuestRequest: Hashable, Codable, Sendable {
    /// 16 to 128 characters that name the device.
    public var deviceId: String
    /// 32 random bytes in base64url, without padding: what proves that it is the same device.
    public var deviceSecret: String
    /// The device's zone as an IANA name.
    ///
    /// Default: the configuration's.
    public var timeZone: String?
    /// The device's language as a BCP 47 tag.
    ///
    /// Default: the configuration's.
    public var language: String?

    /// Creates the body.
    public init(
        deviceId: String,
        deviceSecret: String,
        timeZone: String? = nil,
        language: String? = nil
    ) {
        self.deviceId = deviceId
        self.deviceSecret = deviceSecret
        self.timeZone = timeZone
        self.language = language
    }
}

/// An account with a new session for it.
public struct SignedIn: Hashable, Codable, Sendable {
    /// Who is signed in.
    public var account: Account
    /// The tokens.
    public var session: Session

    /// Creates the answer.
    public init(account: Account, session: Session) {
        self.account = account
        self.session = session
    }
}

/// The body of `POST /v1/sessions/refresh`.
public struct RefreshRequest: Hashable, Codable, Sendable {
    /// The refresh token of the last session.
    public var refreshToken: String

    /// Creates the body.
    public init(refreshToken: String) { self.refreshToken = refreshToken }
}

/// The answer to `POST /v1/sessions/refresh`.
public struct Refreshed: Hashable, Codable, Sendable {
    /// The new tokens.
    public var session: Session

    /// Creates the answer.
    public init(session: Session) { self.session = session }
}
