import SanguineModel
import Testing

@testable import SanguineAuthority

/// Rows in a dictionary, on which commands are performed one after another, without a task.
struct World {
    private(set) var rows: [Key: Row] = [:]
    private(set) var transfers: [Identifier: [Transfer]] = [:]
    /// The sum of the open holds, counted separately for comparison.
    private(set) var openHolds: [Identifier: Int64] = [:]
    /// The accounts that changed since ``takeTouched()``.
    private var touched: Set<Identifier> = []
    private var audits: [Identifier: LedgerAudit] = [:]

    mutating func perform<Outcome>(_ command: Command<Outcome>) throws(Problem) -> Outcome {
        let decision = try command.decide(loaded(command.keys), MemoryRecords())
        for change in decision.changes { store(change) }
        return decision.outcome
    }

    /// Returns the problem with which the command refuses, or `nil`.
    mutating func refusal<Outcome>(_ command: Command<Outcome>) -> Problem? {
        do {
            _ = try perform(command)
            return nil
        } catch {
            return error
        }
    }

    /// Returns the problem with which the command refuses; fails the test if there is none.
    mutating func mustRefuse<Outcome>(_ command: Command<Outcome>) throws -> Problem {
        let problem = refusal(command)
        return try #require(problem)
    }

    func loaded(_ keys: [Key]) -> Loaded {
        var loaded = Loaded()
        for key in keys {
            if let row = rows[key] { loaded.add(row) }
        }
        return loaded
    }

    mutating func takeTouched() -> Set<Identifier> {
        defer { touched.removeAll(keepingCapacity: true) }
        return touched
    }

    mutating func store(_ change: Change) {
        switch change {
        case .put(let row):
            if case .balance(let balance) = row { touched.insert(balance.account) }
            count(rows[row.key], as: -1)
            rows[row.key] = row
            count(row, as: 1)
        case .delete(let key):
            count(rows[key], as: -1)
            rows[key] = nil
        case .append(let transfer):
            touched.insert(transfer.account)
            transfers[transfer.account, default: []].append(transfer)
            audits[transfer.account, default: LedgerAudit(account: transfer.account)].add(transfer)
        case .index, .unindex, .pruneResults, .rehome: break
        }
    }

    func balance(_ account: Identifier) -> BalanceRow? {
        loaded([.balance(account)]).balance(account)
    }

    func hold(_ id: Identifier) -> HoldRow? { loaded([.hold(id)]).hold(id) }

    func operation(_ account: Identifier, _ key: String) -> OperationRow? {
        loaded([.operation(account, key: key)]).operation(account, key: key)
    }

    /// Returns the finding of the ledger audit for the account.
    func finding(_ account: Identifier) -> String? {
        var audit = audits[account] ?? LedgerAudit(account: account)
        return audit.finish(balance: balance(account), openHolds: openHolds[account] ?? 0)?.finding
    }

    private mutating func count(_ row: Row?, as sign: Int64) {
        guard case .hold(let hold) = row, hold.state == .open else { return }
        touched.insert(hold.account)
        openHolds[hold.account, default: 0] += sign * hold.amount
    }
}

extension World {
    /// Creates a world with an account and a granted balance.
    init(_ account: Identifier, granted amount: Int64, at now: Timestamp = ManualClock.start) {
        self.init()
        open(account, granted: amount, at: now)
    }

    mutating func open(
        _ account: Identifier,
        granted amount: Int64,
        plan: Account.Plan = .free,
        timeZone: String = "UTC",
        at now: Timestamp = ManualClock.start
    ) {
        let profile = Account(
            id: account,
            kind: .guest,
            timeZone: timeZone,
            language: "en",
            plan: plan,
            createdAt: now
        )
        store(.put(.account(AccountRow(profile: profile, seq: 1))))
        let row = BalanceRow(
            account: account,
            head: 1,
            available: 0,
            held: 0,
            seq: 1,
            changedAt: now
        )
        var draft = LedgerDraft(row, now: now)
        store(.put(.balance(row)))
        guard amount > 0 else { return }
        draft.grant(amount, reason: "welcome")
        for change in draft.changes { store(change) }
    }
}
