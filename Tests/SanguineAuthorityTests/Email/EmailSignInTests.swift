import SanguineModel
import TestSupport
import Testing

@testable import SanguineAuthority

@Suite("Sign-in by e-mail", .bounded)
struct EmailSignInTests {
    private let world = EmailWorld()
    private var authority: Authority { world.authority }

    private func refusal(
        _ email: String = "ana@example.org",
        _ password: String = "correct horse",
        from address: String? = nil
    ) async -> Problem? {
        await problem { () throws(Problem) in
            try await world.signIn(email, password, from: address)
        }
    }

    @Test func `an address and its password open a session of the account`() async throws {
        let ana = try await world.registered()
        let signedIn = try await world.signIn("ANA@Example.org")
        #expect(signedIn.account.id == ana.account)
        #expect(try await world.isLive(try await world.identity(of: signedIn)))
        #expect(try await world.isLive(ana))
    }

    @Test func `the password is compared in normalization form C`() async throws {
        _ = try await world.registered(1, "ana@example.org", "caf\u{00E9} noir")
        #expect(await refusal("ana@example.org", "cafe\u{0301} noir") == nil)
    }

    @Test func `a wrong password and an unknown address get the same refusal`() async throws {
        _ = try await world.registered()
        let wrong = await refusal("ana@example.org", "wrong horse")
        let unknown = await refusal("ben@example.org", "wrong horse")
        #expect(wrong?.code == .credentialsInvalid && wrong?.status == 401)
        #expect(wrong == unknown)
    }

    // Counted and not measured: a hash is what takes time.
    @Test(arguments: ["ana@example.org", "ben@example.org"], ["wrong horse", "short", ""])
    func `a failed sign-in hashes once whether or not the address exists`(
        email: String,
        password: String
    ) async throws {
        _ = try await world.registered()
        let before = world.hashes
        #expect(await refusal(email, password)?.code == .credentialsInvalid)
        #expect(world.hashes == before + 1)
    }

    @Test(arguments: ["ana@example.org", "ben@example.org"])
    func `the sixth attempt in a minute for an address is refused, known or not`(
        email: String
    ) async throws {
        _ = try await world.registered()
        for _ in 0..<5 { #expect(await refusal(email, "wrong")?.code == .credentialsInvalid) }
        world.clock.advance(by: .seconds(20))
        let hashes = world.hashes
        let refused = await refusal(email)
        #expect(refused?.code == .rateLimited && refused?.retryAfter == 40)
        #expect(world.hashes == hashes)
        world.clock.advance(by: .seconds(40))
        #expect(await refusal(email)?.code != .rateLimited)
    }

    @Test func `the eleventh attempt in a minute from a network address is refused`()
        async throws
    {
        for number in 0..<10 {
            let refused = await refusal("a\(number)@example.org", "w", from: EmailWorld.address)
            #expect(refused?.code == .credentialsInvalid)
        }
        let refused = await refusal("b@example.org", "w", from: EmailWorld.address)
        #expect(refused?.code == .rateLimited && refused?.retryAfter == 60)
        #expect(await refusal("b@example.org", "w", from: "203.0.113.9")?.code != .rateLimited)
    }

    @Test func `a thousand concurrent attempts compare five passwords`() async throws {
        _ = try await world.registered()
        let before = world.hashes
        let outcomes = await withTaskGroup(of: ProblemCode?.self) { tasks in
            for _ in 0..<1_000 {
                tasks.addTask { await refusal("ana@example.org", "wrong horse")?.code }
            }
            return await tasks.reduce(into: [ProblemCode?]()) { $0.append($1) }
        }
        #expect(world.hashes == before + 5)
        #expect(outcomes.count { $0 == .credentialsInvalid } == 5)
        #expect(outcomes.count { $0 == .rateLimited } == 995)
    }

    @Test func `a successful sign-in does not count as an attempt`() async throws {
        _ = try await world.registered()
        for _ in 0..<20 {
            #expect(await refusal("ana@example.org", from: EmailWorld.address) == nil)
        }
    }

    @Test func `a clock that was set back does not extend a lock-out`() async throws {
        _ = try await world.registered()
        for _ in 0..<5 { _ = await refusal("ana@example.org", "wrong") }
        world.clock.advance(by: .seconds(-3_600))
        #expect(await refusal() == nil)
    }

    @Test func `a request without a password names the missing members`() async throws {
        let request = SessionRequest(provider: "apple", identityToken: "t", nonce: nil)
        let refused = await problem { () throws(Problem) in
            try await authority.signIn(request, from: nil)
        }
        #expect(refused?.code == .invalidContent)
    }

    @Test func `a refused attempt is stored without the address`() async throws {
        _ = await refusal("ben@example.org", "wrong", from: EmailWorld.address)
        let rows = try await world.storage.documents(DocumentQuery(.attempts, limit: 10))
        #expect(rows.count == 2)
        for row in rows {
            let text = row.id + String(decoding: row.body, as: UTF8.self)
            #expect(!text.contains("ben") && !text.contains("198.51"))
            #expect(row.expiresAt == world.clock.now() + .seconds(60))
        }
    }
}
