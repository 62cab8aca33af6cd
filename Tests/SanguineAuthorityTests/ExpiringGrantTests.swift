import SanguineModel
import TestSupport
import Testing

@testable import SanguineAuthority

/// Grants with an expiry time: spent first, and gone at their time.
@Suite("Expiring grants", .bounded)
struct ExpiringGrantTests {
    private let account = Identifier.numbered(1)
    private let start = ManualClock.start

    private func ledger(after seconds: Int = 0) -> LedgerCommands {
        LedgerCommands(at: start + .seconds(seconds))
    }

    private func grant(
        _ amount: Int64,
        lasting seconds: Int,
        at now: Int = 0,
        in world: inout World
    ) throws {
        let request = GrantRequest(
            amount: amount,
            reason: "promotion",
            expiresAt: start + .seconds(seconds)
        )
        let key = "grant \(amount) \(seconds)"
        _ = try world.perform(ledger(after: now).grant(account, Submission(key, request)))
    }

    private func spend(_ amount: Int64, after seconds: Int = 0) -> Command<Answer> {
        let request = SpendRequest(amount: amount, reason: "tea")
        return ledger(after: seconds).spend(
            account,
            Submission("spend \(amount) \(seconds)", request)
        )
    }

    private func place(_ amount: Int64, in world: inout World) throws -> Identifier {
        let request = Submission("hold \(amount)", HoldRequest(amount: amount))
        return try world.perform(ledger().hold(account, request)).message(HoldAnswer.self).hold.id
    }

    private func expiring(in world: World) -> [Int64] {
        world.balance(account)?.grants.items.map(\.amount) ?? []
    }

    @Test func `the grant that expires soonest is spent first`() throws {
        var world = World(account, granted: 10)
        try grant(5, lasting: 200, in: &world)
        try grant(5, lasting: 100, in: &world)

        _ = try world.perform(spend(7))
        #expect(expiring(in: world) == [3])
        #expect(world.balance(account)?.grants.next == start + .seconds(200))
        #expect(world.balance(account)?.available == 13)
    }

    @Test func `grants of a deleted account expire as well`() async throws {
        let clock = ManualClock()
        let authority = Authority(storage: MemoryStorage(), keys: SigningKeys(), clock: clock)
        let secret = Base64URL.encode([UInt8](repeating: 7, count: 32))
        let device = GuestRequest(deviceId: "device-0123456789", deviceSecret: secret)
        let account = try await authority.guest(device).signedIn.account.id
        let gift = GrantRequest(
            amount: 5,
            reason: "promotion",
            expiresAt: clock.now() + .seconds(10)
        )
        _ = try await authority.grant(account, Submission("gift", gift))
        let note = AuditNote(actor: "a", role: "owner", action: "b", account: nil, reason: "c")
        _ = try await authority.deleteAccount(account, by: note)
        clock.advance(by: .seconds(10))
        #expect(try await authority.expireGrants() == 1)
        #expect(try await authority.expireGrants() == 0)
    }

    @Test func `tokens that never expire are spent last`() throws {
        var world = World(account, granted: 10)
        try grant(5, lasting: 100, in: &world)

        _ = try world.perform(spend(8))
        #expect(expiring(in: world).isEmpty)
        #expect(try world.perform(ledger(after: 100).expireGrants(of: account)) == false)
        #expect(world.balance(account)?.available == 7)
    }

    @Test func `an expired grant cannot be spent before housekeeping removed it`() throws {
        var world = World(account, granted: 10)
        try grant(5, lasting: 100, in: &world)

        let refused = try world.mustRefuse(spend(11, after: 100))
        #expect(refused.code == .insufficientTokens && refused.available == 10)
        #expect(try world.perform(spend(10, after: 100)).balance.available == 0)
        #expect(world.transfers[account]?.map(\.kind) == [.grant, .grant, .expireGrant, .spend])
        #expect(world.finding(account) == nil)
    }

    @Test func `an expiry takes what is left of the grant and no other token`() throws {
        var world = World(account, granted: 10)
        try grant(5, lasting: 100, in: &world)
        _ = try world.perform(spend(4))

        #expect(try world.perform(ledger(after: 100).expireGrants(of: account)))
        #expect(world.balance(account)?.available == 10)
        #expect(world.transfers[account]?.last?.amount == 1)
        #expect(world.transfers[account]?.last?.entry.amount == -1)
    }

    @Test func `a grant that was spent leaves nothing that a new one could add to`() throws {
        var world = World(account, granted: 0)
        try grant(5, lasting: 100, in: &world)
        _ = try world.perform(spend(5))
        try grant(7, lasting: 200, in: &world)

        #expect(expiring(in: world) == [7])
    }

    @Test func `held tokens outlive their grant, and a capture charges them first`() throws {
        var world = World(account, granted: 10)
        try grant(5, lasting: 100, in: &world)
        let id = try place(8, in: &world)
        #expect(expiring(in: world).isEmpty)

        let capture = Submission("capture", CaptureRequest(amount: 5))
        let answer = try world.perform(ledger(after: 200).capture(id, account, capture))
        #expect(answer.stored.status == 200)
        #expect(try answer.balance.available == 10)
        #expect(world.finding(account) == nil)
    }

    @Test func `released tokens of a grant that has expired are removed at once`() throws {
        var world = World(account, granted: 10)
        try grant(5, lasting: 100, in: &world)
        let id = try place(8, in: &world)

        let release = ledger(after: 200).release(id, account, Submission("release"))
        #expect(try world.perform(release).balance.available == 10)
        #expect(world.transfers[account]?.last?.kind == .expireGrant)
        #expect(world.balance(account)?.held == 0)
    }

    @Test func `a hold that is released in time returns its grant`() throws {
        var world = World(account, granted: 10)
        try grant(5, lasting: 100, in: &world)
        let id = try place(8, in: &world)

        _ = try world.perform(ledger(after: 50).release(id, account, Submission("release")))
        #expect(expiring(in: world) == [5])
    }

    @Test(arguments: [-1, 0, 3_654 * 86_400])
    func `a grant must expire in the future, within ten years`(seconds: Int) {
        var world = World(account, granted: 10)
        let request = GrantRequest(
            amount: 1,
            reason: "gift",
            expiresAt: start + .seconds(seconds)
        )

        let refusal = world.refusal(ledger().grant(account, Submission("k", request)))
        #expect(refusal?.code == .invalidContent)
    }

    @Test func `an account has at most 32 different expiry times`() throws {
        var world = World(account, granted: 0)
        for number in 1...ExpiringGrants.limit { try grant(1, lasting: number, in: &world) }
        let other = GrantRequest(amount: 1, reason: "gift", expiresAt: start + .seconds(99))

        let refusal = world.refusal(ledger().grant(account, Submission("k", other)))
        #expect(refusal?.code == .invalidContent)
        try grant(2, lasting: 32, in: &world)
        #expect(expiring(in: world).count == 32)
    }

    @Test func `the balance shows what expires, and is right at that moment`() async throws {
        let clock = ManualClock()
        let authority = Authority(storage: MemoryStorage(), keys: SigningKeys(), clock: clock)
        let secret = Base64URL.encode([UInt8](repeating: 7, count: 32))
        let guest = GuestRequest(deviceId: "device-0123456789", deviceSecret: secret)
        let account = try await authority.guest(guest).signedIn.account.id
        let moment = clock.now() + .seconds(100)
        let request = GrantRequest(amount: 5, reason: "gift", expiresAt: moment)
        _ = try await authority.grant(account, Submission("k", request))

        let before = try await authority.balance(account)
        #expect(before.available == 105)
        #expect(before.expiring == [ExpiringAmount(amount: 5, at: moment)])
        clock.advance(by: .seconds(100))
        let after = try await authority.balance(account)
        #expect(after.available == 100 && after.expiring == nil)
        #expect(try await authority.verifyLedger().differences.isEmpty)
    }

    @Test func `housekeeping removes the expired grants of idle accounts`() async throws {
        let clock = ManualClock()
        let storage = MemoryStorage()
        let authority = Authority(storage: storage, keys: SigningKeys(), clock: clock)
        let secret = Base64URL.encode([UInt8](repeating: 7, count: 32))
        let guest = GuestRequest(deviceId: "device-0123456789", deviceSecret: secret)
        let account = try await authority.guest(guest).signedIn.account.id
        let moment = clock.now() + .seconds(100)
        let request = GrantRequest(amount: 5, reason: "gift", expiresAt: moment)
        _ = try await authority.grant(account, Submission("k", request))

        #expect(try await authority.expireGrants() == 0)
        clock.advance(by: .seconds(100))
        #expect(try await authority.expireGrants() == 1)
        #expect(try await storage.load([.balance(account)]).balance(account)?.available == 100)
        #expect(try await authority.expireGrants() == 0)
    }

    @Test func `the stored text of grants is read back, and a malformed one is refused`() throws {
        var grants = ExpiringGrants()
        grants.add(3, at: start + .seconds(2))
        grants.add(4, at: start + .seconds(1))

        #expect(ExpiringGrants(text: grants.text) == grants)
        #expect(ExpiringGrants(text: "")?.items.isEmpty == true)
        for text in ["1", "x@1", "1@x", "0@1", "1@2 1@1", "-1@5", "1@1@1"] {
            #expect(ExpiringGrants(text: text) == nil, "\(text)")
        }
    }
}
