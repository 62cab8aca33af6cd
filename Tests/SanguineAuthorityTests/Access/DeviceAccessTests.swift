import SanguineModel
import TestSupport
import Testing

@testable import SanguineAuthority

/// The accounts that the secret of a device opens.
@Suite("Access by the secret of a device", .bounded)
struct DeviceAccessTests {
    private let world = AccessWorld()
    private var authority: Authority { world.authority }

    @Test func `a device opens its guest after its sessions have ended`() async throws {
        let guest = try await world.email.guest()
        try await authority.signOut(guest)
        #expect(try await world.account(of: 1) == (guest.account, false))
        try await authority.endSessions(of: guest.account)
        #expect(try await world.account(of: 1) == (guest.account, false))
    }

    /// The answer to the registration may have been lost.
    @Test func `the device that registered opens the account`() async throws {
        let ana = try await world.email.registered()
        let outcome = try await world.open(1)
        #expect(outcome.signedIn.account.id == ana.account)
        #expect(outcome.signedIn.account.kind == .registered)
    }

    @Test func `another device of the guest does not open the registered account`() async throws {
        let guest = try await world.email.guest()
        let other = try await world.join(2, guest)
        #expect(other.account == guest.account)
        let ana = try await world.email.registered()
        #expect(ana.account == guest.account)

        let (account, isNew) = try await world.account(of: 2)
        #expect(isNew && account != ana.account)
        #expect(try await world.available(account) == 0)
        #expect(try await world.account(of: 1) == (ana.account, false))
    }

    @Test func `a device does not open a registered account after its sign-out`() async throws {
        let ana = try await world.email.registered()
        try await authority.signOut(ana)
        let (account, isNew) = try await world.account(of: 1)
        #expect(isNew && account != ana.account)
        #expect(try await world.available(account) == 0)
        // The device belongs to the new guest.
        #expect(try await world.account(of: 1) == (account, false))
    }

    @Test func `a device does not open a registered account after any of its sessions was revoked`()
        async throws
    {
        let ana = try await world.email.registered()
        let again = try await world.open(1).signedIn
        #expect(again.account.id == ana.account)
        let remote = try await world.email.identity(of: try await world.email.signIn())
        try await authority.endSession(ana.session, of: remote.account)
        #expect(try await world.account(of: 1).isNew)
    }

    @Test(arguments: EndOfAccess.allCases)
    func `no device opens a registered account after all access has ended`(
        end: EndOfAccess
    ) async throws {
        let ana = try await world.email.registered()
        let other = try await world.join(2, ana)
        #expect(try await world.account(of: 2) == (ana.account, false))
        try await end.perform(world, ana)

        #expect(try await world.account(of: 2).isNew)
        // The device that has bound another login keeps its access.
        #expect(try await world.account(of: 1).isNew == (end != .registration))
        let refused = await problem { () throws(Problem) in
            try await authority.issueMoveCode(other, MoveCodeRequest())
        }
        #expect(refused?.code == .sessionEnded)
    }

    @Test func `a sign-out of the others keeps the session and its device`() async throws {
        let ana = try await world.email.registered()
        _ = try await world.join(2, ana)
        try await authority.endSessions(of: ana.account, except: ana.session)
        #expect(try await world.account(of: 2).isNew)
        #expect(try await world.account(of: 1) == (ana.account, false))
        #expect(try await world.email.isLive(ana))
        #expect(try await authority.sessions(of: ana.account).items.map(\.id).contains(ana.session))
    }

    @Test func `a reused refresh token ends the access of its device`() async throws {
        let ana = try await world.email.registered()
        let session = try await world.open(1).signedIn.session
        let request = RefreshRequest(refreshToken: session.refreshToken)
        let next = try await authority.refresh(request)
        _ = try await authority.refresh(RefreshRequest(refreshToken: next.refreshToken))
        let reused = await problem { () throws(Problem) in try await authority.refresh(request) }
        #expect(reused?.code == .refreshReused)
        let (account, isNew) = try await world.account(of: 1)
        #expect(isNew && account != ana.account)
    }

    /// A reinstalled app has lost its session, which has not ended.
    @Test func `a device opens the account after its session has expired`() async throws {
        let ana = try await world.email.registered()
        world.clock.advance(by: authority.settings.refreshTokenLife + .seconds(1))
        #expect(try await world.account(of: 1) == (ana.account, false))
    }

    @Test func `a merge gives access to the device that merged, and to no other of the guest`()
        async throws
    {
        let ana = try await world.email.registered(3)
        let guest = try await world.email.guest()
        _ = try await world.join(2, guest)
        _ = try await authority.merge(guest, into: ana.account)
        #expect(try await world.account(of: 1) == (ana.account, false))
        let (account, isNew) = try await world.account(of: 2)
        #expect(isNew && account != ana.account)
        #expect(try await world.available(account) == 0)
    }

    @Test func `a device that joined a registered account opens it until its session ends`()
        async throws
    {
        let ana = try await world.email.registered()
        let other = try await world.join(2, ana)
        #expect(try await world.account(of: 2) == (ana.account, false))
        try await authority.endSession(other.session, of: ana.account)
        #expect(try await world.account(of: 2).isNew)
        #expect(try await world.account(of: 1) == (ana.account, false))
    }

    @Test func `another secret is refused after the access has ended`() async throws {
        let ana = try await world.email.registered()
        try await authority.signOut(ana)
        var thief = world.device(1)
        thief.deviceSecret = world.device(2).deviceSecret
        let refused = await problem { [thief] () throws(Problem) in
            try await authority.guest(thief)
        }
        #expect(refused?.code == .deviceSecretMismatch)
    }

    // MARK: - Grants

    @Test func `a device whose account was deleted gets no second grant`() async throws {
        let guest = try await world.email.guest()
        #expect(try await world.available(guest.account) == 100)
        _ = try await authority.deleteAccount(guest, DeletionRequest())
        var walk = RemovalWalk()
        while try await authority.removeSome(of: guest.account, &walk) == .removed {}
        let device = try await world.email.storage.load([.device(world.device(1).deviceId)])
        #expect(device.device(world.device(1).deviceId) == nil)

        let outcome = try await world.open(1)
        #expect(outcome.isNew)
        #expect(try await world.available(outcome.signedIn.account.id) == 0)
        let other = try await world.open(2).signedIn.account.id
        #expect(try await world.available(other) == 100)
    }

    // MARK: - Deletion

    @Test func `a device learns that its account was deleted, also without a session`()
        async throws
    {
        let session = try await world.open(1).signedIn.session
        let guest = try await authority.tokens.verify(session.accessToken)
        _ = try await authority.deleteAccount(guest, DeletionRequest())
        func refusal(_ account: Identifier?) async -> ProblemCode? {
            let request = RefreshRequest(refreshToken: session.refreshToken, account: account)
            return await problem { () throws(Problem) in
                try await authority.refresh(request)
            }?.code
        }
        #expect(await refusal(nil) == .accountDeleted)
        try await authority.perform(
            Command(keys: []) { _ in Decision((), changes: [.delete(.session(guest.session))]) },
            evenIfDeleted: true
        )
        #expect(await refusal(guest.account) == .accountDeleted)
        #expect(await refusal(nil) == .refreshInvalid)
        let other = try await world.open(2).signedIn.account.id
        #expect(await refusal(other) == .refreshInvalid)
    }

    @Test func `the fact that a device had a grant names no device, and expires`() throws {
        let fact = DeviceGrant(device: "device-0123456789-1", at: world.clock.now())
        #expect(!String(decoding: fact.row.body, as: UTF8.self).contains("0123456789"))
        #expect(!fact.row.id.contains("0123456789") && fact.row.account == nil)
        #expect(fact.row.expiresAt == world.clock.now() + .seconds(400 * 86_400))
    }
}
