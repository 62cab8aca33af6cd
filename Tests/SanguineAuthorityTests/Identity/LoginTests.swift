import SanguineModel
import TestSupport
import Testing

@testable import SanguineAuthority

/// The list of the ways to sign in, and the removal of one.
@Suite("Ways to sign in", .bounded)
struct LoginTests {
    private let world = AccessWorld()
    private var authority: Authority { world.authority }

    private func name(_ subject: String) -> Login.Name {
        .identity(provider: "example", subject: subject)
    }

    /// An account with an e-mail address and an identity, the session of which is new.
    private func registered() async throws -> (caller: Identity, session: Session) {
        let guest = try await world.email.guest()
        let address = Login.Name.email("ana@example.org")
        let first = try await authority.register(address, email: "ana@example.org", guest).0
        world.clock.advance(by: .seconds(1))
        let caller = try await world.email.identity(of: first)
        let signedIn = try await authority.register(name("subject of ana"), email: nil, caller).0
        return (try await world.email.identity(of: signedIn), signedIn.session)
    }

    private func logins(_ caller: Identity) async throws -> [LoginInfo] {
        try await authority.logins(of: caller.account).items
    }

    private func remove(
        _ login: LoginInfo,
        _ caller: Identity,
        _ token: String? = nil
    ) async throws(Problem) -> [LoginInfo] {
        try await authority.removeLogin(login.id, caller, LoginRemoval(refreshToken: token)).0.items
    }

    private func refusal(
        _ login: LoginInfo,
        _ caller: Identity,
        _ token: String? = nil
    ) async -> ProblemCode? {
        await problem { () throws(Problem) in try await remove(login, caller, token) }?.code
    }

    @Test func `the list has kind, provider or address, and time, but no secret`() async throws {
        let (caller, _) = try await registered()
        let logins = try await logins(caller)
        #expect(logins.map(\.kind) == [.email, .identity])
        #expect(logins.map(\.provider) == [nil, "example"])
        #expect(logins.map(\.email) == ["ana@example.org", nil])
        let now = world.clock.now()
        #expect(logins.map(\.boundAt) == [now - .seconds(1), now])
        let text = String(decoding: ResponseEncoder.encode(Items(items: logins)), as: UTF8.self)
        #expect(!text.contains("subject of ana") && !text.contains("scrypt"))
        let guest = try await authority.guest(world.device(9)).signedIn
        #expect(try await authority.logins(of: guest.account.id).items.isEmpty)
    }

    @Test func `a removed login opens the account no more, and the others do`() async throws {
        let (caller, _) = try await registered()
        let identity = try await logins(caller)[1]
        #expect(try await remove(identity, caller).map(\.kind) == [.email])
        let key = Login.key(name("subject of ana").text)
        let found = try await authority.read { storage throws(StorageError) in
            try await storage.load([key])
        }
        #expect(try found.document(Login.self, name("subject of ana").text) == nil)
        // Another account can bind it now.
        let other = try await authority.tokens.verify(
            try await authority.guest(world.device(9)).signedIn.session.accessToken
        )
        _ = try await authority.register(name("subject of ana"), email: nil, other)
        #expect(try await logins(other).count == 1)
        #expect(await refusal(identity, caller) == .notFound)
    }

    @Test func `the address of a removed login is no longer shown`() async throws {
        let (caller, _) = try await registered()
        let before = try await authority.account(caller.account)
        #expect(before.0.email == "ana@example.org")
        _ = try await remove(try await logins(caller)[0], caller)
        let after = try await authority.account(caller.account)
        #expect(after.0.email == nil && after.0.kind == .registered && after.head > before.head)
        let request = SessionRequest(email: "ana@example.org", password: "correct horse")
        let refused = await problem { () throws(Problem) in
            try await authority.signIn(request, from: nil)
        }
        #expect(refused?.code == .credentialsInvalid)
    }

    @Test func `the only login of an account is never removed`() async throws {
        let (caller, _) = try await registered()
        let both = try await logins(caller)
        _ = try await remove(both[0], caller)
        #expect(await refusal(both[1], caller) == .lastLogin)
        #expect(try await logins(caller) == [both[1]])
        #expect(try await world.email.isLive(caller))
    }

    @Test func `of two simultaneous removals of both logins, one succeeds`() async throws {
        let (caller, _) = try await registered()
        let both = try await logins(caller)
        async let first = refusal(both[0], caller)
        async let second = refusal(both[1], caller)
        let refusals = await [first, second]
        #expect(refusals.count { $0 == nil } == 1 && refusals.contains(.lastLogin))
        #expect(try await logins(caller).count == 1)
    }

    @Test func `a mere access token removes no login`() async throws {
        let (caller, session) = try await registered()
        let login = try await logins(caller)[0]
        world.clock.advance(by: .seconds(601))
        #expect(await refusal(login, caller) == .credentialsInvalid)
        #expect(await refusal(login, caller, "made up") == .credentialsInvalid)
        #expect(try await logins(caller).count == 2)
        #expect(try await remove(login, caller, session.refreshToken).count == 1)
    }

    @Test func `a removal ends all other sessions, and keeps the caller's`() async throws {
        let (caller, _) = try await registered()
        let other = try await world.email.identity(of: authority.signIn(caller.account).signedIn)
        _ = try await remove(try await logins(caller)[1], caller)
        #expect(try await !world.email.isLive(other))
        #expect(try await world.email.isLive(caller))
        #expect(try await authority.sessions(of: caller.account).items.count == 1)
    }

    @Test func `a login of another account is not found`() async throws {
        let (caller, _) = try await registered()
        let guest = try await authority.tokens.verify(
            try await authority.guest(world.device(9)).signedIn.session.accessToken
        )
        let login = try await logins(caller)[0]
        #expect(await refusal(login, guest) == .notFound)
        #expect(try await logins(caller).count == 2)
    }
}
