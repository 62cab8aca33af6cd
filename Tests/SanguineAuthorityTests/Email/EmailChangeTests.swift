import SanguineModel
import TestSupport
import Testing

@testable import SanguineAuthority

@Suite("Change of the e-mail address", .bounded)
struct EmailChangeTests {
    private let world = EmailWorld()
    private var authority: Authority { world.authority }

    private func request(
        _ identity: Identity,
        _ email: String = "ana@example.net",
        _ password: String = "correct horse"
    ) async throws(Problem) -> VerificationStarted {
        try await authority.changeEmail(
            EmailChange(email: email, password: password),
            identity,
            from: nil
        )
    }

    private func refusal(_ code: String, _ identity: Identity) async -> Problem? {
        await problem { () throws(Problem) in
            try await authority.verifyEmailChange(CodeRequest(code: code), identity)
        }
    }

    @Test func `the code of the new address replaces the old one`() async throws {
        let ana = try await world.registered()
        let started = try await request(ana)
        #expect(started.verification.sentTo == "a•••@example.net")
        #expect(try await authority.account(ana.account).0.email == "ana@example.org")

        let code = try await world.code(to: "ana@example.net")
        let (signedIn, _) = try await authority.verifyEmailChange(CodeRequest(code: code), ana)
        #expect(signedIn.account.email == "ana@example.net")
        #expect(try await !world.isLive(ana))
        #expect(try await world.signIn("ana@example.net").account.id == ana.account)
        let old = await problem { () throws(Problem) in try await world.signIn() }
        #expect(old?.code == .credentialsInvalid)
        #expect(try await authority.account(email: "ana@example.org") == nil)
    }

    /// A thief of the old password may have requested them.
    @Test func `a new password voids the codes for another address and another device`()
        async throws
    {
        let ana = try await world.registered()
        _ = try await request(ana)
        let code = try await world.code(to: "ana@example.net")
        let move = try await authority.issueMoveCode(ana, MoveCodeRequest())
        let change = PasswordChange(current: "correct horse", password: "battery staple")
        let (signedIn, _) = try await authority.changePassword(change, ana, from: nil)

        let identity = try await world.identity(of: signedIn)
        #expect(await refusal(code, identity)?.code == .verificationFailed)
        let device = RedeemRequest(
            code: move.code,
            deviceId: "another-device-of-ana",
            deviceSecret: Base64URL.encode([UInt8](repeating: 9, count: 32))
        )
        let refused = await problem { () throws(Problem) in
            try await authority.redeemMoveCode(device, from: nil)
        }
        #expect(refused?.code == .moveCodeInvalid)
    }

    @Test func `the old address receives a notice that hides the new one`() async throws {
        let ana = try await world.registered()
        let earlier = try await world.mails(to: "ana@example.org")
        _ = try await request(ana)
        #expect(try await world.mails(to: "ana@example.org") == earlier)
        let code = try await world.code(to: "ana@example.net")
        _ = try await authority.verifyEmailChange(CodeRequest(code: code), ana)
        let new = try await world.mails(to: "ana@example.org").filter { !earlier.contains($0) }
        #expect(new.map(\.subject) == ["Your e-mail address for Sanguine was changed"])
        #expect(new.first?.text.contains("a•••@example.net") == true)
        #expect(new.first?.text.contains("ana@example.net") == false)
    }

    @Test func `the old address is free again`() async throws {
        let ana = try await world.registered(1)
        _ = try await request(ana)
        let code = try await world.code(to: "ana@example.net")
        _ = try await authority.verifyEmailChange(CodeRequest(code: code), ana)
        let other = try await world.registered(2, "ana@example.org", "battery staple")
        #expect(other.account != ana.account)
    }

    @Test func `a wrong password sends no code`() async throws {
        let ana = try await world.registered()
        let refused = await problem { () throws(Problem) in
            try await request(ana, "ana@example.net", "wrong horse")
        }
        #expect(refused?.code == .credentialsInvalid)
        #expect(try await world.mails(to: "ana@example.net").isEmpty)
    }

    @Test func `an address that is bound elsewhere is taken, but only with its code`()
        async throws
    {
        let ana = try await world.registered(1)
        _ = try await world.registered(2, "ben@example.org")
        let earlier = try await world.mails(to: "ben@example.org")
        _ = try await request(ana, "ben@example.org")
        let code = try await world.code(to: "ben@example.org", after: earlier)
        #expect(await refusal(EmailWorld.wrong(code), ana)?.code == .verificationFailed)
        #expect(await refusal(code, ana)?.code == .emailTaken)
        #expect(try await authority.account(ana.account).0.email == "ana@example.org")
    }

    @Test func `a code for a registration does not change an address`() async throws {
        let guest = try await world.guest()
        let code = try await world.upgrade(guest)
        #expect(await refusal(code, guest)?.code == .verificationFailed)
    }

    @Test func `a new password voids the code of a new address`() async throws {
        let ana = try await world.registered()
        _ = try await request(ana)
        let code = try await world.code(to: "ana@example.net")
        let (changed, _) = try await authority.changePassword(
            PasswordChange(current: "correct horse", password: "battery staple"),
            ana,
            from: nil
        )
        let session = try await world.identity(of: changed)
        #expect(await refusal(code, session)?.code == .verificationFailed)
        #expect(
            try await world.signIn("ana@example.org", "battery staple").account.id == ana.account
        )
    }
}
