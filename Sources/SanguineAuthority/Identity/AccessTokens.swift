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
    /// How many ends of sessions this process had counted when the session was last seen to live.
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
/// Algorithm, key id, issuer and audience are pinned: a token that names others is refused before
/// its signature is looked at. A verified token is remembered until it expires, so that neither
/// signature checks nor the storage bound the throughput. Ending a session ends its access tokens
/// at once.
///
/// Whether a session goes on is asked of the storage when a token of it comes for the first time.
/// From then on this process sees its end: the ends are counted, and the last ones are known. A
/// pass says which ends its answer of the storage is older than; if not all of those are known any
/// more, the storage is asked again.
///
/// Invariants:
/// 1. A remembered token was verified by this process. No more than ``capacity`` are remembered.
/// 2. `ended` has the sessions whose ends were counted after `forgotten`, and no others; no more
///    than ``capacity``.
/// 3. A session that ended before the storage was asked for a pass is not live by that answer; one
///    that ended later was counted after ``AccessPass/asOf``, because it is counted once its end
///    is stored. So a pass with `asOf` from `forgotten` on is valid if `ended` lacks its session.
public final class AccessTokens: Sendable {
    /// How many verified tokens are remembered, and how many ends of sessions; the oldest go first.
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
        /// The sessions that ended last, in the order in which they did.
        var ended: OrderedSet<Identifier> = []
        /// How many ends were counted before those of `ended`.
        var forgotten = 0
        /// What expires by then has expired already.
        var cutoff = Timestamp(millisecondsSince1970: .min)

        /// How many ends were counted.
        var ends: Int { forgotten + ended.count }
    }

    private let state = Mutex(State())
    // A task, because the collection is an actor: who signs or verifies first waits for it.
    private let keys: Task<JWTKeyCollection, Never>
    private let keyID: String
    private let settings: AuthoritySettings
    private let clock: any WallClock
    private let isStored: SessionLookup

    private let capacity: Int

    /// Says whether the storage has a session that has not ended.
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
    /// - Throws: `unauthenticated`, `token_expired` or `session_ended`, in this order; before the
    ///   last `overloaded` or `internal_fault`, if the storage cannot say whether the session goes
    ///   on.
    public func verify(_ token: String) async throws(Problem) -> Identity {
        try await pass(token).identity
    }

    /// Returns whose token it is, and for how long it is valid.
    ///
    /// - Throws: As ``verify(_:)`` does.
    public func pass(_ token: String) async throws(Problem) -> AccessPass {
        if let known = remembered(token) {
            let pass = try await confirmed(known)
            if pass != known { remember(pass, for: token) }
            return pass
        }
        guard let verified = await verifySignature(of: token) else {
            throw Problem(
                .unauthenticated,
                "Send 'Authorization: Bearer' with an access token that this server issued."
            )
        }
        _ = try isKnown(verified)  // Throws for one that has expired, before anybody is asked.
        let pass = try await asked(verified)
        remember(pass, for: token)
        return pass
    }

    /// Returns whose token it is if that is known already, without looking at the signature or into
    /// the storage.
    public func verifyRemembered(_ token: String) throws(Problem) -> Identity? {
        guard let known = remembered(token), try isKnown(known) else { return nil }
        return known.identity
    }

    /// Returns the pass if it is still valid; asks the storage if this process does not know.
    ///
    /// - Throws: As ``verify(_:)`` does.
    func confirmed(_ pass: AccessPass) async throws(Problem) -> AccessPass {
        try isKnown(pass) ? pass : try await asked(pass)
    }

    /// Whether the pass is valid, as far as this process knows without asking the storage.
    ///
    /// A pass that was valid when it was made is, until its token expires or its session ends, or
    /// more than ``capacity`` other sessions have ended.
    public func isValid(_ pass: AccessPass) -> Bool { (try? isKnown(pass)) == true }

    /// Forgets what this process has verified, and which ends it has counted, as a restart does.
    ///
    /// The storage says again which sessions go on.
    func restart() {
        state.withLock { state in
            state.verified = [:]
            // Past all passes, so that each is asked about.
            state.forgotten = state.ends + 1
            state.ended = []
        }
    }

    /// Makes the access tokens of a session worthless from now on.
    ///
    /// To be called when its end is stored.
    func end(_ session: Identifier) {
        state.withLock { state in
            state.ended.append(session)
            guard state.ended.count > capacity else { return }
            // A quarter at once: removing from the front of an ordered set is linear.
            let count = max(1, capacity / 4)
            state.ended.removeFirst(count)
            state.forgotten += count
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

    /// How many verified tokens are remembered now.
    var rememberedCount: Int { state.withLock { $0.verified.count } }

    /// How many ends of sessions are known now.
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
                // A quarter at once: removing from the front of an ordered dictionary is linear.
                state.verified.removeFirst(max(1, capacity / 4))
            }
        }
    }

    /// Whether the pass is known to be valid; `false` if too much has ended since the storage was
    /// asked.
    ///
    /// - Throws: `token_expired` or `session_ended`.
    private func isKnown(_ pass: AccessPass) throws(Problem) -> Bool {
        let (cutoff, hasEnded, isKnown) = state.withLock { state in
            (
                state.cutoff, state.ended.contains(pass.identity.session),
                pass.asOf >= state.forgotten
            )
        }
        guard clock.now() < pass.expiresAt, cutoff < pass.expiresAt else {
            throw Problem(.tokenExpired, "Get a new access token with the refresh token.")
        }
        guard !hasEnded else { throw .sessionOver }
        return isKnown
    }

    /// The pass as the storage's answer makes it.
    private func asked(_ pass: AccessPass) async throws(Problem) -> AccessPass {
        var pass = pass
        repeat {
            // Counted before the storage is asked: invariant 3.
            pass.asOf = state.withLock { $0.ends }
            guard try await isStored(pass.identity) else { throw .sessionOver }
            // It may have ended meanwhile.
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

extension Problem {
    fileprivate static var sessionOver: Problem {
        Problem(.sessionEnded, "Sign in again: this session was ended.")
    }
}

extension AccessTokens {
    /// Creates the tokens of the sessions that a storage keeps.
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
                let row = try await storage.load([.session(identity.session)])
                    .session(identity.session)
                // One that was swept away has ended, or expired longer ago than any token of it.
                return row?.account == identity.account && row?.endedAt == nil
            } catch {
                throw Problem(error)
            }
        }
    }
}
