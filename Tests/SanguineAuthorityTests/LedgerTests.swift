import SanguineModel
import TestSupport
import Testing

@testable import SanguineAuthority

/// The decisions on spending, granting and holding.
@Suite("Ledger", .bounded)
struct LedgerTests {
    private let account = Identifier.numbered(1)
    private let ledger = LedgerCommands()

    private func spend(_ key: String, _ amount: Int64, _ reason: String = "tea") -> Command<Answer>
    {
        ledger.spend(account, Submission(key, SpendRequest(amount: amount, reason: reason)))
    }

    private func grant(_ key: String, _ amount: Int64) -> Command<Answer> {
        ledger.grant(account, Submission(key, SpendRequest(amount: amount, reason: "gift")))
    }

    @Test func `spending subtracts its amount and takes the next number of the feed`() throws {
        var world = World(account, granted: 100)
        let head = try #require(world.balance(account)).head
        let answer = try world.perform(spend("k", 3))

        #expect(answer.stored.status == 200 && answer.stored.head == head + 1)
        #expect(try answer.balance.available == 97)
        #expect(try answer.balance.head == head + 1)
        #expect(world.finding(account) == nil)
    }

    @Test func `the whole balance can be spent, and no more`() throws {
        var world = World(account, granted: 100)
        let tooMuch = try world.mustRefuse(spend("more", 101))

        #expect(tooMuch.code == .insufficientTokens && tooMuch.status == 402)
        #expect((tooMuch.available, tooMuch.held, tooMuch.required) == (100, 0, 101))
        #expect(try world.perform(spend("all", 100)).balance.available == 0)
        #expect(world.refusal(spend("one", 1))?.code == .insufficientTokens)
    }

    @Test func `a refused spend changes nothing`() {
        var world = World(account, granted: 100)
        let before = world.rows

        #expect(world.refusal(spend("k", 101)) != nil)
        #expect(world.rows == before)
        #expect(world.transfers[account]?.count == 1)
    }

    @Test func `one of two spends that together exceed the balance is refused`() throws {
        var world = World(account, granted: 100)

        #expect(try world.perform(spend("a", 60)).balance.available == 40)
        #expect(world.refusal(spend("b", 60))?.available == 40)
        #expect(world.balance(account)?.available == 40)
    }

    @Test(arguments: [0, -1, .min, WireLimits.amount + 1, .max])
    func `an amount outside the limits is invalid`(amount: Int64) {
        var world = World(account, granted: 100)

        #expect(world.refusal(spend("s", amount))?.code == .invalidContent)
        #expect(world.refusal(grant("g", amount))?.code == .invalidContent)
        let hold = ledger.hold(account, Submission("h", HoldRequest(amount: amount)))
        #expect(world.refusal(hold)?.code == .invalidContent)
    }

    @Test func `the largest amount can be granted and held, and no more`() throws {
        var world = World(account, granted: 0)
        let most = WireLimits.amount

        #expect(try world.perform(grant("g", most)).balance.available == most)
        #expect(world.refusal(grant("g2", 1))?.code == .invalidContent)
        _ = try world.perform(ledger.hold(account, Submission("h", HoldRequest(amount: most))))
        #expect(world.refusal(grant("g3", 1))?.code == .invalidContent)
        #expect(world.finding(account) == nil)
    }

    @Test(arguments: [
        "", String(repeating: "x", count: 201), "tea\u{0}", "line\nline", "\u{85}",
        // One character with a thousand combining marks.
        "e" + String(repeating: "\u{301}", count: 1_000),
    ])
    func `a reason is plain text of 1 to 200 characters`(reason: String) {
        var world = World(account, granted: 100)

        #expect(world.refusal(spend("k", 1, reason))?.code == .invalidContent)
    }

    @Test(arguments: ["x", String(repeating: "é", count: 200), String(repeating: "👍🏽", count: 200)])
    func `a reason in any script is stored unchanged`(reason: String) throws {
        var world = World(account, granted: 100)
        _ = try world.perform(spend("k", 1, reason))

        #expect(world.transfers[account]?.last?.entry.reason == reason)
    }

    @Test func `a missing account is not found`() {
        var world = World()

        #expect(world.refusal(spend("k", 1))?.code == .notFound)
    }

    @Test func `the listed entries add up to the available amount`() throws {
        var world = World(account, granted: 100)
        _ = try world.perform(spend("a", 7))
        let first = try world.perform(
            ledger.hold(account, Submission("b", HoldRequest(amount: 20)))
        )
        let second = try world.perform(
            ledger.hold(account, Submission("c", HoldRequest(amount: 5)))
        )
        let one = try first.message(HoldAnswer.self).hold.id
        let two = try second.message(HoldAnswer.self).hold.id
        _ = try world.perform(
            ledger.capture(one, account, Submission("d", CaptureRequest(amount: 12)))
        )
        _ = try world.perform(ledger.release(two, account, Submission("e")))

        let entries = try #require(world.transfers[account]).map(\.entry)
        #expect(
            entries.map(\.kind) == [.grant, .spend, .hold, .hold, .release, .capture, .release]
        )
        #expect(entries.map(\.amount) == [100, -7, -20, -5, 20, -12, 5])
        var sum: Int64 = 0
        for entry in entries {
            sum += entry.amount
            #expect(entry.balanceAfter == sum)
        }
        #expect(world.balance(account)?.available == sum)
    }

    @Test func `the books sum to zero, and only those of the system are negative`() throws {
        var world = World(account, granted: 100)
        _ = try world.perform(spend("a", 7))
        _ = try world.perform(ledger.hold(account, Submission("b", HoldRequest(amount: 20))))

        var books: [Book: Int64] = [:]
        for transfer in try #require(world.transfers[account]) {
            books[transfer.debit, default: 0] -= transfer.amount
            books[transfer.credit, default: 0] += transfer.amount
        }
        #expect(books == [.grants: -100, .available: 73, .held: 20, .revenue: 7])
        #expect(books.values.reduce(0, +) == 0)
    }

    @Test func `each change takes exactly one number of the feed, regardless of its transfers`()
        throws
    {
        var world = World(account, granted: 100)
        let hold = try world.perform(ledger.hold(account, Submission("h", HoldRequest(amount: 9))))
        let id = try hold.message(HoldAnswer.self).hold.id
        let capture = ledger.capture(id, account, Submission("c", CaptureRequest(amount: 4)))
        let captured = try world.perform(capture)

        #expect(captured.stored.head == (hold.stored.head ?? 0) + 1)
        #expect(world.transfers[account]?.suffix(2).map(\.seq) == [4, 4])
        #expect(try world.perform(capture).stored.head == captured.stored.head)
    }

    @Test func `a clock that is set back does not decrease the time of a balance`() throws {
        var world = World(account, granted: 100)
        let past = LedgerCommands(at: ManualClock.start - .seconds(86_400))
        let request = SpendRequest(amount: 1, reason: "tea")
        let answer = try world.perform(past.spend(account, Submission("k", request)))

        #expect(try answer.balance.asOf == ManualClock.start)
        #expect(world.transfers[account]?.last?.at == ManualClock.start)
    }
}
