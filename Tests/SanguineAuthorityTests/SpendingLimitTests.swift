import SanguineModel
import TestSupport
import Testing

@testable import SanguineAuthority

/// The amount that an account may spend per day.
@Suite("Spending limit", .bounded)
struct SpendingLimitTests {
    private let account = Identifier.numbered(1)

    private func ledger(_ limit: Int64? = 20, after seconds: Int = 0) -> LedgerCommands {
        var ledger = LedgerCommands(at: ManualClock.start + .seconds(seconds))
        ledger.spendingPerDay = limit
        return ledger
    }

    private func spend(_ amount: Int64, _ key: String, after seconds: Int = 0) -> Command<Answer> {
        ledger(after: seconds).spend(
            account,
            Submission(key, SpendRequest(amount: amount, reason: "tea"))
        )
    }

    private func place(_ amount: Int64, in world: inout World) throws -> Identifier {
        let request = Submission("hold \(amount)", HoldRequest(amount: amount))
        return try world.perform(ledger().hold(account, request)).message(HoldAnswer.self).hold.id
    }

    @Test func `spends and holds of one day stay within the limit`() throws {
        var world = World(account, granted: 100)
        _ = try world.perform(spend(12, "a"))
        _ = try place(8, in: &world)

        let refused = try world.mustRefuse(spend(1, "b"))
        #expect(refused.code == .spendingLimitReached && refused.status == 402)
        #expect(refused.required == 1)
        let resetsAt = try #require(refused.resetsAt)
        #expect(resetsAt > ManualClock.start)
        #expect(refused.retryAfter == (resetsAt - ManualClock.start).secondsRoundedUp)
    }

    @Test func `a capture counts with its charge, and a release does not count`() throws {
        var world = World(account, granted: 100)
        let first = try place(8, in: &world)
        let second = try place(12, in: &world)
        let capture = Submission("capture", CaptureRequest(amount: 3))
        _ = try world.perform(ledger().capture(first, account, capture))
        _ = try world.perform(ledger().release(second, account, Submission("release")))

        #expect(world.balance(account)?.spending.period?.used == 3)
        #expect(world.refusal(spend(17, "a")) == nil)
        #expect(world.refusal(spend(1, "b"))?.code == .spendingLimitReached)
    }

    @Test func `the next day begins with the whole limit`() throws {
        var world = World(account, granted: 100)
        _ = try world.perform(spend(20, "a"))

        #expect(world.refusal(spend(20, "b", after: 86_400)) == nil)
    }

    @Test func `a hold belongs to the day on which it was placed`() throws {
        var world = World(account, granted: 100)
        let id = try place(20, in: &world)
        _ = try world.perform(spend(20, "a", after: 86_400))
        let tomorrow = ledger(after: 86_400)

        _ = try world.perform(tomorrow.release(id, account, Submission("release")))
        #expect(world.refusal(spend(1, "b", after: 86_400))?.code == .spendingLimitReached)
    }

    @Test func `another time zone never begins a second day`() throws {
        var world = World(account, granted: 100)
        _ = try world.perform(spend(20, "a"))
        var row = try #require(world.loaded([.account(account)]).account(account))
        row.profile.timeZone = "Pacific/Kiritimati"
        world.store(.put(.account(row)))

        #expect(world.refusal(spend(1, "b"))?.code == .spendingLimitReached)
    }

    @Test func `an account's own limit replaces the server's until it is removed`() throws {
        var world = World(account, granted: 100)
        func set(_ limit: Int64?, _ key: String) throws {
            let request = SpendingLimitRequest(perDay: limit, reason: "asked by mail")
            _ = try world.perform(ledger().limit(account, Submission(key, request)))
        }
        try set(50, "first")
        #expect(world.refusal(spend(40, "a")) == nil)
        try set(nil, "second")
        #expect(world.refusal(spend(1, "b"))?.code == .spendingLimitReached)
        #expect(world.transfers[account]?.last?.reason == "spending per day default: asked by mail")
        #expect(world.finding(account) == nil)
    }

    @Test func `a balance without a limit counts nothing`() throws {
        var world = World(account, granted: 100)
        let spend = SpendRequest(amount: 90, reason: "tea")
        _ = try world.perform(ledger(nil).spend(account, Submission("a", spend)))

        #expect(world.balance(account)?.spending == Spending())
    }

    @Test func `the hold of a call counts towards the limit`() throws {
        var world = World(account, granted: 100)
        var calls = CallCommands(now: ManualClock.start)
        calls.spendingPerDay = 20

        #expect(world.refusal(calls.start(account, Submission("a", hold: 15))) == nil)
        let refusal = world.refusal(calls.start(account, Submission("b", hold: 15, input: "b")))
        #expect(refusal?.code == .spendingLimitReached)
    }
}
