/// The body of `POST /v1/accounts/identity`.
public struct IdentityRequest: Hashable, Codable, Sendable {
    /// The name of the identity provider in the server's settings, such as `apple`.
    public var provider: String
    /// The identity token that the provider issued for this app: a JWT.
    public var identityToken: String
    /// The random text that the app created for this sign-in.
    ///
    /// The token contains it, or its SHA-256, which Apple's apps send to the provider.
    public var nonce: String
    /// The newest refresh token of the session, as proof that the user's device asks.
    ///
    /// Needed only for a registered account, and not within ten minutes of a sign-in.
    public var refreshToken: String?

    /// Creates the body.
    public init(
        provider: String,
        identityToken: String,
        nonce: String,
        refreshToken: String? = nil
    ) {
        self.provider = provider
        self.identityToken = identityToken
        self.nonce = nonce
        self.refreshToken = refreshToken
    }
}
