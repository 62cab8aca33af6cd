import SanguineModel
import TestSupport
import Testing

@testable import SanguineAuthority

/// A client's own holds: placed, then captured, released or expired once.
@Suite("Holds", .bounded)
struct HoldTests {
    private let account = Identifier.numbered(1)
    private let other = Identifier.numbered(2)
    private let ledger = LedgerCommands()

    private func place(
        _ amount: Int64,
        for seconds: Int? = nil,
        in world: inout World
    ) throws -> Identifier {
        let request = Submission("place \(amount)", HoldRequest(amount: amount, expiresIn: seconds))
        return try world.perform(ledger.hold(account, request)).message(HoldAnswer.self).hold.id
    }

    private func capture(_ id: Identifier, _ amount: Int64, _ key: String) -> Command<Answer> {
        ledger.capture(id, account, Submission(key, CaptureRequest(amount: amount)))
    }

    private func expire(_ id: Identifier, in world: inout World, after: Int) throws -> Bool {
        let hold = try #require(world.hold(id))
        return try world.perform(
            CallCommands(now: ManualClock.start + .seconds(after)).expire(hold)
        )
    }

    @Test func `a hold reserves its amount and returns its expiry time`() throws {
        var world = World(account, granted: 100)
        let answer = try world.perform(
            ledger.hold(account, Submission("k", HoldRequest(amount: 30, expiresIn: 60)))
        )
        let message = try answer.message(HoldAnswer.self)

        #expect(answer.stored.status == 201)
        #expect(message.hold.amount == 30)
        #expect(message.hold.expiresAt == ManualClock.start + .seconds(60))
        #expect((message.balance.available, message.balance.held) == (70, 30))
    }

    @Test func `a hold lasts ten minutes by default`() throws {
        var world = World(account, granted: 100)
        let id = try place(1, in: &world)

        #expect(world.hold(id)?.expiresAt == ManualClock.start + .seconds(600))
    }

    @Test(arguments: [0, -1, 86_401, .max, .min])
    func `a hold lasts from a second to a day`(seconds: Int) {
        var world = World(account, granted: 100)
        let request = HoldRequest(amount: 1, expiresIn: seconds)

        #expect(
            world.refusal(ledger.hold(account, Submission("k", request)))?.code == .invalidContent
        )
    }

    @Test func `a held amount cannot be spent or held again`() throws {
        var world = World(account, granted: 100)
        _ = try place(70, in: &world)
        let spend = ledger.spend(account, Submission("s", SpendRequest(amount: 31, reason: "x")))
        let refused = try world.mustRefuse(spend)

        #expect((refused.available, refused.held, refused.required) == (30, 70, 31))
        #expect(
            world.refusal(ledger.hold(account, Submission("h", HoldRequest(amount: 31))))?.code
                == .insufficientTokens
        )
    }

    @Test(arguments: [(30, 70), (12, 88), (0, 100)])
    func `a capture charges its amount and releases the rest`(
        amount: Int64,
        available: Int64
    ) throws {
        var world = World(account, granted: 100)
        let id = try place(30, in: &world)
        let balance = try world.perform(capture(id, amount, "c")).balance

        #expect((balance.available, balance.held) == (available, 0))
        #expect(world.hold(id)?.state == .captured(amount))
        #expect(world.finding(account) == nil)
    }

    @Test(arguments: [31, -1, .max, .min])
    func `a capture is at least zero and at most its hold`(amount: Int64) throws {
        var world = World(account, granted: 100)
        let id = try place(30, in: &world)

        #expect(world.refusal(capture(id, amount, "c"))?.code == .invalidContent)
        #expect(world.hold(id)?.state == .open)
    }

    @Test func `settling the same way with a new key changes nothing`() throws {
        var world = World(account, granted: 100)
        let id = try place(30, in: &world)
        let first = try world.perform(capture(id, 12, "one"))
        let count = world.transfers[account]?.count
        let second = try world.perform(capture(id, 12, "two"))

        #expect(second.stored.status == 200 && !second.replayed)
        #expect(try second.balance == first.balance)
        #expect(world.transfers[account]?.count == count)
    }

    @Test func `settling in another way is refused with the way the hold ended`() throws {
        var world = World(account, granted: 100)
        let captured = try place(30, in: &world)
        let released = try place(20, in: &world)
        let expired = try place(10, for: 1, in: &world)
        _ = try world.perform(capture(captured, 12, "c"))
        _ = try world.perform(ledger.release(released, account, Submission("r")))
        #expect(try expire(expired, in: &world, after: 1))
        let before = world.balance(account)

        for (command, end) in [
            (capture(captured, 13, "1"), "captured with 12"),
            (ledger.release(captured, account, Submission("2")), "captured with 12"),
            (capture(released, 0, "3"), "released"),
            (capture(expired, 1, "4"), "expired"),
            (ledger.release(expired, account, Submission("5")), "expired"),
        ] {
            let problem = world.refusal(command)
            #expect(problem?.code == .holdSettled)
            #expect(problem?.detail.contains(end) == true)
        }
        #expect(world.balance(account) == before)
    }

    @Test func `a hold of another account does not exist`() throws {
        var world = World(account, granted: 100)
        world.open(other, granted: 100)
        let id = try place(30, in: &world)
        let theirs = ledger.capture(id, other, Submission("c", CaptureRequest(amount: 1)))

        #expect(world.refusal(theirs)?.code == .notFound)
        #expect(
            world.refusal(ledger.release(id, other, Submission("r")))?.code == .notFound
        )
        #expect(world.hold(id)?.state == .open)
    }

    @Test func `an unknown hold is not found`() {
        var world = World(account, granted: 100)

        #expect(world.refusal(capture(.numbered(9), 1, "c"))?.code == .notFound)
    }

    @Test func `a client cannot settle the hold of a function call`() throws {
        var world = World(account, granted: 100)
        let calls = CallCommands(now: ManualClock.start)
        let start = try world.perform(calls.start(account, Submission("call", hold: 10)))
        let id = try #require(start.call?.hold)

        #expect(world.refusal(capture(id, 0, "c"))?.code == .notFound)
        #expect(world.refusal(ledger.release(id, account, Submission("r")))?.code == .notFound)
        #expect(world.balance(account)?.held == 10)
    }

    @Test func `an expired hold ends once and releases its whole amount`() throws {
        var world = World(account, granted: 100)
        let id = try place(30, for: 60, in: &world)

        #expect(try !expire(id, in: &world, after: 59))
        #expect(try expire(id, in: &world, after: 60))
        #expect(try !expire(id, in: &world, after: 61))
        #expect(world.balance(account)?.available == 100)
        #expect(world.transfers[account]?.last?.kind == .expire)
        #expect(world.finding(account) == nil)
    }

    @Test func `an expiry after the capture changes nothing`() throws {
        var world = World(account, granted: 100)
        let id = try place(30, for: 60, in: &world)
        let seen = try #require(world.hold(id))
        _ = try world.perform(capture(id, 30, "c"))
        // The sweep listed the hold before the capture was committed.
        let ended = try world.perform(
            CallCommands(now: ManualClock.start + .seconds(60)).expire(seen)
        )

        #expect(!ended)
        #expect(world.balance(account)?.available == 70)
    }
}
