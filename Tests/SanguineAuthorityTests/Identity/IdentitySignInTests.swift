import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineAuthority

/// Accounts that are registered with an identity, and signed in to.
@Suite("Sign-in with an identity", .bounded)
struct IdentitySignInTests {
    private func token(
        _ world: IdentityWorld,
        _ claims: [String: JSONValue] = [:],
        nonce: Int = 0
    ) async throws -> String {
        // Tokens of different sign-ins differ in an own claim.
        try await world.issuer.token(
            claims: claims.merging(["jti": .integer(Int64(nonce))]) { $1 },
            at: world.wall.now()
        )
    }

    @Test func `a guest that binds an identity keeps its id and is registered`() async throws {
        let world = try IdentityWorld()
        let guest = try await world.guest()
        let claims: [String: JSONValue] = ["email": "ada@example.org", "email_verified": true]
        let signedIn = try await world.register(try await token(world, claims), guest)

        #expect(signedIn.account.id == guest.account && signedIn.account.kind == .registered)
        #expect(signedIn.account.email == "ada@example.org")
        let next = try await world.authority.tokens.verify(signedIn.session.accessToken)
        #expect(next.account == guest.account && next.session != guest.session)
    }

    @Test func `the guest's own session ends when it registers`() async throws {
        let world = try IdentityWorld()
        let guest = try await world.guest()
        let other = try await world.guest()
        try await world.register(try await token(world), guest)
        for identity in [guest, other] {
            let row = try await world.storage.load([.session(identity.session)])
                .session(identity.session)
            #expect(row?.endedAt != nil)
        }
    }

    @Test func `a verified address of the account is not replaced by one of a token`() async throws
    {
        let world = try IdentityWorld()
        let guest = try await world.guest()
        for (number, name) in ["ada", "eve"].enumerated() {
            let claims: [String: JSONValue] = [
                "email": .string("\(name)@example.org"), "email_verified": true,
            ]
            let signedIn = try await world.register(
                try await token(world, claims, nonce: number),
                guest
            )
            #expect(signedIn.account.email == "ada@example.org")
        }
    }

    @Test func `an address of a token is no way to sign in`() async throws {
        let world = try IdentityWorld()
        let claims: [String: JSONValue] = ["email": "ada@example.org", "email_verified": true]
        try await world.register(try await token(world, claims), try await world.guest())
        let loaded = try await world.storage.load([
            Login.key(Login.Name.email("ada@example.org").text)
        ])

        #expect(try loaded.document(Login.self, Login.Name.email("ada@example.org").text) == nil)
    }

    @Test func `the same person signs in to the account on another device`() async throws {
        let world = try IdentityWorld()
        let guest = try await world.guest()
        try await world.register(try await token(world), guest)
        let signedIn = try await world.signIn(try await token(world, nonce: 1))

        #expect(signedIn.account.id == guest.account)
    }

    @Test func `an identity of another account is refused, and its token signs in then`()
        async throws
    {
        let world = try IdentityWorld()
        let first = try await world.guest(1)
        try await world.register(try await token(world), first)
        let second = try await token(world, nonce: 1)
        let other = try await world.guest(2)
        let problem = await problem { () throws(Problem) in
            try await world.register(second, other)
        }

        #expect(problem?.code == .identityTaken)
        #expect(try await world.authority.account(other.account).0.kind == .guest)
        #expect(try await world.signIn(second).account.id == first.account)
    }

    @Test func `an identity without an account is refused, and its token binds it then`()
        async throws
    {
        let world = try IdentityWorld()
        let token = try await token(world)
        let problem = await problem { () throws(Problem) in try await world.signIn(token) }

        #expect(problem?.code == .credentialsInvalid)
        let guest = try await world.guest()
        #expect(try await world.register(token, guest).account.id == guest.account)
    }

    @Test func `a token works once, for either call`() async throws {
        let world = try IdentityWorld()
        let guest = try await world.guest()
        let token = try await token(world)
        try await world.register(token, guest)
        let again = await problem { () throws(Problem) in try await world.register(token, guest) }
        let replayed = await problem { () throws(Problem) in try await world.signIn(token) }

        for problem in [again, replayed] {
            #expect(problem?.code == .identityTokenInvalid)
            #expect(problem?.detail == IdentityTokenFault.used.problem.detail)
        }
    }

    @Test func `a token that was used cannot be used with another signature`() async throws {
        let world = try IdentityWorld()
        let token = try await token(world)
        try await world.register(token, try await world.guest())
        // ECDSA signatures are random, so signing again gives another valid token.
        let content = token.split(separator: ".").dropLast().joined(separator: ".")
        let signature = try await world.issuer.signature(.ec, Array(content.utf8))
        let twin = content + "." + Base64URL.encode(signature)
        #expect(twin != token)
        try await world.verify(twin)
        let problem = await problem { () throws(Problem) in try await world.signIn(twin) }

        #expect(problem?.detail == IdentityTokenFault.used.problem.detail)
    }

    @Test func `of a hundred simultaneous uses of a token one succeeds`() async throws {
        let world = try IdentityWorld()
        try await world.register(try await token(world), try await world.guest())
        let token = try await token(world, nonce: 1)
        let problems = await withTaskGroup(of: Problem?.self) { tasks in
            for _ in 0..<100 {
                tasks.addTask {
                    await problem { () throws(Problem) in try await world.signIn(token) }
                }
            }
            return await tasks.reduce(into: []) { $0.append($1) }
        }

        #expect(problems.count { $0 == nil } == 1)
        #expect(problems.compactMap { $0 }.allSatisfy { $0.code == .identityTokenInvalid })
    }

    @Test func `a used token is stored until it can no longer be accepted`() async throws {
        let world = try IdentityWorld()
        let token = try await token(world)
        let verified = try await world.verify(token)
        try await world.register(token, try await world.guest())
        let row = try await world.storage.load([SpentIdentityToken.key(verified.fingerprint)])
            .document(.identityToken, verified.fingerprint)

        #expect(row?.expiresAt == ManualClock.start + .seconds(660))
        world.wall.advance(by: .seconds(660))
        #expect(
            await world.refusal(token)?.detail == IdentityTokenFault.expired.problem.detail
        )
    }

    @Test func `the same subject of two providers is two identities`() {
        #expect(
            Login.Name.identity(provider: "apple", subject: "1").text
                != Login.Name.identity(provider: "google", subject: "1").text
        )
    }
}
