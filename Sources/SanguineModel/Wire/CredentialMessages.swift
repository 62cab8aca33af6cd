/// The body of `POST /v1/accounts/upgrade`.
public struct UpgradeRequest: Hashable, Codable, Sendable {
    /// The e-mail address, to which a code is sent.
    public var email: String
    /// The password, 8 to 256 characters.
    public var password: String
    /// The newest refresh token of the session, as proof that the user's device asks.
    ///
    /// Needed for a registered account, for a guest if the server demands it, and not within ten
    /// minutes of a sign-in.
    public var refreshToken: String?

    /// Creates the body.
    public init(email: String, password: String, refreshToken: String? = nil) {
        self.email = email
        self.password = password
        self.refreshToken = refreshToken
    }
}

/// The response to a request that sends a code by e-mail.
public struct VerificationStarted: Hashable, Codable, Sendable {
    /// A code that was sent.
    public struct Verification: Hashable, Codable, Sendable {
        /// The masked e-mail address: `a•••@b.org`.
        public var sentTo: String
        /// The time after which the code is void.
        public var expiresAt: Timestamp

        /// Creates the description of a code.
        public init(sentTo: String, expiresAt: Timestamp) {
            self.sentTo = sentTo
            self.expiresAt = expiresAt
        }
    }

    /// The code that was sent.
    public var verification: Verification

    /// Creates the response.
    public init(verification: Verification) { self.verification = verification }
}

/// The body of `POST /v1/accounts/verify` and `POST /v1/account/email/verify`.
public struct CodeRequest: Hashable, Codable, Sendable {
    /// The 8 digits of the e-mail.
    public var code: String

    /// Creates the body.
    public init(code: String) { self.code = code }
}

/// The body of `POST /v1/sessions` and `POST /v1/accounts/merge/preview`: an e-mail address with
/// its password, or an identity token.
public struct SessionRequest: Hashable, Codable, Sendable {
    /// The e-mail address.
    public var email: String?
    /// The password of the address.
    public var password: String?
    /// The name of the identity provider.
    public var provider: String?
    /// The token of the identity provider.
    public var identityToken: String?
    /// The nonce of the token.
    public var nonce: String?
    /// The newest refresh token of the guest that is merged, as proof that the guest's device asks.
    ///
    /// Needed only if the server demands it, and not within ten minutes of the guest's sign-in.
    public var refreshToken: String?

    /// Creates the body for an e-mail address.
    public init(email: String, password: String, refreshToken: String? = nil) {
        self.email = email
        self.password = password
        self.refreshToken = refreshToken
    }

    /// Creates the body for an identity token.
    public init(
        provider: String,
        identityToken: String,
        nonce: String?,
        refreshToken: String? = nil
    ) {
        self.provider = provider
        self.identityToken = identityToken
        self.nonce = nonce
        self.refreshToken = refreshToken
    }
}

/// The body of `POST /v1/accounts/password/reset`.
public struct PasswordResetRequest: Hashable, Codable, Sendable {
    /// The e-mail address, to which a code is sent if it belongs to an account.
    public var email: String

    /// Creates the body.
    public init(email: String) { self.email = email }
}

/// The body of `POST /v1/accounts/password/reset/verify`.
public struct PasswordResetVerification: Hashable, Codable, Sendable {
    /// The e-mail address.
    public var email: String
    /// The 8 digits of the e-mail.
    public var code: String
    /// The new password, 8 to 256 characters.
    public var password: String

    /// Creates the body.
    public init(email: String, code: String, password: String) {
        self.email = email
        self.code = code
        self.password = password
    }
}

/// The body of `PUT /v1/account/password`.
public struct PasswordChange: Hashable, Codable, Sendable {
    /// The current password.
    public var current: String
    /// The new password, 8 to 256 characters.
    public var password: String

    /// Creates the body.
    public init(current: String, password: String) {
        self.current = current
        self.password = password
    }
}

/// The body of `POST /v1/account/email`.
public struct EmailChange: Hashable, Codable, Sendable {
    /// The new e-mail address, to which a code is sent.
    public var email: String
    /// The account's password.
    public var password: String

    /// Creates the body.
    public init(email: String, password: String) {
        self.email = email
        self.password = password
    }
}
