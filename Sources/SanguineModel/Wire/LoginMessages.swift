/// A way to sign in to a registered account, as `GET /v1/account/logins` lists it, without secrets.
public struct LoginInfo: Hashable, Codable, Sendable, Identifiable {
    /// The kind of a login.
    public enum Kind: String, Codable, Sendable {
        /// A verified e-mail address with its password.
        case email
        /// An identity of an OpenID provider.
        case identity
    }

    /// The id of the login, which names neither the address nor the identity.
    public var id: String
    /// The kind.
    public var kind: Kind
    /// For an identity: the provider's name in the server's settings, such as `apple`.
    public var provider: String?
    /// For an e-mail address: the address.
    public var email: String?
    /// The time at which the login was bound to the account.
    public var boundAt: Timestamp

    /// Creates the description.
    public init(
        id: String,
        kind: Kind,
        provider: String? = nil,
        email: String? = nil,
        boundAt: Timestamp
    ) {
        self.id = id
        self.kind = kind
        self.provider = provider
        self.email = email
        self.boundAt = boundAt
    }
}

/// The body of `DELETE /v1/account/logins/{id}`.
public struct LoginRemoval: Hashable, Codable, Sendable {
    /// The newest refresh token of the session, as proof that the user's device asks.
    ///
    /// Not needed within ten minutes of a sign-in.
    public var refreshToken: String?

    /// Creates the body.
    public init(refreshToken: String? = nil) { self.refreshToken = refreshToken }
}
