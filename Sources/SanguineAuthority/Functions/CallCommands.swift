import SanguineModel

/// The life of a metered call: accepted, sent, settled; or expired.
///
/// Invariants:
///
/// 1. A running operation has an open hold, unless its function is free and takes no quota. Such an
///    operation is stored only at its end if its answer is in one piece; see
///    ``AcceptedCall/Record``.
/// 2. A hold is settled once: by the call's end or by the expiry, whichever is first. The other one
///    finds it settled and changes nothing.
/// 3. If a hold's call was sent upstream, its expiry charges the price of a lost call, see
///    ``IncompleteEnd``. Otherwise the hold is released and the key deleted, so that the call can
///    be repeated.
/// 4. A call that failed without a charge stores its problem under its key, which can run again.
/// 5. The quota of a call counts as used from its acceptance. An end without a charge returns it,
///    only to the day on which it was used.
/// 6. A call uses units of its quota, or the tokens that its price names instead: never both.
struct CallCommands: Sendable {
    let now: Timestamp
    let quotas: QuotaCommands
    /// The server's spending limit per day; `nil` for none.
    var spendingPerDay: Int64?
    /// The rules for records, which calls in threads need.
    var sync: SyncCommands?

    func start(
        _ account: Identifier,
        _ submission: Submission<CallTerms>
    ) -> Command<CallStart> {
        let quota = (try? submission.content.get())?.quota
        var keys = [Key.balance(account)] + Self.keys(quota?.name, account)
        if quota == nil { keys.append(.account(account)) }
        if submission.mayComeAgain { keys.append(.operation(account, key: submission.key)) }
        keys += Self.keys((try? submission.content.get())?.question, account)
        return Command(
            keys: keys,
            reading: { loaded, reader throws(Problem) in
                guard let balance = loaded.balance(account) else { throw .noAccount }
                let row = loaded.operation(account, key: submission.key)
                if let answer = try Idempotency.replay(row, fingerprint: submission.fingerprint) {
                    return Decision(.replayed(Answer(answer, replayed: true), run: row?.run))
                }
                let terms = try submission.content.get()
                var call = AcceptedCall(
                    operation: terms.operation,
                    account: account,
                    key: submission.key
                )
                let messages = try begin(&call, terms, loaded, reader)
                let rules = loaded.spendingRules(spendingPerDay, of: account, now: now)
                var draft = LedgerDraft(messages?.balance ?? balance, now: now, rules: rules)
                var rows: [Row] = []
                var exhausted: Problem?
                if let quota = terms.quota {
                    do throws(Problem) {
                        var period = try period(taking: quota, of: account, loaded)
                        period.seq = draft.nextNumber()
                        call.quota = QuotaHold(of: quota, on: period.day)
                        call.isUnlimited = quotas.isUnlimited(quota.name, loaded.account(account))
                        rows.append(.quota(period))
                    } catch {
                        guard error.code == .quotaExhausted, let tokens = quota.otherwise else {
                            throw error
                        }
                        (call.tokensInstead, exhausted) = (tokens, error)
                    }
                }
                if terms.holds {
                    let hold = try placed(terms, of: call, submission.labels, &draft, exhausted)
                    rows.append(.hold(hold))
                    call.hold = hold.id
                }
                if let problem = terms.unavailable { throw problem }
                guard terms.isStoredFromStart else {
                    call.record = submission.mayComeAgain ? .end(submission.fingerprint) : .nothing
                    return Decision(.accepted(call))
                }
                rows.append(.operation(running(call, submission.fingerprint, run: terms.run)))
                let changes = (messages?.changes ?? []) + draft.changes + rows.map(Change.put)
                return Decision(.accepted(call), changes: changes)
            }
        )
    }

    /// Adds the messages of a call in a thread.
    ///
    /// - Returns: The changes; `nil` for a call without a thread.
    private func begin(
        _ call: inout AcceptedCall,
        _ terms: CallTerms,
        _ loaded: Loaded,
        _ reader: any RecordReader
    ) throws(Problem) -> PushDraft? {
        guard let question = terms.question, let sync else { return nil }
        call.isInThread = true
        return try ThreadCommands(sync: sync)
            .begin(question, of: terms.function, call.position, loaded, reader)
    }

    private static func keys(_ question: ThreadQuestion?, _ account: Identifier) -> [Key] {
        question.map { ThreadCommands.keys(account, $0) } ?? []
    }

    /// Returns the hold of a call after it was placed.
    private func placed(
        _ terms: CallTerms,
        of call: AcceptedCall,
        _ labels: ChargeLabels,
        _ draft: inout LedgerDraft,
        _ exhausted: Problem?
    ) throws(Problem) -> HoldRow {
        var hold = HoldRow(of: call, terms, expiresAt: now + terms.life)
        hold.labels = labels
        do throws(Problem) {
            try draft.hold(&hold)
        } catch {
            throw error.orWaiting(until: exhausted)
        }
        return hold
    }

    /// Returns the row of a running call.
    private func running(
        _ call: AcceptedCall,
        _ fingerprint: Fingerprint,
        run: Identifier?
    ) -> OperationRow {
        OperationRow(
            account: call.account,
            key: call.key,
            fingerprint: fingerprint.bytes,
            state: .running(hold: call.hold),
            at: now,
            run: run
        )
    }

    /// Answers a call with a known output, and charges the price of the terms.
    ///
    /// A call that has an answer receives it again, with the run that has its parts.
    func answer(
        _ account: Identifier,
        _ submission: Submission<CallTerms>,
        recording records: CallRecording? = nil,
        _ body: @escaping CallEnd.Body
    ) -> Command<(Answer, run: Identifier?)> {
        let keys =
            [.balance(account), Key.operation(account, key: submission.key)]
            + (records?.keys(account) ?? [.account(account)])
            + Self.keys((try? submission.content.get())?.question, account)
        return Command(
            keys: keys,
            reading: { loaded, reader throws(Problem) in
                guard let balance = loaded.balance(account) else { throw .noAccount }
                let row = loaded.operation(account, key: submission.key)
                if let answer = try Idempotency.replay(row, fingerprint: submission.fingerprint) {
                    return Decision((Answer(answer, replayed: true), run: row?.run))
                }
                let terms = try submission.content.get()
                let rules = loaded.spendingRules(spendingPerDay, of: account, now: now)
                var call = AcceptedCall(
                    operation: terms.operation,
                    account: account,
                    key: submission.key
                )
                let messages = try begin(&call, terms, loaded, reader)
                let made = try records?.outcome(
                    of: call,
                    .succeeded(charge: terms.hold, answer: body),
                    atMost: terms.hold,
                    balance,
                    after: messages,
                    loaded,
                    reader
                )
                if case .failed(let problem) = made?.end { throw problem }
                var draft = LedgerDraft(made?.balance ?? balance, now: now, rules: rules)
                if terms.hold > 0 {
                    try draft.spend(
                        terms.hold,
                        reason: terms.function,
                        function: terms.function,
                        labels: submission.labels
                    )
                }
                let answer = StoredAnswer(
                    status: 200,
                    body: body(draft.balance, nil),
                    // An answer without a change is not kept forever.
                    head: terms.hold > 0 || made?.isChange == true ? draft.balance.head : nil
                )
                let done = done(answer, at: call.position, submission.fingerprint, run: terms.run)
                return Decision(
                    (Answer(answer), run: terms.run),
                    changes: (made?.changes ?? []) + draft.changes + [.put(.operation(done))]
                )
            }
        )
    }

    /// Returns the row of a call that is done.
    private func done(
        _ answer: StoredAnswer,
        at call: OperationPosition,
        _ fingerprint: Fingerprint,
        run: Identifier?
    ) -> OperationRow {
        OperationRow(
            account: call.account,
            key: call.key,
            fingerprint: fingerprint.bytes,
            state: .done(answer),
            at: now,
            run: run
        )
    }

    /// Records that the call is about to be sent upstream.
    ///
    /// Returns whether the call may still be sent.
    func markSent(_ call: AcceptedCall, evenLate: Bool = false) -> Command<Bool> {
        Command(keys: call.hold.map { [.hold($0)] } ?? []) { loaded in
            guard let id = call.hold else { return Decision(true) }
            // An expired hold may still be open: sent now, it would be charged at once.
            guard var hold = loaded.hold(id), hold.state == .open,
                evenLate || now < hold.expiresAt
            else { return Decision(false) }
            hold.sent = true
            return Decision(true, changes: [.put(.hold(hold))])
        }
    }

    /// Stores parts of a running answer, with the charge if they are the last ones.
    func store(_ parts: PartsRow, of call: AcceptedCall, chargeWhenCut: Int64) -> Command<Void> {
        Command(keys: call.hold.map { [.hold($0)] } ?? []) { loaded in
            var changes = [Change.put(.parts(parts))]
            if let id = call.hold, var hold = loaded.hold(id), hold.state == .open {
                hold.chargeWhenCut = min(chargeWhenCut, hold.amount)
                hold.labels = hold.labels.asking(call.model)
                changes.append(.put(.hold(hold)))
            }
            return Decision((), changes: changes)
        }
    }

    /// Withdraws a call that has certainly not been sent, and deletes its key.
    ///
    /// Its hold may still be marked as sent, by a commit with an unknown outcome.
    func withdraw(_ call: AcceptedCall) -> Command<Void> {
        let operationKey = Key.operation(call.account, key: call.key)
        return Command(
            keys: keys(of: call),
            reading: { loaded, reader throws(Problem) in
                guard let balance = loaded.balance(call.account) else { throw .noAccount }
                guard
                    loaded.operation(call.account, key: call.key)?.state
                        == .running(hold: call.hold)
                else { return Decision(()) }
                var messages = try messages(of: call, loaded, reader)
                try messages?.withdraw(call.position, at: now)
                var draft = LedgerDraft(messages?.balance ?? balance, now: now)
                var rows: [Row] = []
                if let id = call.hold {
                    guard var hold = loaded.hold(id), hold.state == .open else {
                        return Decision(())
                    }
                    release(&hold, &draft, &rows, loaded)
                }
                return Decision(
                    (),
                    changes: (messages?.changes ?? []) + draft.changes + rows.map(Change.put)
                        + [.delete(operationKey)]
                )
            }
        )
    }

    /// Returns the changes of the records of a call in a thread; `nil` for any other call, and for
    /// one of a deleted account.
    private func messages(
        of call: AcceptedCall,
        _ loaded: Loaded,
        _ reader: any RecordReader
    ) throws(Problem) -> PushDraft? {
        guard call.isInThread, let sync, loaded.account(call.account)?.state == .active else {
            return nil
        }
        return try sync.begin(call.account, loaded, reader)
    }

    /// Settles a call, and stores other changes with its end.
    ///
    /// A streamed answer has `parts` parts of its run.
    func settle(
        _ call: AcceptedCall,
        _ end: CallEnd,
        parts: Int64? = nil,
        with others: [Change] = [],
        recording records: CallRecording? = nil
    ) -> Command<Answer> {
        let keys = keys(of: call) + (records?.keys(call.account) ?? [])
        return Command(
            keys: keys,
            reading: { loaded, reader throws(Problem) in
                guard let balance = loaded.balance(call.account) else { throw .noAccount }
                var operation: OperationRow
                switch try running(call, loaded) {
                case .running(let row): operation = row
                // Settled by the expiry, or by a settlement whose result was lost.
                case .ended(let answer): return Decision(Answer(answer), changes: others)
                }
                let made = try records?.outcome(
                    of: call,
                    end,
                    atMost: call.hold.flatMap { loaded.hold($0)?.amount } ?? 0,
                    balance,
                    loaded,
                    reader
                )
                let end = made?.end ?? end
                var draft = LedgerDraft(made?.balance ?? balance, now: now)
                var rows: [Row] = []
                let events = try settleHold(of: call, end, &draft, &rows, loaded)
                let answer = StoredAnswer(
                    status: end.status,
                    body: end.body(draft.balance, quota(of: call, loaded)),
                    // An answer without a change is not kept forever.
                    head: call.hold == nil && made?.isChange != true ? nil : draft.balance.head,
                    parts: parts
                )
                operation.state = .done(answer)
                operation.at = now
                rows.append(.operation(operation))
                return Decision(
                    Answer(answer),
                    changes: (made?.changes ?? []) + draft.changes + rows.map(Change.put) + events
                        + others
                )
            }
        )
    }

    /// Charges or releases the hold of a call that ends, and keeps or returns its units.
    ///
    /// - Returns: The event of a quota whose last unit the call keeps.
    private func settleHold(
        of call: AcceptedCall,
        _ end: CallEnd,
        _ draft: inout LedgerDraft,
        _ rows: inout [Row],
        _ loaded: Loaded
    ) throws(Problem) -> [Change] {
        guard let id = call.hold else { return [] }
        guard var hold = loaded.hold(id), hold.state == .open else { throw .callExpired }
        hold.labels = hold.labels.asking(call.model)
        switch end {
        case .succeeded(let charge, _):
            capture(charge, &hold, &draft, &rows)
            return try keepUnits(of: hold, &rows, loaded)
        case .cut(let charge, let takesQuota, _) where charge > 0 || takesQuota:
            capture(charge, &hold, &draft, &rows)
            if takesQuota { return try keepUnits(of: hold, &rows, loaded) }
            giveUnitsBack(of: hold, &draft, &rows, loaded)
        case .failed, .cut:
            release(&hold, &draft, &rows, loaded)
        }
        return []
    }

    /// The stored state of a call to settle.
    private enum Stored {
        case running(OperationRow)
        case ended(StoredAnswer)
    }

    /// - Throws: `upstream_timeout` for a call whose hold has expired; `idempotency_mismatch` if
    ///   another request has taken the key of a call that was not stored.
    private func running(_ call: AcceptedCall, _ loaded: Loaded) throws(Problem) -> Stored {
        let row = loaded.operation(call.account, key: call.key)
        if case .end(let fingerprint) = call.record {
            if let answer = try Idempotency.replay(row, fingerprint: fingerprint) {
                return .ended(answer)
            }
            // The row has an earlier failure, after which the key can run again.
            if let new = call.unstored(at: now) { return .running(new) }
        }
        if case .done(let answer) = row?.state { return .ended(answer) }
        guard let row = row ?? call.unstored(at: now), row.state == .running(hold: call.hold) else {
            throw .callExpired
        }
        return .running(row)
    }

    /// Ends a hold after its expiry time, or at once if the process of its call has crashed.
    ///
    /// Both charge the price of a lost call.
    ///
    /// - Parameters:
    ///   - due: The hold.
    ///   - afterCrash: Whether the process of its call has crashed.
    ///   - message: The stored part of its call's answer; `nil` for a call without a thread.
    /// - Returns: The command, which returns whether the hold has ended.
    func expire(
        _ due: HoldRow,
        afterCrash: Bool = false,
        leaving message: MessageEnd? = nil
    ) -> Command<Bool> {
        var keys: [Key] = [.balance(due.account), .hold(due.id)]
        if let key = due.operation { keys.append(.operation(due.account, key: key)) }
        keys += Self.keys(due.quota?.name, due.account)
        if message != nil { keys += ThreadCommands.keys(due.account) }
        return Command(
            keys: keys,
            reading: { loaded, reader throws(Problem) in
                guard let balance = loaded.balance(due.account),
                    var hold = loaded.hold(due.id), hold.state == .open,
                    afterCrash || hold.expiresAt <= now
                else { return Decision(false) }
                let charge = hold.sent ? hold.chargeWhenCut ?? hold.amount : 0
                let keepsUnits = hold.sent && hold.quota?.isKeptWhenLost ?? false
                let lost = CallEnd.cut(
                    charge: charge,
                    takesQuota: keepsUnits,
                    afterCrash ? .interrupted : .upstreamTooSlow
                )
                let made = try ending(due, as: lost, message, balance, loaded, reader)
                var draft = LedgerDraft(made?.balance ?? balance, now: now)
                var rows: [Row] = []
                let events = keepsUnits ? try keepUnits(of: hold, &rows, loaded) : []
                if charge > 0 || keepsUnits {
                    capture(charge, &hold, &draft, &rows)
                    if !keepsUnits { giveUnitsBack(of: hold, &draft, &rows, loaded) }
                } else {
                    release(&hold, &draft, &rows, loaded, as: .expire)
                }
                var changes = (made?.changes ?? []) + draft.changes + rows.map(Change.put) + events
                if let key = due.operation,
                    var operation = loaded.operation(due.account, key: key),
                    operation.state == .running(hold: hold.id)
                {
                    if hold.sent {
                        operation.state = .done(
                            Self.unanswered(
                                charge,
                                isFree: charge == 0 && !keepsUnits,
                                isStreamed: operation.run != nil,
                                afterCrash: afterCrash,
                                draft.balance
                            )
                        )
                        operation.at = now
                        changes.append(.put(.operation(operation)))
                    } else {
                        changes.append(.delete(.operation(due.account, key: key)))
                    }
                }
                return Decision(true, changes: changes)
            }
        )
    }

    /// Returns the end of the answer of a lost call in a thread; `nil` for any other call.
    private func ending(
        _ hold: HoldRow,
        as end: CallEnd,
        _ message: MessageEnd?,
        _ balance: BalanceRow,
        _ loaded: Loaded,
        _ reader: any RecordReader
    ) throws(Problem) -> CallRecording.Outcome? {
        guard let message, let sync, let key = hold.operation else { return nil }
        var call = AcceptedCall(operation: hold.id, account: hold.account, key: key)
        call.isInThread = true
        return try CallRecording(nil, message, isInThread: true, sync)?
            .outcome(of: call, end, atMost: hold.amount, balance, loaded, reader)
    }

    /// Deletes a free call of a crashed process.
    ///
    /// Its answer in a thread fails.
    func abandon(_ row: OperationRow) -> Command<Bool> {
        let key = Key.operation(row.account, key: row.key)
        let keys = [key] + (sync == nil ? [] : ThreadCommands.keys(row.account))
        return Command(
            keys: keys,
            reading: { loaded, reader throws(Problem) in
                guard loaded.operation(row.account, key: row.key)?.state == .running(hold: nil)
                else {
                    return Decision(false)
                }
                let operation = Identifier(at: now)
                var call = AcceptedCall(operation: operation, account: row.account, key: row.key)
                call.isInThread = true
                var messages = try messages(of: call, loaded, reader)
                let end = MessageEnd(finishReason: ProblemCode.interrupted.rawValue)
                try messages?.end(call.position, as: .failed, end, charged: 0, at: now)
                return Decision(true, changes: (messages?.changes ?? []) + [.delete(key)])
            }
        )
    }
}

extension HoldRow {
    /// Creates the hold for a call.
    fileprivate init(of call: AcceptedCall, _ terms: CallTerms, expiresAt end: Timestamp) {
        // `chargeWhenCut` is set only if the charge for a lost call differs from the hold.
        var lost = terms.chargeWhenCut
        if call.tokensInstead > 0, lost != nil || terms.quota?.moment == .onCompletion {
            let isCharged = terms.quota?.moment.charges(.lost) ?? false
            lost = (lost ?? terms.hold) + (isCharged ? call.tokensInstead : 0)
        }
        let amount = terms.hold + call.tokensInstead
        self.init(
            id: call.operation,
            account: call.account,
            amount: amount,
            expiresAt: end,
            reason: terms.function,
            operation: call.key,
            sent: terms.isSent,
            quota: call.quota,
            chargeWhenCut: lost.map { min($0, amount) }
        )
    }
}

extension AcceptedCall {
    /// Returns the row of a call that is stored only at its end; `nil` for other calls.
    fileprivate func unstored(at now: Timestamp) -> OperationRow? {
        var bytes: [UInt8] = []
        switch record {
        case .fromStart: return nil
        case .end(let fingerprint): bytes = fingerprint.bytes
        case .nothing: break
        }
        return OperationRow(
            account: account,
            key: key,
            fingerprint: bytes,
            state: .running(hold: nil),
            at: now,
            run: nil
        )
    }
}

// Holds and their units of quotas.
extension CallCommands {
    private static func keys(_ quota: String?, _ account: Identifier) -> [Key] {
        quota.map {
            [.account(account), .quota(account, name: $0), QuotaExhaustion.key(account, $0)]
        } ?? []
    }

    private func keys(of call: AcceptedCall) -> [Key] {
        guard call.record != .nothing else { return [.balance(call.account)] }
        return [.balance(call.account), .operation(call.account, key: call.key)]
            + (call.isInThread ? ThreadCommands.keys(call.account) : [])
            + (call.hold.map { [.hold($0)] } ?? [])
            + Self.keys(call.quota?.name, call.account)
    }

    private func period(
        taking quota: Price.QuotaPrice,
        of account: Identifier,
        _ loaded: Loaded
    ) throws(Problem) -> QuotaRow {
        guard let profile = loaded.account(account)?.profile(at: now) else {
            throw .noAccount
        }
        let row = loaded.quota(account, name: quota.name)
        var period = try quotas.taken(quota.units, quota.name, of: profile, row)
        period.held = min(period.held + quota.units, period.used)
        return period
    }

    private func quota(of call: AcceptedCall, _ loaded: Loaded) -> Quota? {
        guard let name = call.quota?.name,
            let profile = loaded.account(call.account)?.profile(at: now)
        else { return nil }
        return quotas.quota(name, of: profile, loaded.quota(call.account, name: name))
    }

    /// Keeps the units of a hold as used.
    ///
    /// - Returns: The event of a quota whose last unit it is; empty if units are left.
    private func keepUnits(
        of hold: HoldRow,
        _ rows: inout [Row],
        _ loaded: Loaded
    ) throws(Problem) -> [Change] {
        guard let quota = hold.quota,
            let period = QuotaCommands.kept(
                quota,
                in: loaded.quota(hold.account, name: quota.name)
            )
        else { return [] }
        // Its owner sees no change, so its number of the feed stays.
        rows.append(.quota(period))
        let profile = loaded.account(hold.account)?.profile(at: now)
        return try quotas.exhaustion(of: period, profile, loaded)
    }

    private func capture(
        _ charge: Int64,
        _ hold: inout HoldRow,
        _ draft: inout LedgerDraft,
        _ rows: inout [Row]
    ) {
        let charge = min(max(0, charge), hold.amount)
        draft.capture(charge, of: hold)
        hold.state = .captured(charge)
        rows.append(.hold(hold))
    }

    private func release(
        _ hold: inout HoldRow,
        _ draft: inout LedgerDraft,
        _ rows: inout [Row],
        _ loaded: Loaded,
        as kind: LedgerEntry.Kind = .release
    ) {
        draft.release(hold, as: kind)
        hold.state = kind == .expire ? .expired : .released
        rows.append(.hold(hold))
        giveUnitsBack(of: hold, &draft, &rows, loaded)
    }

    /// Returns the units of a hold to the day on which they were used.
    private func giveUnitsBack(
        of hold: HoldRow,
        _ draft: inout LedgerDraft,
        _ rows: inout [Row],
        _ loaded: Loaded
    ) {
        guard let quota = hold.quota else { return }
        let row = loaded.quota(hold.account, name: quota.name)
        guard var period = QuotaCommands.givenBack(quota, to: row) else { return }
        period.seq = draft.nextNumber()
        rows.append(.quota(period))
    }

    /// Returns the answer of a lost call.
    ///
    /// Its key can run again if nothing was charged and no client can have seen a part.
    private static func unanswered(
        _ charge: Int64,
        isFree: Bool,
        isStreamed: Bool,
        afterCrash: Bool,
        _ balance: BalanceRow
    ) -> StoredAnswer {
        var problem = Problem(
            afterCrash ? .interrupted : .upstreamTimeout,
            """
            The call was sent but never answered. 'charged' is the amount that was charged for \
            it. Use a new Idempotency-Key to call again.
            """
        )
        // The output of a stream is known.
        if isStreamed { problem = .interrupted }
        if isFree, !isStreamed { problem = .upstreamTooSlow } else { problem.charged = charge }
        return StoredAnswer(
            status: problem.status,
            body: ResponseEncoder.encode(problem),
            head: balance.head
        )
    }
}

extension CallEnd {
    fileprivate var status: Int {
        switch self {
        case .succeeded: 200
        case .failed(let problem), .cut(_, _, let problem): problem.status
        }
    }

    fileprivate func body(_ balance: BalanceRow, _ quota: Quota?) -> [UInt8] {
        switch self {
        case .succeeded(_, let answer): return answer(balance, quota)
        case .failed(let problem): return ResponseEncoder.encode(problem)
        case .cut(let charge, _, var problem):
            problem.charged = charge
            return ResponseEncoder.encode(problem)
        }
    }
}

extension Problem {
    /// The refusal of a call that can be paid in tokens or, later, in units.
    fileprivate func orWaiting(until exhausted: Problem?) -> Problem {
        guard let exhausted else { return self }
        var problem = Problem(
            code,
            """
            Get more tokens, or wait until 'resetsAt': too little of the quota is left, and the \
            balance does not cover the price of the call.
            """,
            retryAfter: exhausted.retryAfter
        )
        (problem.available, problem.held, problem.required) = (available, held, required)
        (problem.resetsAt, problem.lifts) = (exhausted.resetsAt, exhausted.lifts)
        return problem
    }
}
