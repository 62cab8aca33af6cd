public import Observation
public import Sanguine

/// The state of registration and sign-in, and the actions of their buttons.
///
/// A guest who registers keeps the account, and a guest who signs in to an existing account becomes
/// a part of it. Both keep the history, the day's quota and the tokens.
@MainActor
@Observable
public final class IdentityScreen {
    private let client: SanguineClient

    /// The code that was sent; `nil` while the user has not asked for one.
    public private(set) var verification: VerificationStarted.Verification?
    /// What the sign-in would do, for the user to confirm.
    public private(set) var offer: MergeOffer?

    public init(_ client: SanguineClient) { self.client = client }

    // MARK: - Registration

    /// Sends a code to the e-mail address.
    public func register(email: String, password: String) async throws {
        verification = try await client.account.upgrade(email: email, password: password)
    }

    /// Completes the registration with the code.
    public func verify(_ code: String) async throws {
        try await client.account.verify(code: code)
        verification = nil
    }

    /// Registers with the identity of a provider, such as `apple`.
    public func register(provider: String, token: String, nonce: String) async throws {
        try await client.account.link(provider: provider, identityToken: token, nonce: nonce)
    }

    // MARK: - Sign-in

    /// Fetches what the sign-in to an existing account would do, into ``offer``.
    public func prepareSignIn(email: String, password: String) async throws {
        offer = try await client.account.previewMerge(email: email, password: password)
    }

    /// Fetches what the sign-in with the identity of a provider would do, into ``offer``.
    public func prepareSignIn(provider: String, token: String, nonce: String) async throws {
        offer = try await client.account.previewMerge(
            provider: provider,
            identityToken: token,
            nonce: nonce
        )
    }

    /// Signs in as offered.
    ///
    /// If either side has changed since then, this throws `merge_stale`, and the user is to see
    /// another offer.
    public func confirmSignIn() async throws {
        guard let offer else { return }
        self.offer = nil
        try await client.account.merge(offer)
    }

    // MARK: - Second device

    /// Returns a code that the user types on another device, also as a guest.
    public func codeForOtherDevice() async throws -> MoveCode {
        try await client.account.moveCode()
    }

    /// Uses the account of the device that shows the code.
    public func join(code: String) async throws { try await client.signIn(moveCode: code) }
}
