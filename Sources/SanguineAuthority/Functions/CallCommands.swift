public import SanguineModel

/// What a function call costs at most, and for what.
public struct CallTerms: Hashable, Sendable {
    /// The function's name; it stands in the ledger.
    public var function: String
    /// What is held: the most that the call can cost.
    ///
    /// Zero for a free function.
    public var hold: Int64
    /// How long the call may take before its hold expires.
    public var life: Duration
    /// Why the function cannot run now, whoever pays, or `nil` if it can.
    ///
    /// Decided last.
    public var unavailable: Problem?

    /// Creates the terms.
    public init(function: String, hold: Int64, life: Duration, unavailable: Problem? = nil) {
        self.function = function
        self.hold = hold
        self.life = life
        self.unavailable = unavailable
    }
}

/// A call that was accepted and now runs.
public struct AcceptedCall: Hashable, Sendable {
    /// The operation's id.
    public var operation: Identifier
    /// Who pays.
    public var account: Identifier
    /// The idempotency key.
    public var key: String
    /// The hold that pays, or `nil` for a free function.
    public var hold: Identifier?
}

/// How the acceptance of a call ends.
public enum CallStart: Hashable, Sendable {
    /// It was done before: give this answer.
    case replayed(Answer)
    /// It is new: run it, then settle it.
    case accepted(AcceptedCall)
}

/// What a call came to.
public enum CallEnd: Sendable {
    /// It succeeded: charge this, at most the hold, and answer with what the function makes of the
    /// balance after the charge.
    case succeeded(charge: Int64, answer: @Sendable (BalanceRow) -> [UInt8])
    /// It failed: release the hold, and answer with the problem.
    case failed(Problem)
}

/// The life of a metered call: accepted, sent, settled; or expired.
///
/// Invariants:
///
/// 1. An operation that runs has an open hold, unless its function is free.
/// 2. A hold is settled once, by whoever comes first: the call's end or the expiry. The other one
///    finds it settled and moves nothing.
/// 3. A hold whose call was sent upstream is charged on expiry; one whose call never was is
///    released, and its key forgotten, so that the call can be made again.
struct CallCommands: Sendable {
    let now: Timestamp

    func start(
        _ account: Identifier,
        _ submission: Submission<CallTerms>
    ) -> Command<CallStart> {
        let operationKey = Key.operation(account, key: submission.key)
        return Command(keys: [.balance(account), operationKey]) { loaded throws(Problem) in
            guard let balance = loaded.balance(account) else { throw .noAccount }
            let row = loaded.operation(account, key: submission.key)
            if let answer = try Idempotency.replay(row, fingerprint: submission.fingerprint) {
                return Decision(.replayed(Answer(answer, replayed: true)))
            }
            let terms = try submission.content.get()
            var call = AcceptedCall(
                operation: Identifier(at: now),
                account: account,
                key: submission.key
            )
            var changes: [Change] = []
            if terms.hold > 0 {
                let hold = HoldRow(
                    id: call.operation,
                    account: account,
                    amount: terms.hold,
                    expiresAt: now + terms.life,
                    reason: terms.function,
                    operation: submission.key
                )
                var draft = LedgerDraft(balance, now: now)
                try draft.hold(hold.amount, reason: hold.reason)
                changes = draft.changes + [.put(.hold(hold))]
                call.hold = hold.id
            }
            if let problem = terms.unavailable { throw problem }
            let running = OperationRow(
                account: account,
                key: submission.key,
                fingerprint: submission.fingerprint.bytes,
                state: .running(hold: call.hold),
                at: now
            )
            return Decision(.accepted(call), changes: changes + [.put(.operation(running))])
        }
    }

    /// Records that the call is about to leave for the upstream.
    ///
    /// Returns whether it still may.
    func markSent(_ call: AcceptedCall) -> Command<Bool> {
        Command(keys: call.hold.map { [.hold($0)] } ?? []) { loaded in
            guard let id = call.hold else { return Decision(true) }
            // A hold whose time is over may still be open: sent now, it would be charged at once.
            guard var hold = loaded.hold(id), hold.state == .open, now < hold.expiresAt else {
                return Decision(false)
            }
            hold.sent = true
            return Decision(true, changes: [.put(.hold(hold))])
        }
    }

    /// Takes back a call that is known not to have left, and forgets its key.
    ///
    /// Its hold may be marked as sent all the same, by a commit whose outcome was not known.
    func withdraw(_ call: AcceptedCall) -> Command<Void> {
        let operationKey = Key.operation(call.account, key: call.key)
        let keys =
            [.balance(call.account), operationKey] + (call.hold.map { [Key.hold($0)] } ?? [])
        return Command(keys: keys) { loaded in
            guard let balance = loaded.balance(call.account),
                loaded.operation(call.account, key: call.key)?.state == .running(hold: call.hold)
            else { return Decision(()) }
            var changes = [Change.delete(operationKey)]
            if let id = call.hold {
                guard var hold = loaded.hold(id), hold.state == .open else { return Decision(()) }
                var draft = LedgerDraft(balance, now: now)
                draft.release(hold)
                hold.state = .released
                changes = draft.changes + [.put(.hold(hold))] + changes
            }
            return Decision((), changes: changes)
        }
    }

    func settle(_ call: AcceptedCall, _ end: CallEnd) -> Command<Answer> {
        let keys =
            [.balance(call.account), .operation(call.account, key: call.key)]
            + (call.hold.map { [Key.hold($0)] } ?? [])
        return Command(keys: keys) { loaded throws(Problem) in
            guard let balance = loaded.balance(call.account) else { throw .noAccount }
            guard var operation = loaded.operation(call.account, key: call.key) else {
                throw .callExpired
            }
            // Settled before, by the expiry or by a settlement whose answer was lost.
            if case .done(let answer) = operation.state { return Decision(Answer(answer)) }
            guard operation.state == .running(hold: call.hold) else { throw .callExpired }
            var draft = LedgerDraft(balance, now: now)
            var rows: [Row] = []
            if let id = call.hold {
                guard var hold = loaded.hold(id), hold.state == .open else { throw .callExpired }
                switch end {
                case .succeeded(let charge, _):
                    let charge = min(max(0, charge), hold.amount)
                    draft.capture(charge, of: hold)
                    hold.state = .captured(charge)
                case .failed:
                    draft.release(hold)
                    hold.state = .released
                }
                rows.append(.hold(hold))
            }
            let answer =
                switch end {
                case .succeeded(_, let body):
                    StoredAnswer(
                        status: 200,
                        body: body(draft.balance),
                        head: draft.balance.head
                    )
                case .failed(let problem):
                    StoredAnswer(
                        status: problem.status,
                        body: AnswerEncoder.encode(problem),
                        head: draft.balance.head
                    )
                }
            operation.state = .done(answer)
            operation.at = now
            rows.append(.operation(operation))
            return Decision(Answer(answer), changes: draft.changes + rows.map(Change.put))
        }
    }

    /// Ends a hold whose time is over, or whose call is known to have died before it was sent.
    func expire(_ due: HoldRow, evenEarly: Bool = false) -> Command<Bool> {
        var keys: [Key] = [.balance(due.account), .hold(due.id)]
        if let key = due.operation { keys.append(.operation(due.account, key: key)) }
        return Command(keys: keys) { loaded in
            guard let balance = loaded.balance(due.account),
                var hold = loaded.hold(due.id), hold.state == .open,
                evenEarly ? !hold.sent : hold.expiresAt <= now
            else { return Decision(false) }
            var draft = LedgerDraft(balance, now: now)
            if hold.sent {
                draft.capture(hold.amount, of: hold)
                hold.state = .captured(hold.amount)
            } else {
                draft.release(hold, as: .expire)
                hold.state = .expired
            }
            var changes = draft.changes + [.put(.hold(hold))]
            if let key = due.operation,
                var operation = loaded.operation(due.account, key: key),
                operation.state == .running(hold: hold.id)
            {
                if hold.sent {
                    operation.state = .done(Self.unanswered(hold, draft.balance))
                    operation.at = now
                    changes.append(.put(.operation(operation)))
                } else {
                    changes.append(.delete(.operation(due.account, key: key)))
                }
            }
            return Decision(true, changes: changes)
        }
    }

    /// Forgets a free call that died with the process that ran it.
    func abandon(_ row: OperationRow) -> Command<Bool> {
        let key = Key.operation(row.account, key: row.key)
        return Command(keys: [key]) { loaded in
            guard loaded.operation(row.account, key: row.key)?.state == .running(hold: nil) else {
                return Decision(false)
            }
            return Decision(true, changes: [.delete(key)])
        }
    }

    private static func unanswered(_ hold: HoldRow, _ balance: BalanceRow) -> StoredAnswer {
        var problem = Problem(
            .upstreamTimeout,
            """
            The call was sent and never answered, and was charged with the \(hold.amount) that \
            were held for it. Use a new Idempotency-Key to call again.
            """
        )
        problem.charged = hold.amount
        return StoredAnswer(
            status: problem.status,
            body: AnswerEncoder.encode(problem),
            head: balance.head
        )
    }
}

extension Problem {
    static var callExpired: Problem {
        Problem(
            .upstreamTimeout,
            """
            The call took longer than its hold lasted. Send it again with the same key to see its \
            end.
            """
        )
    }
}
