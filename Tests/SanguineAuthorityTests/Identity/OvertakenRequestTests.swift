import SanguineModel
import TestSupport
import Testing

@testable import SanguineAuthority

/// Another request changes the account between the look-up of a request and its command.
@Suite("Requests that another request overtakes", .bounded)
struct OvertakenRequestTests {
    private let world = AccessWorld()
    private var email: EmailWorld { world.email }
    private var authority: Authority { world.authority }

    private func change(_ caller: Identity) async -> ProblemCode? {
        await problem { () throws(Problem) in
            try await authority.changePassword(
                PasswordChange(current: "correct horse", password: "battery staple"),
                caller,
                from: nil
            )
        }?.code
    }

    private func verify(_ code: String, _ caller: Identity) async -> ProblemCode? {
        await problem { () throws(Problem) in
            try await authority.verifyUpgrade(CodeRequest(code: code), caller)
        }?.code
    }

    private let identity = Login.Name.identity(provider: "example", subject: "ana")
    private let address = Login.key(Login.Name.email("ana@example.org").text)

    @Test func `a code of a guest that has just registered is refused with its session`()
        async throws
    {
        let guest = try await email.guest()
        let code = try await email.upgrade(guest)
        email.storage.interruptNextLook(at: .account(guest.account)) { [authority, identity] in
            _ = try? await authority.register(identity, email: "ana@example.com", guest)
        }
        #expect(await verify(code, guest) == .sessionEnded)
        #expect(email.storage.wasInterrupted)
        #expect(try await authority.account(guest.account).0.email == "ana@example.com")
    }

    @Test func `a code is confirmed if only the shown address has just been removed`()
        async throws
    {
        let guest = try await email.guest()
        let shown = try await authority.register(identity, email: "ana@example.com", guest).0
        let caller = try await email.identity(of: shown)
        let code = try await email.upgrade(caller)
        let storage = email.storage
        storage.interruptNextLook(at: .account(guest.account)) {
            let loaded = try? await storage.inner.load([.account(caller.account)])
            guard var row = loaded?.account(caller.account) else { return }
            row.profile.email = nil
            let stored = row
            _ = try? await storage.inner.perform(
                Command(keys: []) { _ in Decision((), changes: [.put(.account(stored))]) }
            )
        }
        #expect(await verify(code, caller) == nil)
        #expect(storage.wasInterrupted)
        #expect(try await authority.account(email: "ana@example.org")?.id == caller.account)
    }

    @Test func `a code for a new password is void once the password has changed`()
        async throws
    {
        let ana = try await email.registered()
        let earlier = try await email.mails(to: "ana@example.org")
        let request = PasswordResetRequest(email: "ana@example.org")
        _ = try await authority.requestPasswordReset(request, from: nil)
        let code = try await email.code(to: "ana@example.org", after: earlier)
        email.storage.interruptNextLook(at: address) { [self] in _ = await change(ana) }
        let refusal = await problem { () throws(Problem) in
            try await authority.verifyPasswordReset(
                PasswordResetVerification(
                    email: "ana@example.org",
                    code: code,
                    password: "another horse"
                ),
                from: nil
            )
        }
        #expect(email.storage.wasInterrupted)
        #expect(refusal?.code == .verificationFailed)
        let signedIn = try await email.signIn("ana@example.org", "battery staple")
        #expect(signedIn.account.id == ana.account)
    }

    @Test func `of two changes of a password, the later one is refused with its session`()
        async throws
    {
        let ana = try await email.registered()
        let other = try await email.identity(of: try await email.signIn())
        email.storage.interruptNextLook(at: address) { [self] in _ = await change(other) }
        #expect(await change(ana) == .sessionEnded)
        #expect(email.storage.wasInterrupted)
    }

    @Test func `a password whose login has just been removed cannot be changed`() async throws {
        let ana = try await email.registered()
        let signedIn = try await authority.register(identity, email: nil, ana).0
        let caller = try await email.identity(of: signedIn)
        let login = try #require(
            try await authority.logins(of: ana.account).items.first { $0.kind == .email }
        )
        email.storage.interruptNextLook(at: address) { [authority] in
            _ = try? await authority.removeLogin(login.id, caller, LoginRemoval())
        }
        #expect(await change(caller) == .invalidContent)
        #expect(email.storage.wasInterrupted)
        #expect(try await email.isLive(caller))
    }

    @Test func `an address that has just been verified is not replaced by a provider's`()
        async throws
    {
        let guest = try await email.guest()
        let bound = try await authority.register(identity, email: "ana@example.org", guest).0
        #expect(bound.account.email == "ana@example.org")
        let caller = try await email.identity(of: bound)
        let second = Login.Name.identity(provider: "example", subject: "another")
        let again = try await authority.register(second, email: "eve@example.org", caller).0
        #expect(again.account.email == "ana@example.org")
    }

    @Test func `a request follows a guest that is merged after the look-up`() async throws {
        let owner = try await email.identity(of: world.open(3).signedIn)
        let ana = try await authority.register(identity, email: nil, owner).0.account.id
        let left = try await email.identity(of: world.open(1).signedIn)
        let joined = try await email.identity(of: world.open(2).signedIn)
        #expect(try await world.join(1, joined).account == joined.account)
        email.storage.interruptNextLook(at: .account(joined.account)) { [authority] in
            _ = try? await authority.merge(joined, into: ana)
        }
        let signedIn = try await authority.signIn(left.account).signedIn
        #expect(email.storage.wasInterrupted)
        #expect(signedIn.account.id == ana)
    }
}

/// Another request changes the account of a purchase between the look-up and the command.
@Suite("Purchases that another request overtakes", .bounded)
struct OvertakenPurchaseTests {
    @Test func `a notification follows a guest that is merged after the look-up`() async throws {
        let world = try PurchaseWorld()
        let authority = world.authority
        let session = try await world.guest(1).signedIn.session
        let guest = try await authority.tokens.verify(session.accessToken)
        let other = try await world.guest(2).signedIn.session
        let owner = try await authority.tokens.verify(other.accessToken)
        _ = try await authority.register(.email("ana@example.org"), email: nil, owner)
        let bought = world.store.transaction("1", of: "tokens")
        try await world.purchase(guest.account, bought)
        world.storage.interruptNextLook(at: .account(guest.account)) {
            _ = try? await authority.merge(guest, into: owner.account)
        }
        #expect(try await world.notify("REFUND", "n1", bought, after: 1).result == .applied)
        #expect(world.storage.wasInterrupted)
        #expect(try await world.available(owner.account) == 200)
        #expect(try await world.storage.verifyLedger().differences.isEmpty)
    }

    @Test func `a notification about an account that has just been deleted is acknowledged`()
        async throws
    {
        let world = try PurchaseWorld()
        let authority = world.authority
        let account = try await world.account()
        let bought = world.store.transaction("1", of: "tokens")
        try await world.purchase(account, bought)
        let note = AuditNote(actor: "a", role: "owner", action: "b", account: nil, reason: "c")
        world.storage.interruptNextLook(at: .account(account)) {
            _ = try? await authority.deleteAccount(account, by: note)
        }
        #expect(try await world.notify("REFUND", "n1", bought, after: 1).result == .acknowledged)
        #expect(world.storage.wasInterrupted)
    }

    @Test func `a purchase of a guest that is merged after the look-up is no other account's`()
        async throws
    {
        let world = try PurchaseWorld()
        let authority = world.authority
        let session = try await world.guest(1).signedIn.session
        let guest = try await authority.tokens.verify(session.accessToken)
        let other = try await world.guest(2).signedIn.session
        let owner = try await authority.tokens.verify(other.accessToken)
        _ = try await authority.register(.email("ana@example.org"), email: nil, owner)
        let bought = world.store.transaction("1", of: "tokens")
        try await world.purchase(guest.account, bought)
        world.storage.interruptNextLook(at: .account(guest.account)) {
            _ = try? await authority.merge(guest, into: owner.account)
        }
        let answer = try await world.purchase(owner.account, bought, key: "again")
        #expect(world.storage.wasInterrupted)
        #expect(answer.credited == 100)
        #expect(try await world.available(owner.account) == 300)
    }

    @Test func `a subscription whose account has just been deleted continues in the sender's`()
        async throws
    {
        let world = try PurchaseWorld()
        let authority = world.authority
        let (old, new) = (try await world.account(1), try await world.account(2))
        let end = world.milliseconds(after: 30 * 86_400)
        let month = world.store.transaction("1", of: "premium", ["expiresDate": end])
        try await world.purchase(old, month)
        let note = AuditNote(actor: "a", role: "owner", action: "b", account: nil, reason: "c")
        world.storage.interruptNextLook(at: .account(old)) {
            _ = try? await authority.deleteAccount(old, by: note)
        }
        #expect(try await world.purchase(new, month).plan == .premium)
        #expect(world.storage.wasInterrupted)
    }
}
