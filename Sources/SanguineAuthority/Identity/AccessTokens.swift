import Crypto
import Foundation
import JWTKit
import OrderedCollections
public import SanguineModel
import Synchronization

/// Who a request comes from, as its access token says.
public struct Identity: Hashable, Sendable {
    /// The account.
    public var account: Identifier
    /// The session to which the token belongs.
    public var session: Identifier

    /// Creates an identity.
    public init(account: Identifier, session: Identifier) {
        self.account = account
        self.session = session
    }
}

/// Who a connection comes from that lasts, and for how long it may.
public struct AccessPass: Hashable, Sendable {
    /// Whose it is.
    public var identity: Identity
    /// When the access token expires that it was opened with.
    public var expiresAt: Timestamp

    /// Creates a pass.
    public init(identity: Identity, expiresAt: Timestamp) {
        self.identity = identity
        self.expiresAt = expiresAt
    }
}

/// Issues and verifies access tokens: JWTs (RFC 7519) signed with Ed25519 (RFC 8037).
///
/// Algorithm, key id, issuer and audience are pinned: a token that names others is refused before
/// its signature is looked at. A verified token is remembered until it expires, so that signature
/// checks do not bound the throughput. Ending a session ends its access tokens at once.
///
/// Invariants: a remembered token was verified by this process; no more than ``capacity`` are
/// remembered; a session that ended is known here for as long as an access token of it could live.
public final class AccessTokens: Sendable {
    /// How many verified tokens are remembered; the oldest go first.
    public static let capacity = 100_000

    private struct Claims: JWTPayload {
        var iss: String
        var aud: String
        var sub: String
        var sid: String
        var iat: Int
        var exp: Int

        // Times and names are checked by `AccessTokens`, which has the clock and the settings.
        func verify(using algorithm: some JWTAlgorithm) {}
    }

    // Guarded by the mutex, because every request needs the answer at once, without suspending.
    private struct State {
        var verified: OrderedDictionary<String, AccessPass> = [:]
        var verifiedLimit = 1_024  // Past it, what has expired is looked for.
        var ended: [Identifier: Timestamp] = [:]
        var endedLimit = 1_024  // Past it, what has served its time is looked for.
        /// What expires by then has expired already.
        var cutoff = Timestamp(millisecondsSince1970: .min)
    }

    private let state = Mutex(State())
    // A task, because the collection is an actor: who signs or verifies first waits for it.
    private let keys: Task<JWTKeyCollection, Never>
    private let keyID: String
    private let settings: AuthoritySettings
    private let clock: any WallClock

    private let capacity: Int

    init(
        keys signing: SigningKeys,
        settings: AuthoritySettings,
        clock: any WallClock,
        capacity: Int = AccessTokens.capacity
    ) {
        self.capacity = capacity
        keyID = signing.keyID
        keys = Task {
            await JWTKeyCollection().add(
                eddsa: EdDSA.PrivateKey(backing: signing.signingKey),
                kid: JWKIdentifier(string: signing.keyID)
            )
        }
        self.settings = settings
        self.clock = clock
    }

    /// Makes a token that is valid from now on for ``AuthoritySettings/accessTokenLife``.
    func issue(for identity: Identity) async throws -> String {
        let now = clock.now().millisecondsSince1970 / 1_000
        let claims = Claims(
            iss: settings.issuer,
            aud: settings.audience,
            sub: identity.account.description,
            sid: identity.session.description,
            iat: Int(now),
            exp: Int(now) + settings.accessTokenLife.secondsRoundedUp
        )
        return try await keys.value.sign(claims, kid: JWKIdentifier(string: keyID))
    }

    /// Returns whose token it is.
    ///
    /// - Throws: `unauthenticated`, `token_expired` or `session_ended`, in this order.
    public func verify(_ token: String) async throws(Problem) -> Identity {
        try await pass(token).identity
    }

    /// Returns whose token it is, and for how long it is valid.
    ///
    /// - Throws: As ``verify(_:)`` does.
    public func pass(_ token: String) async throws(Problem) -> AccessPass {
        let now = clock.now()
        if let verified = remembered(token) {
            return try check(verified, now)
        }
        guard let verified = await verifySignature(of: token) else {
            throw Problem(
                .unauthenticated,
                "Send 'Authorization: Bearer' with an access token that this server issued."
            )
        }
        let pass = try check(verified, now)
        remember(verified, for: token, now)
        return pass
    }

    /// Returns whose token it is if that is known already, without looking at the signature.
    public func verifyRemembered(_ token: String) throws(Problem) -> Identity? {
        guard let verified = remembered(token) else { return nil }
        return try check(verified, clock.now()).identity
    }

    /// Throws unless the pass is still valid.
    ///
    /// - Throws: `token_expired` or `session_ended`.
    public func check(_ pass: AccessPass) throws(Problem) { _ = try check(pass, clock.now()) }

    /// Makes the access tokens of a session worthless from now on.
    func end(_ session: Identifier, at moment: Timestamp) {
        let forgotten = moment - settings.endedSessionsKept
        state.withLock { state in
            state.ended[session] = moment
            guard state.ended.count > state.endedLimit else { return }
            state.ended = state.ended.filter { $0.value >= forgotten }
            state.endedLimit = max(1_024, 2 * state.ended.count)
        }
    }

    /// Makes all access tokens expire that were issued before now, to the second.
    package func expireAll() {
        // As `issue` does: in whole seconds, a life rounded up.
        let seconds = clock.now().millisecondsSince1970 / 1_000
        let issued = Timestamp(millisecondsSince1970: seconds * 1_000)
        let cutoff = issued + .seconds(settings.accessTokenLife.secondsRoundedUp)
        state.withLock { $0.cutoff = max($0.cutoff, cutoff) }
    }

    /// Whether a session goes on, as far as access tokens of it could still be valid.
    public func isLive(_ session: Identifier) -> Bool {
        state.withLock { $0.ended[session] == nil }
    }

    /// How many verified tokens are remembered now.
    var rememberedCount: Int { state.withLock { $0.verified.count } }

    private func remembered(_ token: String) -> AccessPass? {
        state.withLock { $0.verified[token] }
    }

    private func remember(_ verified: AccessPass, for token: String, _ now: Timestamp) {
        state.withLock { state in
            state.verified[token] = verified
            if state.verified.count > state.verifiedLimit {
                state.verified.removeAll { $0.value.expiresAt <= now }
                state.verifiedLimit = max(1_024, 2 * state.verified.count)
            }
            if state.verified.count > capacity {
                // A quarter at once: removing from the front of an ordered dictionary is linear.
                state.verified.removeFirst(max(1, capacity / 4))
            }
        }
    }

    private func check(_ verified: AccessPass, _ now: Timestamp) throws(Problem) -> AccessPass {
        let (cutoff, isLive) = state.withLock {
            ($0.cutoff, $0.ended[verified.identity.session] == nil)
        }
        guard now < verified.expiresAt, cutoff < verified.expiresAt else {
            throw Problem(.tokenExpired, "Get a new access token with the refresh token.")
        }
        guard isLive else {
            throw Problem(.sessionEnded, "Sign in again: this session was ended.")
        }
        return verified
    }

    private func verifySignature(of token: String) async -> AccessPass? {
        guard token.utf8.count <= 2_048, headerIsOurs(token), isCanonical(token),
            let claims = try? await keys.value.verify(token, as: Claims.self),
            claims.iss == settings.issuer, claims.aud == settings.audience,
            let account = Identifier(claims.sub), let session = Identifier(claims.sid)
        else { return nil }
        return AccessPass(
            identity: Identity(account: account, session: session),
            expiresAt: Timestamp(millisecondsSince1970: Int64(claims.exp) * 1_000)
        )
    }

    /// Whether each part is written in the one way in which its bytes can be.
    ///
    /// The last letter of a part may have bits that say nothing (RFC 4648, section 3.5).
    private func isCanonical(_ token: String) -> Bool {
        token.split(separator: ".", omittingEmptySubsequences: false)
            .allSatisfy { Base64URL.decode($0) != nil }
    }

    private func headerIsOurs(_ token: String) -> Bool {
        struct Header: Decodable {
            var alg: String
            var kid: String
        }
        guard let part = token.split(separator: ".", maxSplits: 1).first,
            let json = Base64URL.decode(part),
            let header = try? JSONDecoder().decode(Header.self, from: Data(json))
        else { return false }
        return header.alg == "EdDSA" && header.kid == keyID
    }
}
