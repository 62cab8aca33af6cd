import SanguineModel
import TestSupport
import Testing

@testable import SanguineAuthority

/// Requests for which a copy of an access token is not enough.
@Suite("Proof of the user's own device", .bounded)
struct FreshProofTests {
    private let world = AccessWorld()
    private var authority: Authority { world.authority }

    /// A registered account whose session is older than ten minutes, without an e-mail address.
    private func old() async throws -> (Identity, refreshToken: String) {
        let guest = try await world.email.guest()
        let name = Login.Name.identity(provider: "example", subject: "ana")
        let signedIn = try await authority.register(name, email: nil, guest).0
        world.clock.advance(by: .seconds(601))
        return (try await world.email.identity(of: signedIn), signedIn.session.refreshToken)
    }

    private func bind(_ identity: Identity, _ token: String?) async throws(Problem) -> SignedIn {
        let name = Login.Name.identity(provider: "example", subject: "thief")
        return try await authority.register(name, email: nil, refreshToken: token, identity).0
    }

    @Test func `a mere access token binds no login to a registered account`() async throws {
        let (ana, refreshToken) = try await old()
        let refused = await problem { () throws(Problem) in try await bind(ana, nil) }
        #expect(refused?.code == .credentialsInvalid)
        let made = await problem { () throws(Problem) in try await bind(ana, "made up") }
        #expect(made?.code == .credentialsInvalid)
        #expect(try await world.email.isLive(ana))
        #expect(try await bind(ana, refreshToken).account.id == ana.account)
    }

    @Test func `a mere access token requests no code for an address of a registered account`()
        async throws
    {
        let (ana, refreshToken) = try await old()
        func upgrade(_ token: String?) async throws(Problem) {
            let request = UpgradeRequest(
                email: "thief@example.org",
                password: "correct horse",
                refreshToken: token
            )
            _ = try await authority.upgrade(request, ana, from: nil)
        }
        let refused = await problem { () throws(Problem) in try await upgrade(nil) }
        #expect(refused?.code == .credentialsInvalid)
        #expect(try await world.email.mails(to: "thief@example.org").isEmpty)
        try await upgrade(refreshToken)
        #expect(try await world.email.mails(to: "thief@example.org").count == 1)
    }

    @Test func `a mere access token issues no code for another device`() async throws {
        let (ana, refreshToken) = try await old()
        func issue(_ token: String?) async throws(Problem) -> MoveCode {
            try await authority.issueMoveCode(ana, MoveCodeRequest(refreshToken: token))
        }
        let refused = await problem { () throws(Problem) in try await issue(nil) }
        #expect(refused?.code == .credentialsInvalid)
        #expect(try await issue(refreshToken).code.count == MoveCodeText.length)
    }

    @Test func `a rotated refresh token, or that of another session, is no proof`() async throws {
        let (ana, refreshToken) = try await old()
        let next = try await authority.refresh(RefreshRequest(refreshToken: refreshToken))
        let other = try await world.open(1).signedIn.session.refreshToken
        for token in [refreshToken, other] {
            let refused = await problem { () throws(Problem) in try await bind(ana, token) }
            #expect(refused?.code == .credentialsInvalid)
        }
        #expect(try await bind(ana, next.refreshToken).account.id == ana.account)
    }

    /// The wire contract has no proof in these requests; a guest's device keeps its access.
    @Test func `a guest registers with its access token, and its device keeps access`()
        async throws
    {
        let guest = try await world.email.guest()
        world.clock.advance(by: .seconds(601))
        let code = try await world.email.upgrade(guest)
        let (signedIn, _) = try await authority.verifyUpgrade(CodeRequest(code: code), guest)
        #expect(signedIn.account.id == guest.account)
        #expect(try await world.account(of: 1) == (guest.account, false))
    }

    @Test func `a guest's wrong proof is refused`() async throws {
        let guest = try await world.email.guest()
        let other = try await world.open(1).signedIn.session.refreshToken
        let refused = await problem { () throws(Problem) in try await bind(guest, other) }
        #expect(refused?.code == .credentialsInvalid)
    }

    @Test func `an ended session binds no login`() async throws {
        let guest = try await world.email.guest()
        try await authority.signOut(guest)
        let refused = await problem { () throws(Problem) in try await bind(guest, nil) }
        #expect(refused?.code == .sessionEnded)
    }
}
