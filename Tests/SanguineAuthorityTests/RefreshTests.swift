import Crypto
import Foundation
import SanguineModel
import TestSupport
import Testing

@testable import SanguineAuthority

/// The rotation of refresh tokens, their reuse, and the end of sessions.
@Suite("Sessions", .bounded)
struct RefreshTests {
    private let clock = ManualClock()
    private let keys = SigningKeys()
    private let storage = MemoryStorage()

    private func authority(sessionsPerAccount: Int? = nil) async throws -> Authority {
        var settings = AuthoritySettings()
        settings.sessionsPerAccount = sessionsPerAccount ?? settings.sessionsPerAccount
        return Authority(storage: storage, keys: keys, settings: settings, clock: clock)
    }

    private func guest(_ authority: Authority) async throws -> Session {
        let secret = Base64URL.encode([UInt8](repeating: 7, count: 32))
        let request = GuestRequest(deviceId: "device-0123456789", deviceSecret: secret)
        return try await authority.guest(request).signedIn.session
    }

    private func refresh(_ token: String, _ authority: Authority) async throws -> Session {
        try await authority.refresh(RefreshRequest(refreshToken: token))
    }

    private func refused(_ token: String, _ authority: Authority) async -> ProblemCode? {
        await problem { () throws(Problem) in
            try await authority.refresh(RefreshRequest(refreshToken: token))
        }?.code
    }

    @Test func `a refresh rotates the token and keeps the session`() async throws {
        let authority = try await authority()
        let first = try await guest(authority)
        let second = try await refresh(first.refreshToken, authority)

        #expect(second.refreshToken != first.refreshToken)
        let before = try await authority.tokens.verify(first.accessToken)
        #expect(try await authority.tokens.verify(second.accessToken) == before)
    }

    @Test func `a lost response is repeated for a minute, with the same successor`() async throws {
        let authority = try await authority()
        let first = try await guest(authority)
        let second = try await refresh(first.refreshToken, authority)
        clock.advance(by: .seconds(60))
        let again = try await refresh(first.refreshToken, authority)

        #expect(again.refreshToken == second.refreshToken)
        let third = try await refresh(again.refreshToken, authority)
        #expect(third.refreshToken != second.refreshToken)
    }

    @Test func `two simultaneous refreshes get the same successor`() async throws {
        let authority = try await authority()
        let token = try await guest(authority).refreshToken
        let sessions = try await withThrowingTaskGroup { group in
            for _ in 1...50 {
                group.addTask { try await authority.refresh(RefreshRequest(refreshToken: token)) }
            }
            return try await group.reduce(into: [Session]()) { $0.append($1) }
        }

        #expect(Set(sessions.map(\.refreshToken)).count == 1)
    }

    @Test func `after a minute, an old token ends the family`() async throws {
        let authority = try await authority()
        let first = try await guest(authority)
        let second = try await refresh(first.refreshToken, authority)
        clock.advance(by: .milliseconds(60_001))

        #expect(await refused(first.refreshToken, authority) == .refreshReused)
        #expect(await refused(second.refreshToken, authority) == .sessionEnded)
        let ended = await problem { () throws(Problem) in
            try await authority.tokens.verify(second.accessToken)
        }
        #expect(ended?.code == .sessionEnded)
    }

    @Test func `an old token ends the family once its successor was used`() async throws {
        let authority = try await authority()
        let first = try await guest(authority)
        let second = try await refresh(first.refreshToken, authority)
        let third = try await refresh(second.refreshToken, authority)

        #expect(await refused(first.refreshToken, authority) == .refreshReused)
        #expect(await refused(first.refreshToken, authority) == .refreshReused)
        #expect(await refused(second.refreshToken, authority) == .refreshReused)
        #expect(await refused(third.refreshToken, authority) == .sessionEnded)
    }

    @Test func `a refresh token expires after sixty days, counted from its rotation`()
        async throws
    {
        let authority = try await authority()
        let first = try await guest(authority)
        clock.advance(by: .seconds(60 * 86_400) - .milliseconds(1))
        let second = try await refresh(first.refreshToken, authority)
        clock.advance(by: .seconds(60 * 86_400))

        #expect(await refused(second.refreshToken, authority) == .refreshInvalid)
    }

    @Test func `a token that this server did not make is invalid`() async throws {
        let authority = try await authority()
        let token = try await guest(authority).refreshToken
        let stranger = RefreshToken(session: .numbered(1), generation: 0)
        var bytes = try #require(Base64URL.decode(token))

        for index in [0, 15, 16, 23, 24, 55] {
            bytes[index] ^= 1
            #expect(await refused(Base64URL.encode(bytes), authority) == .refreshInvalid)
            bytes[index] ^= 1
        }
        let other = stranger.text(key: SymmetricKey(size: .bits256))
        // Signed by us, for a session that does not exist, as after a sweep.
        let unknown = stranger.text(key: keys.refreshKey)
        for text in ["", "x", token + "A", String(token.dropLast()), other, unknown] {
            #expect(await refused(text, authority) == .refreshInvalid)
        }
        #expect(await refused(Base64URL.encode(bytes), authority) == nil)
    }

    @Test(arguments: [0, 1, 255, 256, Int64.max, -1, Int64.min])
    func `a refresh token can be read with any generation`(generation: Int64) {
        let token = RefreshToken(session: .numbered(3), generation: generation)
        let key = SymmetricKey(size: .bits256)

        #expect(RefreshToken(token.text(key: key), key: key) == token)
    }

    @Test func `a future generation is invalid and ends nothing`() async throws {
        let authority = try await authority()
        let session = try await guest(authority)
        let ours = try #require(RefreshToken(session.refreshToken, key: keys.refreshKey))
        for generation in [1, Int64.max] {
            let token = RefreshToken(session: ours.session, generation: generation)
            #expect(await refused(token.text(key: keys.refreshKey), authority) == .refreshInvalid)
        }
        #expect(await refused(session.refreshToken, authority) == nil)
    }

    @Test func `signing out ends the access token and the refresh token at once`() async throws {
        let authority = try await authority()
        let session = try await guest(authority)
        let identity = try await authority.tokens.verify(session.accessToken)
        try await authority.signOut(identity)
        try await authority.signOut(identity)

        let ended = await problem { () throws(Problem) in
            try await authority.tokens.verify(session.accessToken)
        }
        #expect(ended?.code == .sessionEnded)
        #expect(await refused(session.refreshToken, authority) == .sessionEnded)
    }

    @Test func `a sign-out is effective after a restart`() async throws {
        let before = try await authority()
        let session = try await guest(before)
        let other = try await guest(before)
        try await before.signOut(try await before.tokens.verify(session.accessToken))
        clock.advance(by: .seconds(899))
        try await before.sweep()
        let after = try await authority()

        let ended = await problem { () throws(Problem) in
            try await after.tokens.verify(session.accessToken)
        }
        #expect(ended?.code == .sessionEnded)
        let account = try await after.account(deviceID: "device-0123456789")?.id
        #expect(try await after.tokens.verify(other.accessToken).account == account)
    }

    @Test func `an access token issued while its session ends is invalid, even after a restart`()
        async throws
    {
        let before = try await authority()
        let first = try await guest(before)
        let identity = try await before.tokens.verify(first.accessToken)
        try await before.signOut(identity)
        // A refresh that was committed before the sign-out issues its token a moment later.
        clock.advance(by: .seconds(2))
        let late = try await before.tokens.issue(for: identity)
        clock.advance(by: .seconds(899))
        try await before.sweep()

        for authority in [before, try await authority()] {
            let ended = await problem { () throws(Problem) in
                try await authority.tokens.verify(late)
            }
            #expect(ended?.code == .sessionEnded)
        }
    }

    @Test func `a session beyond the limit ends only the least recently used one`()
        async throws
    {
        let authority = try await authority(sessionsPerAccount: 3)
        var sessions: [Session] = []
        for _ in 1...3 {
            sessions.append(try await guest(authority))
            clock.advance(by: .seconds(1))
        }
        sessions[0] = try await refresh(sessions[0].refreshToken, authority)
        clock.advance(by: .seconds(1))
        sessions.append(try await guest(authority))

        for (number, session) in sessions.enumerated() {
            let ended = await problem { () throws(Problem) in
                try await authority.tokens.verify(session.accessToken)
            }
            #expect(ended?.code == (number == 1 ? .sessionEnded : nil), "\(number)")
        }
        #expect(await refused(sessions[1].refreshToken, authority) == .sessionEnded)
        #expect(await refused(sessions[0].refreshToken, authority) == nil)
    }

    @Test func `a session that ended because of the limit stays ended after a restart`()
        async throws
    {
        let first = try await guest(try await authority(sessionsPerAccount: 1))
        clock.advance(by: .seconds(1))
        let second = try await guest(try await authority(sessionsPerAccount: 1))
        let after = try await authority(sessionsPerAccount: 1)

        let ended = await problem { () throws(Problem) in
            try await after.tokens.verify(first.accessToken)
        }
        #expect(ended?.code == .sessionEnded)
        _ = try await after.tokens.verify(second.accessToken)
    }

    @Test func `tokens of a server with other keys are refused`() async throws {
        let ours = try await authority()
        let session = try await guest(ours)
        let theirs = Authority(storage: storage, keys: SigningKeys(), clock: clock)

        #expect(await refused(session.refreshToken, theirs) == .refreshInvalid)
        let refusal = await problem { () throws(Problem) in
            try await theirs.tokens.verify(session.accessToken)
        }
        #expect(refusal?.code == .unauthenticated)
    }
}
