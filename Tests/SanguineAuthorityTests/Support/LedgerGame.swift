import Foundation
import SanguineModel
import SanguineTesting
import Testing

@testable import SanguineAuthority

/// Random clients of the ledger and of calls, one event at a time.
///
/// The invariants are checked after each event. At the end, every answer is compared with the
/// ledger.
struct LedgerGame {
    private(set) var world = World()
    private let accounts = (UInt64(1)...4).map { Identifier.numbered($0) }
    private var random: SplitMix64
    private var now = ManualClock.start
    private var nextKey = 0

    /// A request that was sent with a key, so that it can be repeated.
    private enum Sent {
        case spend(SpendRequest)
        case grant(SpendRequest)
        case hold(HoldRequest)
        case capture(Identifier, CaptureRequest)
        case release(Identifier)
        case call(Int64)
    }

    private struct Slot: Hashable {
        var account: Identifier
        var key: String
    }

    private var sent: [Slot: Sent] = [:]
    private var slots: [Slot] = []
    private var answers: [Slot: StoredAnswer] = [:]
    private var holds: [(id: Identifier, account: Identifier)] = []
    private var calls: [AcceptedCall] = []
    /// The numbers of answered, replayed and refused requests.
    private(set) var counts: [String: Int] = [:]

    init(seed: UInt64) {
        random = SplitMix64(seed: seed)
        for account in accounts { world.open(account, granted: 200, at: now) }
    }

    mutating func play() throws {
        now = now + .milliseconds(.random(in: -500...20_000, using: &random))
        switch Int.random(in: 0..<20, using: &random) {
        case 0..<9: try send(newRequest(), under: newSlot())
        case 9..<12: try sendAgain()
        case 12: try sendOtherRequestUnderOldKey()
        case 13..<15: markSent()
        case 15..<18: settle()
        case 18: expire()
        default: if Int.random(in: 0..<20, using: &random) == 0 { restart() }
        }
        for account in world.takeTouched() { try check(account) }
    }

    /// Compares every answer with the ledger at its head.
    func finish() throws {
        let moved = world.transfers.mapValues { transfers in
            Dictionary(transfers.map { ($0.seq, $0) }) { _, last in last }
        }
        for (slot, answer) in answers {
            guard let head = answer.head, answer.status < 300 else { continue }
            let last = try #require(moved[slot.account]?[head])
            let balance = try #require(Self.balance(in: answer))

            #expect(balance.available == last.availableAfter, "\(slot)")
            #expect(balance.held == last.heldAfter, "\(slot)")
            #expect(balance.head == head, "\(slot)")
        }
    }

    private func check(_ account: Identifier) throws {
        let balance = try #require(world.balance(account))
        // Plain comparisons, because a macro for each of a hundred thousand events is slow.
        if balance.available < 0 || balance.held != world.openHolds[account] ?? 0 {
            Issue.record("available \(balance.available), held \(balance.held)")
        }
        if let finding = world.finding(account) { Issue.record("\(finding)") }
    }

    // The body of a spend, a hold or a call; all contain a balance.
    private static func balance(in answer: StoredAnswer) -> Balance? {
        struct Carrier: Decodable { var balance: Balance }
        return try? JSONDecoder().decode(Carrier.self, from: Data(answer.body)).balance
    }
}

extension LedgerGame {
    private mutating func newSlot() -> Slot {
        nextKey += 1
        let account = accounts[.random(in: accounts.indices, using: &random)]
        return Slot(account: account, key: "k\(nextKey)")
    }

    private mutating func newRequest() -> Sent {
        let amount = Int64.random(in: 1...60, using: &random)
        // Occasionally an amount that must be refused.
        let asked = Int.random(in: 0..<20, using: &random) == 0 ? -amount : amount
        switch Int.random(in: 0..<9, using: &random) {
        case 0..<2: return .spend(SpendRequest(amount: asked, reason: "tea"))
        case 2: return .grant(SpendRequest(amount: asked, reason: "gift"))
        case 3..<5:
            let seconds = Int.random(in: 1...3_600, using: &random)
            return .hold(HoldRequest(amount: asked, expiresIn: seconds))
        case 5: return .capture(anyHold(), CaptureRequest(amount: asked))
        case 6: return .release(anyHold())
        default: return .call(max(0, amount - 10))
        }
    }

    /// Mostly a recent hold of any account: holds of others and of calls must be refused.
    private mutating func anyHold() -> Identifier {
        guard !holds.isEmpty else { return .numbered(99) }
        let from = max(0, holds.count - 8)
        return holds[.random(in: from..<holds.count, using: &random)].id
    }

    private mutating func sendAgain() throws {
        guard let slot = anySlot(), let request = sent[slot] else { return }
        try send(request, under: slot)
    }

    private mutating func sendOtherRequestUnderOldKey() throws {
        guard let slot = anySlot(), world.operation(slot.account, slot.key) != nil else { return }
        let other = Submission(slot.key, SpendRequest(amount: 1, reason: "something else"))
        let problem = world.refusal(LedgerCommands(at: now).spend(slot.account, other))
        #expect(problem?.code == .idempotencyMismatch)
    }

    private mutating func anySlot() -> Slot? {
        slots.isEmpty ? nil : slots[.random(in: slots.indices, using: &random)]
    }

    private mutating func send(_ request: Sent, under slot: Slot) throws {
        if sent.updateValue(request, forKey: slot) == nil { slots.append(slot) }
        let before = world.transfers[slot.account]?.count
        do throws(Problem) {
            guard let answer = try perform(request, under: slot) else { return }
            counts[answer.replayed ? "replayed" : "answered", default: 0] += 1
            if answer.replayed || answers[slot] != nil {
                // A repetition gets the same bytes, and nothing changes.
                #expect(answer.replayed && answer.stored == answers[slot])
                #expect(world.transfers[slot.account]?.count == before)
            }
            answers[slot] = answer.stored
        } catch {
            counts["refused", default: 0] += 1
            #expect(world.transfers[slot.account]?.count == before)
            // A request that was answered is never refused later.
            if error.code != .notFound { #expect(answers[slot] == nil, "\(error)") }
        }
    }

    private mutating func perform(_ request: Sent, under slot: Slot) throws(Problem) -> Answer? {
        let ledger = LedgerCommands(at: now)
        let (account, key) = (slot.account, slot.key)
        switch request {
        case .spend(let body):
            return try world.perform(ledger.spend(account, submission(key, body, body.amount)))
        case .grant(let body):
            return try world.perform(ledger.grant(account, submission(key, body, body.amount)))
        case .hold(let body):
            let request = submission(key, body, body.amount)
            let answer = try world.perform(ledger.hold(account, request))
            if !answer.replayed, let id = try? answer.message(HoldAnswer.self).hold.id {
                holds.append((id, account))
            }
            return answer
        case .capture(let id, let body):
            let owner = owner(of: id, or: account)
            guard owner == account else { return try refuse(id, account, key) }
            let request = submission(key, body, body.amount)
            return try world.perform(ledger.capture(id, account, request))
        case .release(let id):
            let owner = owner(of: id, or: account)
            guard owner == account else { return try refuse(id, account, key) }
            return try world.perform(ledger.release(id, account, Submission(key)))
        case .call(let hold):
            let submission = Submission(key, hold: hold, input: "\(hold)")
            switch try world.perform(CallCommands(now: now).start(account, submission)) {
            case .replayed(let answer, _): return answer
            case .accepted(let call):
                #expect(answers[slot] == nil, "A call that was answered was accepted again.")
                calls.append(call)
                if let id = call.hold { holds.append((id, account)) }
                return nil
            }
        }
    }

    // The amount distinguishes these requests, because encoding a hundred thousand is slow.
    private func submission<Content>(
        _ key: String,
        _ content: Content,
        _ amount: Int64
    ) -> Submission<Content> {
        let fingerprint = Fingerprint("", "\(amount)")
        return Submission(key: key, fingerprint: fingerprint, content: .success(content))
    }

    private func owner(of id: Identifier, or account: Identifier) -> Identifier {
        world.hold(id)?.account ?? account
    }

    private mutating func refuse(
        _ id: Identifier,
        _ account: Identifier,
        _ key: String
    ) throws(Problem) -> Answer? {
        let release = LedgerCommands(at: now).release(id, account, Submission(key))
        let problem = world.refusal(release)
        #expect(problem?.code == .notFound)
        return nil
    }
}

extension LedgerGame {
    private mutating func anyCall() -> AcceptedCall? {
        guard !calls.isEmpty else { return nil }
        return calls[.random(in: max(0, calls.count - 12)..<calls.count, using: &random)]
    }

    private mutating func markSent() {
        guard let call = anyCall() else { return }
        _ = world.refusal(CallCommands(now: now).markSent(call))
    }

    /// Settles a call, which may have ended or expired before, or died with its process.
    private mutating func settle() {
        guard let call = anyCall() else { return }
        let slot = Slot(account: call.account, key: call.key)
        let charge = Int64.random(in: -5...60, using: &random)
        let end: CallEnd =
            Bool.random(using: &random)
            ? .failed(Problem(.upstreamFailed, "Call again."))
            : .succeeded(charge: charge) { row, _ in
                let encoder = ResponseEncoder(unit: "tokens")
                return encoder.balance(row).body
            }
        let before = world.transfers[call.account]?.count
        do throws(Problem) {
            let answer = try world.perform(CallCommands(now: now).settle(call, end))
            if let given = answers[slot] {
                #expect(answer.stored == given)
                #expect(world.transfers[call.account]?.count == before)
            }
            // A failure without a charge can run again.
            answers[slot] = answer.stored.isFinal ? answer.stored : nil
        } catch {
            #expect(error.code == .upstreamTimeout)
            #expect(world.transfers[call.account]?.count == before)
        }
    }

    /// Runs the sweep on holds that are due, and on some that are not.
    private mutating func expire() {
        let later = now + .seconds(.random(in: 0...1_200, using: &random))
        if Bool.random(using: &random) { now = later }
        for (id, account) in holds.suffix(40) {
            guard let hold = world.hold(id) else { continue }
            #expect(hold.account == account)
            let wasDue = hold.state == .open && hold.expiresAt <= now
            let ended = (try? world.perform(CallCommands(now: now).expire(hold))) ?? false
            #expect(ended == wasDue)
            if ended, hold.sent, let key = hold.operation {
                answers[Slot(account: account, key: key)] = done(account, key)
            }
        }
    }

    /// Restarts the process: unsent and free calls are deleted, and sent ones are charged.
    private mutating func restart() {
        for call in calls {
            guard let row = world.operation(call.account, call.key),
                row.state == .running(hold: call.hold)
            else { continue }
            let commands = CallCommands(now: now)
            if let id = call.hold, let hold = world.hold(id) {
                #expect((try? world.perform(commands.expire(hold, afterCrash: true))) == true)
                if hold.sent {
                    let slot = Slot(account: call.account, key: call.key)
                    answers[slot] = done(call.account, call.key)
                }
            } else {
                #expect((try? world.perform(commands.abandon(row))) == true)
            }
        }
    }

    private func done(_ account: Identifier, _ key: String) -> StoredAnswer? {
        guard case .done(let answer) = world.operation(account, key)?.state else { return nil }
        return answer
    }
}
