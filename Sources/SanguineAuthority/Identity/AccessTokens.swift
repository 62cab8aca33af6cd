import Crypto
import Foundation
import JWTKit
import OrderedCollections
public import SanguineModel
import Synchronization

/// The identity behind an access token.
public struct Identity: Hashable, Sendable {
    /// The account.
    public var account: Identifier
    /// The session of the token.
    public var session: Identifier

    /// Creates an identity.
    public init(account: Identifier, session: Identifier) {
        self.account = account
        self.session = session
    }
}

/// The identity behind a long-lived connection, and the end of its validity.
public struct AccessPass: Hashable, Sendable {
    /// The identity.
    public var identity: Identity
    /// The expiry time of the access token that opened the connection.
    public var expiresAt: Timestamp
    /// The number of ended sessions that this process had counted when it last checked the session.
    var asOf: Int

    /// Creates a pass.
    public init(identity: Identity, expiresAt: Timestamp) {
        self.init(identity: identity, expiresAt: expiresAt, asOf: 0)
    }

    init(identity: Identity, expiresAt: Timestamp, asOf: Int) {
        self.identity = identity
        self.expiresAt = expiresAt
        self.asOf = asOf
    }
}

/// Issues and verifies access tokens: JWTs (RFC 7519) signed with Ed25519 (RFC 8037).
///
/// Algorithm, key id, issuer and audience are pinned: a token with others is refused before its
/// signature is checked. Verified tokens are cached until they expire, so that neither signature
/// checks nor the storage limit the throughput. Ending a session ends its access tokens at once.
///
/// The storage is asked whether a session is live when its first token arrives. Afterwards, this
/// process observes the session's end: it counts ended sessions, and caches the latest ones. A pass
/// records the count at the time of that question. If some of the later ends are no longer cached,
/// the storage is asked again. It is also asked again about the sessions of an account whose access
/// was ended as a whole, which counts as one end.
///
/// Invariants:
/// 1. A cached token was verified by this process. At most ``capacity`` tokens are cached.
/// 2. `ended` has all sessions, and `reviewed` all accounts, whose ends were counted after
///    `forgotten`, with their counts in rising order; each at most ``capacity``.
/// 3. If a session ended before the storage was asked for a pass, the storage says that it is not
///    live. If it ended later, it was counted after ``AccessPass/asOf``, because it is counted once
///    its end is stored. So a pass with `asOf >= forgotten` is valid if `ended` lacks its session,
///    and its account was not reviewed after `asOf`.
public final class AccessTokens: Sendable {
    /// The number of verified tokens, and of ended sessions, that are cached; the oldest go first.
    public static let capacity = 100_000

    private struct Claims: JWTPayload {
        var iss: String
        var aud: String
        var sub: String
        var sid: String
        var iat: Int
        var exp: Int

        // `AccessTokens` checks times and names, as it has the clock and the settings.
        func verify(using algorithm: some JWTAlgorithm) {}
    }

    // Guarded by a mutex, because every request needs the answer without suspending.
    private struct State {
        var verified: OrderedDictionary<String, AccessPass> = [:]
        var verifiedLimit = 1_024  // Expired tokens are removed when the count exceeds it.
        /// The sessions that ended last, and the accounts that were deleted or merged last, with
        /// the counts of their ends.
        var ended: OrderedDictionary<Identifier, Int> = [:]
        /// The accounts about whose sessions the storage is asked again, with the counts.
        var reviewed: OrderedDictionary<Identifier, Int> = [:]
        /// The highest count that is no longer cached.
        var forgotten = 0
        /// The number of ends that were counted.
        var ends = 0
        /// Tokens that expire at or before this time are treated as expired.
        var cutoff = Timestamp(millisecondsSince1970: .min)

        /// Called after the end of a session.
        var listeners: [@Sendable (Identifier) -> Void] = []

        mutating func end(_ session: Identifier, capacity: Int) {
            guard ended[session] == nil else { return }
            ends += 1
            ended[session] = ends
            forgotten = max(forgotten, Self.forget(&ended, beyond: capacity))
        }

        mutating func review(_ account: Identifier, capacity: Int) {
            ends += 1
            reviewed.removeValue(forKey: account)
            reviewed[account] = ends
            forgotten = max(forgotten, Self.forget(&reviewed, beyond: capacity))
        }

        /// Removes the oldest counts beyond the capacity; returns the highest of them, or 0.
        private static func forget(
            _ counts: inout OrderedDictionary<Identifier, Int>,
            beyond capacity: Int
        ) -> Int {
            guard counts.count > capacity else { return 0 }
            // Removes a quarter at once: removal from the front is linear.
            let count = max(1, capacity / 4)
            let highest = counts.values[count - 1]
            counts.removeFirst(count)
            return highest
        }
    }

    private let state = Mutex(State())
    // A task, because the collection is an actor; the first use waits for it.
    private let keys: Task<JWTKeyCollection, Never>
    private let keyID: String
    private let settings: AuthoritySettings
    private let clock: any WallClock
    private let isStored: SessionLookup

    private let capacity: Int

    /// Returns whether the storage has the session and it has not ended.
    typealias SessionLookup = @Sendable (Identity) async throws(Problem) -> Bool

    init(
        keys signing: SigningKeys,
        settings: AuthoritySettings,
        clock: any WallClock,
        capacity: Int = AccessTokens.capacity,
        isLive: @escaping SessionLookup
    ) {
        self.capacity = capacity
        isStored = isLive
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

    /// Creates a token that is valid for ``AuthoritySettings/accessTokenLife``.
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

    /// Returns the identity of a token.
    ///
    /// - Throws: `unauthenticated`, `token_expired` or `session_ended`, in this order; before the
    ///   last one, `overloaded` or `internal_fault` if the storage cannot tell whether the session
    ///   is live.
    public func verify(_ token: String) async throws(Problem) -> Identity {
        try await pass(token).identity
    }

    /// Returns the identity of a token, and its validity.
    ///
    /// - Throws: see ``verify(_:)``.
    public func pass(_ token: String) async throws(Problem) -> AccessPass {
        if let known = remembered(token) {
            let pass = try await confirmed(known)
            if pass != known { remember(pass, for: token) }
            return pass
        }
        guard let verified = await verifySignature(of: token) else {
            throw .unauthenticated
        }
        _ = try isKnown(verified)  // Throws for an expired token, before asking the storage.
        let pass = try await asked(verified)
        remember(pass, for: token)
        return pass
    }

    /// Returns the identity of a token that has not expired, even if its session has ended.
    ///
    /// - Throws: `unauthenticated` or `token_expired`.
    func identityOfEnded(_ token: String) async throws(Problem) -> Identity {
        guard let pass = await verifySignature(of: token) else { throw .unauthenticated }
        guard clock.now() < pass.expiresAt, state.withLock({ $0.cutoff < pass.expiresAt }) else {
            throw .expiredToken
        }
        return pass.identity
    }

    /// Checks that the session of an admitted request has not ended while its body was received.
    ///
    /// Without this check, a request that sends its body slowly would take effect after the session
    /// was ended. The token may have expired in the meantime, so that no slow upload is repeated.
    ///
    /// - Throws: `session_ended`; `overloaded` or `internal_fault` if the storage cannot tell.
    func checkLive(_ identity: Identity, _ token: String) async throws(Problem) {
        do throws(Problem) {
            _ = try await pass(token)
        } catch {
            guard error.code == .tokenExpired else { throw error }
            guard try await isStored(identity) else { throw .sessionOver }
        }
    }

    /// Returns the identity of a token if it is cached, without checking the signature or asking
    /// the storage.
    public func verifyRemembered(_ token: String) throws(Problem) -> Identity? {
        guard let known = remembered(token), try isKnown(known) else { return nil }
        return known.identity
    }

    /// Returns the pass if it is still valid, asking the storage if this process does not know.
    ///
    /// - Throws: see ``verify(_:)``.
    func confirmed(_ pass: AccessPass) async throws(Problem) -> AccessPass {
        try isKnown(pass) ? pass : try await asked(pass)
    }

    /// Whether the pass is valid, as far as this process knows without asking the storage.
    ///
    /// A pass stays valid until its token expires or its session ends, or until the storage must be
    /// asked again: after a review of its account, or more than ``capacity`` ends of other
    /// sessions.
    public func isValid(_ pass: AccessPass) -> Bool { (try? isKnown(pass)) == true }

    /// Removes the verified tokens and the counted ends of sessions, as a restart does.
    ///
    /// The storage is asked again which sessions are live.
    func restart() {
        state.withLock { state in
            state.verified = [:]
            // Greater than the count of any pass, so that the storage is asked about each.
            state.ends += 1
            state.forgotten = state.ends
            (state.ended, state.reviewed) = ([:], [:])
        }
    }

    /// Invalidates the access tokens of a session.
    ///
    /// Call it after the end of the session is stored.
    ///
    /// - Parameters:
    ///   - session: The session; or an account whose state is stored as deleted or merged, which
    ///     ends all of its sessions.
    ///   - account: The account of the session, whose live connections end at once. Default:
    ///     unknown, so that they end within a second.
    func end(_ session: Identifier, of account: Identifier? = nil) {
        let listeners = state.withLock { state in
            state.end(session, capacity: capacity)
            return state.listeners
        }
        guard let account else { return }
        for listener in listeners { listener(account) }
    }

    /// Has the storage asked again about each session of an account, because access to the account
    /// was ended as a whole.
    ///
    /// Call it after the account's new era is stored.
    func review(_ account: Identifier) {
        let listeners = state.withLock { state in
            state.review(account, capacity: capacity)
            return state.listeners
        }
        for listener in listeners { listener(account) }
    }

    /// Calls the closure after the end of a session, with its account.
    ///
    /// The closure must return quickly.
    package func onEnd(_ listener: @escaping @Sendable (Identifier) -> Void) {
        state.withLock { $0.listeners.append(listener) }
    }

    /// Expires all access tokens that were issued before now, to the second.
    package func expireAll() {
        // Rounds as `issue` does: to whole seconds, with the life rounded up.
        let seconds = clock.now().millisecondsSince1970 / 1_000
        let issued = Timestamp(millisecondsSince1970: seconds * 1_000)
        let cutoff = issued + .seconds(settings.accessTokenLife.secondsRoundedUp)
        state.withLock { $0.cutoff = max($0.cutoff, cutoff) }
    }

    /// The number of cached tokens.
    var rememberedCount: Int { state.withLock { $0.verified.count } }

    /// The number of cached ends of sessions.
    var endedCount: Int { state.withLock { $0.ended.count } }

    private func remembered(_ token: String) -> AccessPass? {
        state.withLock { $0.verified[token] }
    }

    private func remember(_ verified: AccessPass, for token: String) {
        let now = clock.now()
        state.withLock { state in
            state.verified[token] = verified
            if state.verified.count > state.verifiedLimit {
                state.verified.removeAll { $0.value.expiresAt <= now }
                state.verifiedLimit = max(1_024, 2 * state.verified.count)
            }
            if state.verified.count > capacity {
                // Removes a quarter at once: removal from the front is linear.
                state.verified.removeFirst(max(1, capacity / 4))
            }
        }
    }

    /// Whether the pass is known to be valid; `false` if too many sessions have ended since the
    /// storage was asked.
    ///
    /// - Throws: `token_expired` or `session_ended`.
    private func isKnown(_ pass: AccessPass) throws(Problem) -> Bool {
        let (cutoff, hasEnded, isKnown) = state.withLock { state in
            (
                state.cutoff,
                state.ended[pass.identity.session] != nil
                    || state.ended[pass.identity.account] != nil,
                pass.asOf >= state.forgotten
                    && pass.asOf >= state.reviewed[pass.identity.account] ?? 0
            )
        }
        guard clock.now() < pass.expiresAt, cutoff < pass.expiresAt else {
            throw .expiredToken
        }
        guard !hasEnded else { throw .sessionOver }
        return isKnown
    }

    /// Asks the storage, and returns the pass with the current count.
    private func asked(_ pass: AccessPass) async throws(Problem) -> AccessPass {
        var pass = pass
        repeat {
            // Read before the storage is asked: invariant 3.
            pass.asOf = state.withLock { $0.ends }
            guard try await isStored(pass.identity) else { throw .sessionOver }
            // The session may have ended in the meantime.
        } while try !isKnown(pass)
        return pass
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

    /// Whether each part has the only valid encoding of its bytes.
    ///
    /// The last character of a part may have unused bits (RFC 4648, section 3.5).
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

extension Problem {
    fileprivate static var unauthenticated: Problem {
        Problem(
            .unauthenticated,
            "Send 'Authorization: Bearer' with an access token that this server issued."
        )
    }

    fileprivate static var expiredToken: Problem {
        Problem(.tokenExpired, "Get a new access token with the refresh token.")
    }
}

extension AccessTokens {
    /// Creates the tokens for the sessions in a storage.
    convenience init(
        keys: SigningKeys,
        settings: AuthoritySettings,
        clock: any WallClock,
        capacity: Int = AccessTokens.capacity,
        over storage: any Storage
    ) {
        self.init(keys: keys, settings: settings, clock: clock, capacity: capacity) {
            identity throws(Problem) in
            do throws(StorageError) {
                let loaded = try await storage.load(
                    [.session(identity.session), .account(identity.account)]
                )
                // A missing session has ended, or has expired longer ago than any of its tokens.
                guard let session = loaded.session(identity.session) else { return false }
                return session.isOpen(in: loaded.account(identity.account))
            } catch {
                throw Problem(error)
            }
        }
    }
}
