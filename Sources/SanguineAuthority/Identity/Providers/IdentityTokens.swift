import Crypto
import SanguineModel

/// A person who is known to an identity provider, from a verified token.
struct VerifiedIdentity: Hashable, Sendable {
    /// The name of the provider.
    var provider: String
    /// The person's id at the provider.
    var subject: String
    /// The e-mail address, if the provider has verified it.
    var email: String?
    /// The hash of the token's signed part.
    ///
    /// Not of the signature, for which there may be several valid values.
    var fingerprint: String
    /// The time from which the token is no longer accepted.
    var expiresAt: Timestamp
}

/// Verifies the identity tokens of OpenID providers (OpenID Connect Core 1.0, section 3.1.3.7).
///
/// The checks, in this order: size and form, header, key, signature, issuer, audience, expiry,
/// time of issue, beginning of validity, nonce, subject. The first one that fails is the refusal's
/// ``IdentityTokenFault``.
///
/// Each key has one algorithm, so that the token cannot choose one: `none` and the symmetric ones,
/// for which a public key might be taken as a secret, belong to no key.
struct IdentityTokens: Sendable {
    /// The limits of tokens.
    enum Limits {
        /// The maximum size of a token in bytes.
        static let tokenBytes = 1 << 14
        /// The permitted number of characters of a nonce.
        static let nonceCharacters = 1...512
        /// The permitted difference between the provider's clock and this one.
        static let leeway = Duration.seconds(60)
        /// The maximum age of a token.
        static let age = Duration.seconds(86_400)
        /// The permitted number of characters of a subject (OpenID Connect Core 1.0, section 2).
        static let subjectCharacters = 1...255
        /// The permitted number of characters of an e-mail address (RFC 5321).
        static let emailCharacters = 3...254
    }

    private struct Source {
        let provider: IdentityProvider
        let keys: ProviderKeys
    }

    private let sources: [String: Source]
    private let clock: any WallClock

    init(
        _ providers: [IdentityProvider],
        server: any KeyServer,
        clock: any WallClock,
        delay: any Clock<Duration>
    ) {
        self.clock = clock
        sources = providers.reduce(into: [:]) { sources, provider in
            sources[provider.name] = Source(
                provider: provider,
                keys: ProviderKeys(of: provider, server: server, clock: clock, delay: delay)
            )
        }
    }

    /// Verifies a token.
    ///
    /// - Parameter request: The provider, the token and the nonce.
    /// - Returns: The person.
    /// - Throws: `invalid_content` for an unknown provider or an invalid nonce,
    ///   `identity_token_invalid`, or `overloaded` if the provider's keys cannot be fetched.
    func verify(_ request: IdentityRequest) async throws(Problem) -> VerifiedIdentity {
        guard let source = sources[request.provider] else { throw unknownProvider }
        let range = Limits.nonceCharacters
        guard request.nonce.isPlainText(of: range) else {
            throw Problem(
                .invalidContent,
                "Set 'nonce' to \(range.lowerBound) to \(range.upperBound) printable characters."
            )
        }
        guard let token = IdentityToken(request.identityToken) else {
            throw IdentityTokenFault.malformed.problem
        }
        if let fault = token.headerFault { throw fault.problem }
        if let fault = try await signatureFault(of: token, source) { throw fault.problem }
        if let fault = token.fault(source.provider, nonce: request.nonce, now: clock.now()) {
            throw fault.problem
        }
        guard let subject = token.subject, let expiresAt = token.acceptedUntil else {
            throw IdentityTokenFault.subject.problem
        }
        return VerifiedIdentity(
            provider: source.provider.name,
            subject: subject,
            email: token.verifiedEmail,
            fingerprint: Base64URL.encode(SHA256.hash(data: token.content)),
            expiresAt: expiresAt
        )
    }

    private func signatureFault(
        of token: IdentityToken,
        _ source: Source
    ) async throws(Problem) -> IdentityTokenFault? {
        let candidates = try await source.keys.candidates(for: token)
        let fault = token.signatureFault(candidates.keys)
        guard fault == .signature,
            let newer = await source.keys.candidates(for: token, after: candidates)
        else { return fault }
        return token.signatureFault(newer.keys)
    }

    private var unknownProvider: Problem {
        let names = sources.keys.sorted().prefix(10).map { "'\($0)'" }.joined(separator: ", ")
        return Problem(
            .invalidContent,
            names.isEmpty
                ? "Use another way to sign in: the server's settings name no identity provider."
                : "Set 'provider' to one of the server's identity providers: \(names)."
        )
    }
}
