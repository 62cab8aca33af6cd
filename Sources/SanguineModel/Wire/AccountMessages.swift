/// The data that the server stores about a user, without secrets.
public struct Account: Hashable, Codable, Sendable {
    /// Whether the user has registered.
    public enum Kind: String, Codable, Sendable {
        /// Identified only by a device.
        case guest
        /// Identified by an e-mail address or an identity provider.
        case registered
    }

    /// The user's plan.
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
    /// The IANA name of the zone whose midnights end the user's days.
    public var timeZone: String
    /// The user's language as a BCP 47 tag.
    public var language: String
    /// The user's name for display, if there is one.
    public var displayName: String?
    /// Free or premium.
    public var plan: Plan
    /// The app's own settings: an object of at most 4 KiB.
    public var settings: JSONValue
    /// The time at which the account was created.
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

/// The tokens of a signed-in device.
public struct Session: Hashable, Codable, Sendable {
    /// The JWT for `Authorization: Bearer`.
    public var accessToken: String
    /// Whole seconds until the access token expires.
    public var expiresIn: Int
    /// The token that creates the next session; valid once.
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
    /// The id of the device, 16 to 128 characters.
    public var deviceId: String
    /// 32 random bytes in base64url, without padding, which prove the identity of the device.
    public var deviceSecret: String
    /// The device's zone as an IANA name.
    ///
    /// Default: the configuration's.
    public var timeZone: String?
    /// The device's language as a BCP 47 tag.
    ///
    /// Default: the configuration's.
    public var language: String?
    /// The name of the device for the list of sessions, 1 to 64 characters; `nil` for none.
    public var deviceName: String?
    /// StoreKit's `AppTransaction` as the App Store signed it, by which a reinstalled app finds its
    /// guest.
    ///
    /// Default: none.
    public var signedAppTransaction: String?
    /// StoreKit's `AppStore.deviceVerificationID`, which proves that this device requested the app
    /// transaction.
    ///
    /// Default: none; required with ``signedAppTransaction``.
    public var deviceVerificationId: String?
    /// The attestation of the app on this device.
    ///
    /// Default: none; servers may require it for new guests.
    public var attestation: DeviceAttestation?
    /// An assertion with the attested key of a known device.
    ///
    /// Default: none; servers may require it.
    public var assertion: DeviceAssertion?
    /// The token of `DCDevice.generateToken()` in base64, by which Apple identifies the device.
    ///
    /// Default: none.
    public var deviceCheckToken: String?
    /// The guest that the device was before its session ended.
    ///
    /// If the guest was registered, or merged into an account, and the device's secret does not
    /// open that account, the request is refused with `guest_registered`, and no new guest is
    /// created. Default: none.
    public var guest: Identifier?

    /// Creates the body.
    public init(
        deviceId: String,
        deviceSecret: String,
        timeZone: String? = nil,
        language: String? = nil,
        deviceName: String? = nil,
        signedAppTransaction: String? = nil,
        deviceVerificationId: String? = nil,
        attestation: DeviceAttestation? = nil,
        assertion: DeviceAssertion? = nil,
        deviceCheckToken: String? = nil,
        guest: Identifier? = nil
    ) {
        self.deviceId = deviceId
        self.deviceSecret = deviceSecret
        self.timeZone = timeZone
        self.language = language
        self.deviceName = deviceName
        self.signedAppTransaction = signedAppTransaction
        self.deviceVerificationId = deviceVerificationId
        self.attestation = attestation
        self.assertion = assertion
        self.deviceCheckToken = deviceCheckToken
        self.guest = guest
    }
}

/// An account and a new session.
public struct SignedIn: Hashable, Codable, Sendable {
    /// The account that is signed in.
    public var account: Account
    /// The tokens.
    public var session: Session
    /// The guest that was merged into the account; `nil` if there was none.
    public var merged: MergedGuest?

    /// Creates the response.
    public init(account: Account, session: Session, merged: MergedGuest? = nil) {
        self.account = account
        self.session = session
        self.merged = merged
    }
}

/// What an account received from a guest that was merged into it.
public struct MergedGuest: Hashable, Codable, Sendable {
    /// The guest's id, which remains an alias of the account.
    public var from: Identifier
    /// The number of records that were moved.
    public var records: Int
    /// The tokens that were moved.
    public var balances: Int64
    /// The number of files that were moved.
    public var blobs: Int

    /// Creates the summary.
    public init(from: Identifier, records: Int, balances: Int64, blobs: Int) {
        self.from = from
        self.records = records
        self.balances = balances
        self.blobs = blobs
    }
}

/// The body of `POST /v1/sessions/refresh`.
public struct RefreshRequest: Hashable, Codable, Sendable {
    /// The refresh token of the previous session.
    public var refreshToken: String
    /// An assertion with the attested key of the device.
    ///
    /// Default: none; servers may require it.
    public var assertion: DeviceAssertion?
    /// The account of the session, so that the device learns of its deletion after the session was
    /// removed.
    ///
    /// Default: none.
    public var account: Identifier?

    /// Creates the body.
    public init(
        refreshToken: String,
        assertion: DeviceAssertion? = nil,
        account: Identifier? = nil
    ) {
        self.refreshToken = refreshToken
        self.assertion = assertion
        self.account = account
    }
}

/// The response to `POST /v1/sessions/refresh`.
public struct Refreshed: Hashable, Codable, Sendable {
    /// The new tokens.
    public var session: Session

    /// Creates the response.
    public init(session: Session) { self.session = session }
}
