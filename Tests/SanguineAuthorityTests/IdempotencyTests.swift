import SanguineModel
import TestSupport
import Testing

@testable import SanguineAuthority

@Suite("Idempotency", .bounded)
struct IdempotencyTests {
    private let account = Identifier.numbered(1)
    private let ledger = LedgerCommands()
    private let calls = CallCommands(now: ManualClock.start)

    private func spend(_ key: String, _ amount: Int64) -> Command<Answer> {
        ledger.spend(account, Submission(key, SpendRequest(amount: amount, reason: "tea")))
    }

    @Test func `the same request with the same key gets the same bytes`() throws {
        var world = World(account, granted: 100)
        let first = try world.perform(spend("k", 3))
        _ = try world.perform(spend("other", 5))
        let rows = world.rows
        let again = try world.perform(spend("k", 3))

        #expect(!first.replayed && again.replayed)
        #expect(again.stored == first.stored)
        #expect(world.rows == rows)
    }

    @Test func `another request with the same key is refused, regardless of its content`() throws {
        var world = World(account, granted: 100)
        _ = try world.perform(spend("k", 3))

        #expect(world.refusal(spend("k", 4))?.code == .idempotencyMismatch)
        #expect(world.refusal(spend("k", -4))?.code == .idempotencyMismatch)
        #expect(world.refusal(spend("k", 4_000))?.code == .idempotencyMismatch)
        let hold = ledger.hold(account, Submission("k", HoldRequest(amount: 3)))
        #expect(world.refusal(hold)?.code == .idempotencyMismatch)
    }

    @Test func `a key belongs to its account`() throws {
        var world = World(account, granted: 100)
        let other = Identifier.numbered(2)
        world.open(other, granted: 100)
        _ = try world.perform(spend("k", 3))
        let theirs = ledger.spend(other, Submission("k", SpendRequest(amount: 9, reason: "tea")))

        #expect(try world.perform(theirs).balance.available == 91)
    }

    @Test func `a running operation tells the client to wait`() throws {
        var world = World(account, granted: 100)
        let call = calls.start(account, Submission("k", hold: 5))
        _ = try world.perform(call)
        let refused = try world.mustRefuse(call)

        #expect(refused.code == .operationInProgress && refused.status == 409)
        #expect(refused.retryAfter == 1)
    }

    @Test func `an operation with a dropped answer does not run again`() throws {
        var world = World(account, granted: 100)
        _ = try world.perform(spend("k", 3))
        var row = try #require(world.operation(account, "k"))
        row.state = .forgotten
        world.store(.put(.operation(row)))

        #expect(world.refusal(spend("k", 3))?.code == .idempotencyExpired)
        #expect(world.refusal(spend("k", 4))?.code == .idempotencyMismatch)
        #expect(world.balance(account)?.available == 97)
    }

    @Test func `a refused payment is not stored, so the key can be used again`() throws {
        var world = World(account, granted: 2)

        #expect(world.refusal(spend("k", 3))?.status == 402)
        #expect(world.operation(account, "k") == nil)
        let gift = SpendRequest(amount: 10, reason: "gift")
        _ = try world.perform(ledger.grant(account, Submission("g", gift)))
        #expect(try world.perform(spend("k", 3)).balance.available == 9)
    }

    @Test func `a call that is unavailable now is not stored`() throws {
        var world = World(account, granted: 10)
        let busy = Problem(.overloaded, "Wait.", retryAfter: 1)
        let refused = calls.start(account, Submission("k", hold: 5, unavailable: busy))
        let before = world.rows

        #expect(world.refusal(refused) == busy)
        #expect(world.rows == before)
    }

    /// Each step corrects one more thing; the refusal is always the first that remains.
    @Test func `refusals are decided in the order of the contract`() throws {
        let invalid = Problem(.invalidContent, "Set it.")
        let busy = Problem(.overloaded, "Wait.", retryAfter: 1)
        let dear = Submission<CallTerms>("k", hold: 500, unavailable: busy)
        let fair = Submission<CallTerms>("k", hold: 5, unavailable: busy)
        let wrong = Submission<CallTerms>("k", refused: invalid)

        // Without an account: not found comes first.
        var world = World()
        #expect(world.refusal(calls.start(account, wrong))?.code == .notFound)
        // Another request with a running key: mismatch, before invalid content.
        world = World(account, granted: 100)
        _ = try world.perform(calls.start(account, Submission("k", hold: 1, input: "else")))
        #expect(world.refusal(calls.start(account, wrong))?.code == .idempotencyMismatch)
        #expect(world.refusal(calls.start(account, dear))?.code == .idempotencyMismatch)
        // The same running request: in progress, before its price is checked.
        world = World(account, granted: 100)
        _ = try world.perform(calls.start(account, Submission("k", hold: 1)))
        #expect(world.refusal(calls.start(account, dear))?.code == .operationInProgress)
        // A new key: invalid content, then insufficient tokens, then unavailable.
        world = World(account, granted: 100)
        #expect(world.refusal(calls.start(account, wrong)) == invalid)
        #expect(world.refusal(calls.start(account, dear))?.code == .insufficientTokens)
        #expect(world.refusal(calls.start(account, fair)) == busy)
        #expect(try world.perform(calls.start(account, Submission("k", hold: 5))).call?.key == "k")
    }

    @Test func `a capture checks its hold first, then its key, then its content`() throws {
        var world = World(account, granted: 100)
        let placed = try world.perform(
            ledger.hold(account, Submission("h", HoldRequest(amount: 9)))
        )
        let id = try placed.message(HoldAnswer.self).hold.id
        func capture(_ id: Identifier, _ key: String, _ amount: Int64) -> Command<Answer> {
            ledger.capture(id, account, Submission(key, CaptureRequest(amount: amount)))
        }

        #expect(world.refusal(capture(.numbered(9), "h", -1))?.code == .notFound)
        #expect(world.refusal(capture(id, "h", -1))?.code == .idempotencyMismatch)
        #expect(world.refusal(capture(id, "c", -1))?.code == .invalidContent)
        _ = try world.perform(ledger.release(id, account, Submission("r")))
        #expect(world.refusal(capture(id, "c", 10))?.code == .invalidContent)
        #expect(world.refusal(capture(id, "c", 9))?.code == .holdSettled)
    }

    @Test func `a fingerprint distinguishes parts that are equal when joined`() {
        #expect(Fingerprint("ab", "c") != Fingerprint("a", "bc"))
        #expect(Fingerprint("ab") != Fingerprint("ab", ""))
        #expect(Fingerprint("ab", "c") == Fingerprint("ab", "c"))
        #expect(Fingerprint("é") != Fingerprint("e\u{301}"))
        // The SHA-256 of eight zero bytes: one empty part.
        #expect(Fingerprint("").bytes.prefix(4) == [0xAF, 0x55, 0x70, 0xF5])
    }
}
