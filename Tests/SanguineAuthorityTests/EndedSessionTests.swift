import SanguineModel
import Synchronization
import TestSupport
import Testing

@testable import SanguineAuthority

/// Tokens of ended sessions, as known to the cache and the storage.
@Suite("Access tokens: ended sessions", .bounded)
struct EndedSessionTests {
    private let clock = ManualClock()
    private let storage = CountingSessions()
    private let identity = Identity(account: .numbered(1), session: .numbered(2))

    private func tokens(capacity: Int = 8, keys: SigningKeys = SigningKeys()) -> AccessTokens {
        AccessTokens(
            keys: keys,
            settings: AuthoritySettings(),
            clock: clock,
            capacity: capacity
        ) { [storage] identity throws(Problem) in
            storage.isLive(identity.session)
        }
    }

    private func refused(_ token: String, _ tokens: AccessTokens) async -> ProblemCode? {
        await problem { () throws(Problem) in try await tokens.verify(token) }?.code
    }

    @Test func `a session that ended before the start is refused, cached or not`()
        async throws
    {
        let keys = SigningKeys()
        let token = try await tokens(keys: keys).issue(for: identity)
        storage.end(identity.session)
        let restarted = tokens(keys: keys)

        #expect(await refused(token, restarted) == .sessionEnded)
        #expect(await refused(token, restarted) == .sessionEnded)
        #expect(restarted.rememberedCount == 0)
    }

    @Test func `the storage is read once for a token, and never for a cached one`() async throws {
        let tokens = tokens()
        let token = try await tokens.issue(for: identity)
        for _ in 1...5 {
            #expect(await refused(token, tokens) == nil)
            #expect(try tokens.verifyRemembered(token) == identity)
        }

        #expect(storage.looks == 1)
    }

    @Test func `a session stays ended after any number of later ends, in bounded memory`()
        async throws
    {
        let tokens = tokens(capacity: 8)
        let token = try await tokens.issue(for: identity)
        #expect(await refused(token, tokens) == nil)
        storage.end(identity.session)
        tokens.end(identity.session)
        for number in UInt64(10)..<40 {
            tokens.end(.numbered(number))
            #expect(tokens.endedCount <= 8)
            #expect(await refused(token, tokens) == .sessionEnded, "after \(number)")
            #expect((try? tokens.verifyRemembered(token)) == nil)
        }
    }

    @Test func `a live session is looked up again after too many other ends`()
        async throws
    {
        let tokens = tokens(capacity: 8)
        let token = try await tokens.issue(for: identity)
        let pass = try await tokens.pass(token)
        for number in UInt64(10)..<30 { tokens.end(.numbered(number)) }

        #expect(!tokens.isValid(pass))
        #expect(try tokens.verifyRemembered(token) == nil)
        #expect(await refused(token, tokens) == nil)
        #expect(storage.looks == 2)
        #expect(try tokens.verifyRemembered(token) == identity)
        #expect(tokens.isValid(try await tokens.confirmed(pass)))
    }

    @Test(arguments: [1, 8])
    func `a session that ends during its lookup is refused`(capacity: Int) async throws {
        let tokens = tokens(capacity: capacity)
        let token = try await tokens.issue(for: identity)
        // The storage has answered, and the session ends before the answer arrives.
        storage.afterLook { [identity, storage] in
            storage.end(identity.session)
            tokens.end(identity.session)
            // Beyond the capacity, even this end is no longer cached.
            for number in UInt64(10)..<12 { tokens.end(.numbered(number)) }
        }

        #expect(await refused(token, tokens) == .sessionEnded)
        #expect((try? tokens.verifyRemembered(token)) == nil)
    }

    @Test func `the storage is asked again about each session of a reviewed account`()
        async throws
    {
        let tokens = tokens()
        let kept = Identity(account: identity.account, session: .numbered(3))
        let token = try await tokens.issue(for: identity)
        let keptToken = try await tokens.issue(for: kept)
        let pass = try await tokens.pass(token)
        _ = try await tokens.pass(keptToken)
        storage.end(identity.session)
        tokens.review(identity.account)

        #expect(!tokens.isValid(pass))
        #expect(await refused(token, tokens) == .sessionEnded)
        #expect(await refused(keptToken, tokens) == nil)
        #expect(try tokens.verifyRemembered(keptToken) == kept)
    }

    @Test func `a reviewed account stays reviewed after any number of later ones`() async throws {
        let tokens = tokens(capacity: 8)
        let token = try await tokens.issue(for: identity)
        #expect(await refused(token, tokens) == nil)
        storage.end(identity.session)
        for number in UInt64(1)..<40 {
            tokens.review(.numbered(number))
            #expect(await refused(token, tokens) == .sessionEnded, "after \(number)")
        }
    }

    @Test func `a failing storage admits no token, and none is cached`() async throws {
        let tokens = AccessTokens(
            keys: SigningKeys(),
            settings: AuthoritySettings(),
            clock: clock
        ) { _ throws(Problem) in
            throw Problem(StorageError.overloaded(retryAfterSeconds: 3))
        }
        let token = try await tokens.issue(for: identity)

        #expect(await refused(token, tokens) == .overloaded)
        #expect(tokens.rememberedCount == 0)
    }
}

/// Counts the lookups in the sessions of a storage.
private final class CountingSessions: Sendable {
    private struct State {
        var ended: Set<Identifier> = []
        var looks = 0
        var after: (@Sendable () -> Void)?
    }

    private let state = Mutex(State())

    var looks: Int { state.withLock { $0.looks } }

    func end(_ session: Identifier) { state.withLock { _ = $0.ended.insert(session) } }

    func afterLook(_ body: @escaping @Sendable () -> Void) { state.withLock { $0.after = body } }

    func isLive(_ session: Identifier) -> Bool {
        let (isLive, after) = state.withLock { state in
            state.looks += 1
            defer { state.after = nil }
            return (!state.ended.contains(session), state.after)
        }
        after?()
        return isLive
    }
}
