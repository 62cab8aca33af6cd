import SanguineModel

/// The commands of the ledger: each names its keys, and decides as a pure function.
///
/// Every command checks in the order of the wire contract: not found, idempotency, invalid content,
/// insufficient tokens.
struct LedgerCommands: Sendable {
    let encoder: ResponseEncoder
    let now: Timestamp
    let holdLife: Duration
    /// The server's spending limit per day; `nil` for none.
    var spendingPerDay: Int64?

    func spend(_ account: Identifier, _ submission: Submission<SpendRequest>) -> Command<Answer> {
        operation(account, submission, alsoLoading: [.account(account)]) {
            request,
            balance,
            loaded throws(Problem) in
            try Amounts.check(request.amount)
            try Amounts.check(reason: request.reason)
            let rules = loaded.spendingRules(spendingPerDay, of: account, now: now)
            var draft = LedgerDraft(balance, now: now, rules: rules)
            try draft.spend(
                request.amount,
                reason: request.reason,
                labels: submission.labels
            )
            return Draft(draft, answer: encoder.balance(draft.balance))
        }
    }

    func grant(_ account: Identifier, _ submission: Submission<GrantRequest>) -> Command<Answer> {
        operation(account, submission) { request, balance, _ throws(Problem) in
            try Amounts.check(request.amount)
            try Amounts.check(reason: request.reason)
            var draft = LedgerDraft(balance, now: now)
            try Amounts.checkGrant(request.amount, to: draft.balance)
            if let moment = request.expiresAt {
                try Amounts.checkExpiry(moment, of: draft.balance, now: now)
            }
            draft.grant(request.amount, reason: request.reason, expiresAt: request.expiresAt)
            return Draft(draft, answer: encoder.balance(draft.balance))
        }
    }

    func debit(_ account: Identifier, _ submission: Submission<SpendRequest>) -> Command<Answer> {
        operation(account, submission) { request, balance, _ throws(Problem) in
            try Amounts.check(request.amount)
            try Amounts.check(reason: request.reason)
            var draft = LedgerDraft(balance, now: now)
            try draft.debit(request.amount, reason: request.reason)
            return Draft(draft, answer: encoder.balance(draft.balance))
        }
    }

    /// Grants tokens that never expire.
    func grant(_ account: Identifier, _ submission: Submission<SpendRequest>) -> Command<Answer> {
        grant(account, submission.asGrant)
    }

    func hold(_ account: Identifier, _ submission: Submission<HoldRequest>) -> Command<Answer> {
        operation(account, submission, alsoLoading: [.account(account)]) {
            request,
            balance,
            loaded throws(Problem) in
            try Amounts.check(request.amount)
            let seconds = request.expiresIn ?? holdLife.secondsRoundedUp
            guard WireLimits.holdSeconds.contains(seconds) else {
                let range = WireLimits.holdSeconds
                throw Problem(
                    .invalidContent,
                    "Set 'expiresIn' to \(range.lowerBound) to \(range.upperBound) seconds."
                )
            }
            var hold = HoldRow(
                id: Identifier(at: now),
                account: account,
                amount: request.amount,
                expiresAt: now + .seconds(seconds),
                reason: "hold",
                labels: submission.labels
            )
            let rules = loaded.spendingRules(spendingPerDay, of: account, now: now)
            var draft = LedgerDraft(balance, now: now, rules: rules)
            try draft.hold(&hold)
            return Draft(
                draft,
                rows: [.hold(hold)],
                answer: encoder.hold(hold, draft.balance)
            )
        }
    }

    func capture(
        _ id: Identifier,
        _ account: Identifier,
        _ submission: Submission<CaptureRequest>
    ) -> Command<Answer> {
        settle(id, account, submission) { request, hold throws(Problem) in
            try Amounts.check(request.amount, atLeast: 0)
            guard request.amount <= hold.amount else {
                throw Problem(
                    .invalidContent,
                    "Capture at most \(hold.amount), the amount of the hold."
                )
            }
            return .captured(request.amount)
        }
    }

    func release(
        _ id: Identifier,
        _ account: Identifier,
        _ submission: Submission<Void>
    ) -> Command<Answer> {
        settle(id, account, submission) { _, _ in .released }
    }

    /// Removes the grants whose time has passed, and returns whether there were any.
    func expireGrants(of account: Identifier) -> Command<Bool> {
        Command(keys: [.balance(account)]) { loaded in
            guard let balance = loaded.balance(account) else { return Decision(false) }
            let draft = LedgerDraft(balance, now: now)
            return Decision(!draft.changes.isEmpty, changes: draft.changes)
        }
    }

    /// Sets the account's own spending limit per day, or the server's for `nil`.
    ///
    /// The change is an entry of the ledger with its reason.
    func limit(
        _ account: Identifier,
        _ submission: Submission<SpendingLimitRequest>
    ) -> Command<Answer> {
        operation(account, submission) { request, balance, _ throws(Problem) in
            if let limit = request.perDay { try Amounts.check(limit, atLeast: 0) }
            try Amounts.check(reason: request.reason)
            var draft = LedgerDraft(balance, now: now)
            draft.setSpendingLimit(request.perDay)
            let limit = request.perDay.map(String.init) ?? "default"
            draft.addEntry("spending per day \(limit): \(request.reason)")
            return Draft(draft, answer: encoder.balance(draft.balance))
        }
    }

    /// A draft with the other rows to write and the answer to return.
    private struct Draft {
        var ledger: LedgerDraft
        var rows: [Row]
        var answer: StoredAnswer

        init(_ ledger: LedgerDraft, rows: [Row] = [], answer: StoredAnswer) {
            self.ledger = ledger
            self.rows = rows
            self.answer = answer
        }
    }

    /// Builds a command for one account's balance: idempotency, draft, and stored answer.
    private func operation<Content>(
        _ account: Identifier,
        _ submission: Submission<Content>,
        alsoLoading keys: [Key] = [],
        requiring found: @escaping @Sendable (Loaded) throws(Problem) -> Void = { _ in },
        draft: @escaping @Sendable (Content, BalanceRow, Loaded) throws(Problem) -> Draft
    ) -> Command<Answer> {
        let operation = Key.operation(account, key: submission.key)
        return Command(keys: [.balance(account), operation] + keys) { loaded throws(Problem) in
            guard let balance = loaded.balance(account) else { throw .noAccount }
            try found(loaded)
            let row = loaded.operation(account, key: submission.key)
            if let answer = try Idempotency.replay(row, fingerprint: submission.fingerprint) {
                return Decision(Answer(answer, replayed: true))
            }
            let draft = try draft(try submission.content.get(), balance, loaded)
            let done = OperationRow(
                account: account,
                key: submission.key,
                fingerprint: submission.fingerprint.bytes,
                state: .done(draft.answer),
                at: now
            )
            return Decision(
                Answer(draft.answer),
                changes: draft.ledger.changes + draft.rows.map(Change.put)
                    + [.put(.operation(done))]
            )
        }
    }

    /// Builds the commands for capture and release.
    private func settle<Content>(
        _ id: Identifier,
        _ account: Identifier,
        _ submission: Submission<Content>,
        as state: @escaping @Sendable (Content, HoldRow) throws(Problem) -> HoldRow.State
    ) -> Command<Answer> {
        // Only the server settles the holds of function calls; clients cannot see them.
        let found: @Sendable (Loaded) throws(Problem) -> Void = { loaded throws(Problem) in
            guard let hold = loaded.hold(id), hold.account == account, hold.operation == nil else {
                throw .noHold
            }
        }
        return operation(account, submission, alsoLoading: [.hold(id)], requiring: found) {
            content,
            balance,
            loaded throws(Problem) in
            guard var hold = loaded.hold(id) else { throw .noHold }
            var draft = LedgerDraft(balance, now: now)
            let wanted = try state(content, hold)
            // A hold that is already settled in this way returns the same answer, and nothing is
            // transferred.
            guard hold.state != wanted else {
                return Draft(draft, answer: encoder.balance(draft.balance))
            }
            guard hold.state == .open else { throw .holdSettled(hold) }
            if case .captured(let amount) = wanted {
                draft.capture(amount, of: hold)
            } else {
                draft.release(hold)
            }
            hold.state = wanted
            return Draft(draft, rows: [.hold(hold)], answer: encoder.balance(draft.balance))
        }
    }
}
