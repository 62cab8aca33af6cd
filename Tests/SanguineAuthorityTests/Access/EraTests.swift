import SanguineModel
import TestSupport
import Testing

@testable import SanguineAuthority

/// The end of all access to an account in one commit.
@Suite("Eras of access", .bounded)
struct EraTests {
    private let world = AccessWorld()
    private var authority: Authority { world.authority }

    /// Nothing but the first commit, as after a crash.
    @Test func `one commit ends any number of sessions, in this process and the next`()
        async throws
    {
        let ana = try await world.email.registered()
        var sessions: [Session] = []
        for _ in 1...40 { sessions.append(try await world.email.signIn().session) }
        for session in sessions { _ = try await authority.tokens.verify(session.accessToken) }
        try await authority.perform(authority.identity.beginEra(of: ana.account, except: nil))
        authority.tokens.review(ana.account)

        let next = Authority(
            storage: world.email.storage,
            keys: authority.keys,
            settings: authority.settings,
            clock: world.clock
        )
        for session in sessions {
            for process in [authority, next] {
                let access = await problem { () throws(Problem) in
                    try await process.tokens.verify(session.accessToken)
                }
                #expect(access?.code == .sessionEnded)
                let refresh = await problem { () throws(Problem) in
                    let request = RefreshRequest(refreshToken: session.refreshToken)
                    return try await process.refresh(request)
                }
                #expect(refresh?.code == .sessionEnded)
            }
        }
        #expect(try await authority.sessions(of: ana.account).items.isEmpty)
    }

    @Test func `sessions of earlier eras are marked, and later ones are not`() async throws {
        let ana = try await world.email.registered()
        for _ in 1...40 { _ = try await world.email.signIn() }
        try await authority.perform(authority.identity.beginEra(of: ana.account, except: nil))
        let later = try await world.email.identity(of: try await world.email.signIn())
        #expect(await authority.eraBegan(of: ana.account) == 41)
        #expect(try await world.email.isLive(later))
        _ = try await authority.tokens.verify(
            try await authority.tokens.issue(for: later)
        )
    }

    @Test func `a session that is being opened does not survive the end of all access`()
        async throws
    {
        let ana = try await world.email.registered()
        let opened = try await authority.perform(authority.identity.signIn(ana.account)).session
        try await authority.endSessions(of: ana.account)
        let refused = await problem { () throws(Problem) in try await authority.issue(opened) }
        #expect(refused?.code == .sessionEnded)
    }

    @Test(arguments: EndOfAccess.allCases)
    func `an open code of another device ends with all access`(end: EndOfAccess) async throws {
        let ana = try await world.email.registered()
        let code = try await authority.issueMoveCode(ana, MoveCodeRequest()).code
        try await end.perform(world, ana)
        let refused = await problem { () throws(Problem) in try await world.redeem(code, 2) }
        #expect(refused?.code == .moveCodeInvalid)
        let later = try await world.open(2)
        #expect(later.isNew)
    }

    @Test func `an open code of a guest ends when the guest registers`() async throws {
        let guest = try await world.email.guest()
        let code = try await authority.issueMoveCode(guest, MoveCodeRequest()).code
        let ana = try await world.email.registered()
        #expect(ana.account == guest.account)
        let refused = await problem { () throws(Problem) in try await world.redeem(code, 2) }
        #expect(refused?.code == .moveCodeInvalid)
    }

    @Test func `a repeated redemption is refused after all access has ended`() async throws {
        let ana = try await world.email.registered()
        let code = try await authority.issueMoveCode(ana, MoveCodeRequest()).code
        _ = try await world.redeem(code, 2)
        #expect(try await world.redeem(code, 2).account.id == ana.account)
        try await authority.endSessions(of: ana.account)
        let refused = await problem { () throws(Problem) in try await world.redeem(code, 2) }
        #expect(refused?.code == .moveCodeInvalid)
    }
}
