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
        var caller = try await world.guest()
        for (number, name) in ["ada", "eve"].enumerated() {
            let claims: [String: JSONValue] = [
                "email": .string("\(name)@example.org"), "email_verified": true,
            ]
            let signedIn = try await world.register(
                try await token(world, claims, nonce: number),
                caller
            )
            #expect(signedIn.account.email == "ada@example.org")
            caller = try await world.authority.tokens.verify(signedIn.session.accessToken)
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

    private func signIn(
        _ world: IdentityWorld,
        _ token: String,
        key: String?,
        as guest: Identity? = nil
    ) async throws(Problem) -> SignedIn {
        try await world.authority.signIn(
            provider: "example",
            identityToken: token,
            nonce: TestIssuer.nonce,
            as: guest,
            key: key
        )
    }

    @Test func `a lost response to a sign-in is repeated for a minute, under its key`()
        async throws
    {
        let world = try IdentityWorld()
        let account = try await world.register(try await token(world), try await world.guest())
        let token = try await token(world, nonce: 1)
        let first = try await signIn(world, token, key: "one")
        #expect(first.account.id == account.account.id)
        let again = try await signIn(world, token, key: "one")
        #expect(again.account == first.account)
        #expect(again.session.refreshToken == first.session.refreshToken)

        for key in ["two", nil] {
            let refused = await problem { () throws(Problem) in
                try await signIn(world, token, key: key)
            }
            #expect(refused?.code == .identityTokenInvalid)
        }
        world.wall.advance(by: .seconds(61))
        let late = await problem { () throws(Problem) in
            try await signIn(world, token, key: "one")
        }
        #expect(late?.code == .identityTokenInvalid)
    }

    @Test func `a response to a sign-in is not repeated after its session was used`() async throws {
        let world = try IdentityWorld()
        try await world.register(try await token(world), try await world.guest())
        let token = try await token(world, nonce: 1)
        let first = try await signIn(world, token, key: "one")
        let refresh = RefreshRequest(refreshToken: first.session.refreshToken)
        _ = try await world.authority.refresh(refresh)
        let refused = await problem { () throws(Problem) in
            try await signIn(world, token, key: "one")
        }
        #expect(refused?.code == .identityTokenInvalid)
    }

    @Test func `a lost response to a merge by an identity is repeated with its counts`()
        async throws
    {
        let world = try IdentityWorld()
        let account = try await world.register(try await token(world), try await world.guest())
        let guest = try await world.guest(2)
        let token = try await token(world, nonce: 1)
        let first = try await signIn(world, token, key: "one", as: guest)
        #expect(first.merged?.from == guest.account && first.account.id == account.account.id)
        let again = try await signIn(world, token, key: "one", as: guest)
        #expect(again.merged == first.merged)
        #expect(again.session.refreshToken == first.session.refreshToken)
        let other = await problem { () throws(Problem) in
            try await signIn(world, token, key: "one")
        }
        #expect(other?.code == .identityTokenInvalid)
    }

    @Test func `a lost response to a registration by an identity is repeated under its key`()
        async throws
    {
        let world = try IdentityWorld()
        let guest = try await world.guest()
        let request = IdentityRequest(
            provider: "example",
            identityToken: try await token(world),
            nonce: TestIssuer.nonce
        )
        let first = try await world.authority.register(request, guest, key: "one").0
        // The session of the guest has ended, and its device has opened another one.
        let found = try await world.guest()
        #expect(found.account == guest.account)
        let again = try await world.authority.register(request, found, key: "one").0
        #expect(again.account == first.account)
        #expect(again.session.refreshToken == first.session.refreshToken)
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
