import SanguineModel

/// The check that an identity token failed.
enum IdentityTokenFault: Hashable, CaseIterable {
    case malformed
    case type
    case algorithm
    case key
    case signature
    case issuer
    case audience
    case expired
    case tooOld
    case issuedLater
    case notYetValid
    case nonce
    case subject
    case used

    /// The refusal of the token.
    var problem: Problem { Problem(.identityTokenInvalid, detail) }

    private var detail: String {
        switch self {
        case .malformed:
            """
            Send the provider's identity token unchanged: a JWT of at most \
            \(IdentityTokens.Limits.tokenBytes) bytes.
            """
        case .type: "Send the identity token (ID token), not another token of the provider."
        case .algorithm: "Send a token that is signed with the algorithm of the provider's key."
        case .key:
            """
            Send a token that is signed with a current key of the provider. If the keys have just \
            changed, get a new token in a minute.
            """
        case .signature: "Send the provider's token unchanged: its signature does not match."
        case .issuer: "Send a token of this provider: its issuer ('iss') is another one."
        case .audience:
            """
            Send a token that was issued for this app: its audience ('aud') is not in the server's \
            'identity' settings.
            """
        case .expired: "Get a new token from the provider: this one has expired."
        case .tooOld: "Get a new token from the provider: this one was issued more than a day ago."
        case .issuedLater: "Check the clocks: the token's 'iat' is in the future."
        case .notYetValid: "Send the token later: its 'nbf' is in the future."
        case .nonce:
            """
            Send the 'nonce' of the request that got this token: the token contains another one, \
            or none.
            """
        case .subject: "Send a token whose subject ('sub') has 1 to 255 visible ASCII characters."
        case .used: "Get a new token from the provider: this one was used before."
        }
    }
}
