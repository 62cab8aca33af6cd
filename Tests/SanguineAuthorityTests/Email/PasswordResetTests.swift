import SanguineModel
import TestSupport
import Testing

@testable import SanguineAuthority

@Suite("Reset and change of passwords", .bounded)
struct PasswordResetTests {
    private let world = EmailWorld()
    private var authority: Authority { world.authority }

    private func request(_ email: String = "ana@example.org") async throws -> String {
        let earlier = try await world.mails(to: email)
        _ = try await authority.requestPasswordReset(
            PasswordResetRequest(email: email),
            from: nil
        )
        return try await world.code(to: email, after: earlier)
    }

    private func reset(
        _ code: String,
        _ email: String = "ana@example.org",
        _ password: String = "battery staple",
        from address: String? = nil
    ) async throws(Problem) -> SignedIn {
        try await authority.verifyPasswordReset(
            PasswordResetVerification(email: email, code: code, password: password),
            from: address
        ).0
    }

    private func refusal(_ code: String, _ email: String = "ana@example.org") async -> Problem? {
        await problem { () throws(Problem) in try await reset(code, email) }
    }

    private func signInRefusal(_ password: String) async -> ProblemCode? {
        await problem { () throws(Problem) in
            try await world.signIn("ana@example.org", password)
        }?.code
    }

    @Test func `a code sets a new password and ends all other sessions`() async throws {
        let ana = try await world.registered()
        let signedIn = try await reset(try await request())
        #expect(signedIn.account.id == ana.account)
        #expect(signedIn.account.email == "ana@example.org")
        #expect(try await !world.isLive(ana))
        #expect(try await world.isLive(try await world.identity(of: signedIn)))
        #expect(await signInRefusal("correct horse") == .credentialsInvalid)
        #expect(await signInRefusal("battery staple") == nil)
    }

    @Test func `the owner receives a notice of the new password`() async throws {
        _ = try await world.registered()
        _ = try await reset(try await request())
        let subjects = try await world.mails(to: "ana@example.org").map(\.subject)
        #expect(subjects.contains("Your password for Sanguine was changed"))
    }

    @Test func `a request for an unknown address gets the same response and no message`()
        async throws
    {
        _ = try await world.registered()
        let known = try await authority.requestPasswordReset(
            PasswordResetRequest(email: "ana@example.org"),
            from: nil
        )
        let unknown = try await authority.requestPasswordReset(
            PasswordResetRequest(email: "abe@example.org"),
            from: nil
        )
        #expect(known == unknown)
        #expect(try await world.mails(to: "abe@example.org").isEmpty)
    }

    // The same rows are written, so that the time tells nothing.
    @Test func `a request for an unknown address writes as many rows`() async throws {
        _ = try await world.registered()
        func rows() async throws -> Int {
            var count = 0
            for kind in [DocumentKind.verification, .mail, .attempts] {
                count += try await world.storage.documents(DocumentQuery(kind, limit: 100)).count
            }
            return count
        }
        var added: [Int] = []
        // The second request replaces the rows of the first, except for its message.
        for email in ["ana@example.org", "abe@example.org", "ana@example.org", "abe@example.org"] {
            let before = try await rows()
            _ = try await authority.requestPasswordReset(
                PasswordResetRequest(email: email),
                from: nil
            )
            added.append(try await rows() - before)
        }
        // The limit of the known address exists since its registration.
        #expect(added == [2, 3, 1, 1])
    }

    @Test func `unknown addresses are limited like known ones`() async throws {
        for _ in 0..<5 {
            _ = try await authority.requestPasswordReset(
                PasswordResetRequest(email: "abe@example.org"),
                from: nil
            )
        }
        let refused = await problem { () throws(Problem) in
            try await authority.requestPasswordReset(
                PasswordResetRequest(email: "abe@example.org"),
                from: nil
            )
        }
        #expect(refused?.code == .rateLimited)
    }

    @Test func `a wrong code is refused alike for known and unknown addresses`() async throws {
        _ = try await world.registered()
        let code = try await request()
        _ = try await authority.requestPasswordReset(
            PasswordResetRequest(email: "abe@example.org"),
            from: nil
        )
        let before = world.hashes
        let known = await refusal(EmailWorld.wrong(code))
        let between = world.hashes
        let unknown = await refusal(EmailWorld.wrong(code), "abe@example.org")
        #expect(known?.code == .verificationFailed && known == unknown)
        #expect(between - before == 1 && world.hashes - between == 1)
    }

    @Test func `after five wrong codes the right one is void`() async throws {
        _ = try await world.registered()
        let code = try await request()
        for _ in 0..<5 { _ = await refusal(EmailWorld.wrong(code)) }
        #expect(await refusal(code)?.code == .verificationFailed)
        #expect(await signInRefusal("correct horse") == nil)
    }

    @Test func `a code resets one password once`() async throws {
        _ = try await world.registered()
        let code = try await request()
        let outcomes = await withTaskGroup(of: ProblemCode?.self) { tasks in
            for _ in 0..<20 { tasks.addTask { await refusal(code)?.code } }
            return await tasks.reduce(into: [ProblemCode?]()) { $0.append($1) }
        }
        #expect(outcomes.count { $0 == nil } == 1)
        #expect(await refusal(code)?.code == .verificationFailed)
    }

    @Test func `codes are tried at most ten times a minute from a network address`()
        async throws
    {
        for number in 0..<10 {
            let refused = await problem { () throws(Problem) in
                try await reset(
                    "12345678",
                    "a\(number)@example.org",
                    from: EmailWorld.address
                )
            }
            #expect(refused?.code == .verificationFailed)
        }
        let refused = await problem { () throws(Problem) in
            try await reset("12345678", "b@example.org", from: EmailWorld.address)
        }
        #expect(refused?.code == .rateLimited)
    }

    @Test func `the current password changes the password and ends other sessions`() async throws {
        let ana = try await world.registered()
        let other = try await world.identity(of: try await world.signIn())
        let (signedIn, _) = try await authority.changePassword(
            PasswordChange(current: "correct horse", password: "battery staple"),
            ana,
            from: nil
        )
        #expect(try await !world.isLive(ana))
        #expect(try await !world.isLive(other))
        #expect(try await world.isLive(try await world.identity(of: signedIn)))
        #expect(await signInRefusal("correct horse") == .credentialsInvalid)
        #expect(await signInRefusal("battery staple") == nil)
    }

    @Test func `a wrong current password changes nothing and counts as an attempt`() async throws {
        let ana = try await world.registered()
        func change() async -> ProblemCode? {
            await problem { () throws(Problem) in
                try await authority.changePassword(
                    PasswordChange(current: "wrong horse", password: "battery staple"),
                    ana,
                    from: nil
                )
            }?.code
        }
        for _ in 0..<5 { #expect(await change() == .credentialsInvalid) }
        #expect(await change() == .rateLimited)
        world.clock.advance(by: .seconds(60))
        #expect(await signInRefusal("correct horse") == nil)
    }

    @Test func `a guest has no password to change`() async throws {
        let guest = try await world.guest()
        let refused = await problem { () throws(Problem) in
            try await authority.changePassword(
                PasswordChange(current: "correct horse", password: "battery staple"),
                guest,
                from: nil
            )
        }
        #expect(refused?.code == .invalidContent)
    }

    @Test func `a code is void after the password was changed in another way`() async throws {
        let ana = try await world.registered()
        let code = try await request()
        let change = PasswordChange(current: "correct horse", password: "other password")
        _ = try await authority.changePassword(change, ana, from: nil)

        #expect(await refusal(code)?.code == .verificationFailed)
        #expect(await signInRefusal("other password") == nil)
        #expect(await refusal(try await request()) == nil)
    }

    @Test func `a code is void for another account that registers the address`() async throws {
        let ana = try await world.registered()
        let code = try await request()
        _ = try await authority.changeEmail(
            EmailChange(email: "ana@example.net", password: "correct horse"),
            ana,
            from: nil
        )
        let change = CodeRequest(code: try await world.code(to: "ana@example.net"))
        _ = try await authority.verifyEmailChange(change, ana)
        _ = try await world.registered(2)

        #expect(await refusal(code)?.code == .verificationFailed)
        #expect(await signInRefusal("correct horse") == nil)
    }
}
