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

    /// A world in which guests need the proof, with an account and an old session of a guest.
    private func demanding() async throws -> (AccessWorld, guest: Identity, refreshToken: String) {
        let world = AccessWorld { $0.guestsNeedProof = true }
        _ = try await world.email.registered()
        let signedIn = try await world.open(7).signedIn
        world.clock.advance(by: .seconds(601))
        let guest = try await world.email.identity(of: signedIn)
        return (world, guest, signedIn.session.refreshToken)
    }

    /// Signs in to the account, which merges the guest.
    private func merge(
        _ guest: Identity,
        _ token: String?,
        _ world: AccessWorld
    ) async throws(Problem) -> SignedIn {
        let request = SessionRequest(
            email: "ana@example.org",
            password: "correct horse",
            refreshToken: token
        )
        return try await world.authority.signIn(request, as: guest, from: nil)
    }

    @Test func `a mere access token neither registers nor merges a guest if guests need the proof`()
        async throws
    {
        let (world, guest, refreshToken) = try await demanding()
        let merged = await problem { () throws(Problem) in try await merge(guest, nil, world) }
        #expect(merged?.code == .credentialsInvalid)
        let name = Login.Name.identity(provider: "example", subject: "thief")
        let bound = await problem { () throws(Problem) in
            try await world.authority.register(name, email: nil, guest)
        }
        #expect(bound?.code == .credentialsInvalid)
        let upgrade = UpgradeRequest(email: "thief@example.org", password: "correct horse")
        let upgraded = await problem { () throws(Problem) in
            try await world.authority.upgrade(upgrade, guest, from: nil)
        }
        #expect(upgraded?.code == .credentialsInvalid)
        #expect(try await world.authority.account(guest.account).0.kind == .guest)

        let signedIn = try await merge(guest, refreshToken, world)
        #expect(signedIn.merged?.from == guest.account)
        // The answer was lost. The merge is done, so its repetition needs no proof.
        #expect(try await merge(guest, nil, world).account.id == signedIn.account.id)
    }

    @Test func `a wrong proof merges nothing if guests need the proof`() async throws {
        let (world, guest, refreshToken) = try await demanding()
        let other = try await world.open(8).signedIn.session.refreshToken
        _ = try await world.authority.refresh(RefreshRequest(refreshToken: refreshToken))
        for token in [other, refreshToken, "made up"] {
            let refused = await problem { () throws(Problem) in
                try await merge(guest, token, world)
            }
            #expect(refused?.code == .credentialsInvalid)
        }
        let offer = try await world.authority.previewMerge(
            of: guest,
            into: try await world.email.signIn().account.id
        )
        let refused = await problem { () throws(Problem) in
            try await world.authority.merge(guest, MergeRequest(mergeToken: offer.mergeToken))
        }
        #expect(refused?.code == .credentialsInvalid)
        #expect(try await world.authority.account(guest.account).0.kind == .guest)
    }

    @Test func `a guest is merged without a proof by default, and within ten minutes`()
        async throws
    {
        _ = try await world.email.registered()
        let old = try await world.email.guest(2)
        world.clock.advance(by: .seconds(601))
        #expect(try await merge(old, "made up", world).merged?.from == old.account)

        let (strict, _, _) = try await demanding()
        let fresh = try await strict.email.guest(3)
        #expect(try await merge(fresh, nil, strict).merged?.from == fresh.account)
    }

    /// Without the setting, no proof is needed; a guest's device keeps its access.
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
