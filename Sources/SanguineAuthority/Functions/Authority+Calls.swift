public import SanguineModel

extension Authority {
    /// Accepts a metered call: recognizes a repetition, or places the hold.
    ///
    /// - Throws: in this order `idempotency_mismatch`, `operation_in_progress`,
    ///   `idempotency_expired`, `invalid_content`, `insufficient_tokens`, and last what the terms
    ///   say is unavailable. Nothing was changed then.
    public func start(
        _ account: Identifier,
        _ submission: Submission<CallTerms>
    ) async throws(Problem) -> CallStart {
        let command = calls.start(account, submission)
        guard (try? submission.content.get())?.isStoredFromStart ?? true else {
            return try await outcome(of: command)
        }
        return try await perform(command)
    }

    /// What a command that changes nothing comes to, as of now.
    private func outcome<Outcome>(
        of command: Command<Outcome>
    ) async throws(Problem) -> Outcome {
        try command.decide(try await load(command.keys), MemoryRecords()).outcome
    }

    /// Records that the call leaves for the upstream now: from here on its expiry charges it.
    ///
    /// - Parameters:
    ///   - call: The call.
    ///   - evenLate: Whether it may leave also when the time of its hold is over, if the hold is
    ///     still open. For a process that ages its calls itself. Default: no.
    /// - Returns: Whether it may leave. Its hold may have expired meanwhile.
    /// - Throws: `overloaded` or `internal_fault` for a storage that does not take it.
    public func markSent(
        _ call: AcceptedCall,
        evenLate: Bool = false
    ) async throws(Problem) -> Bool {
        guard call.hold != nil else { return true }
        return try await perform(calls.markSent(call, evenLate: evenLate))
    }

    /// Takes back a call that was accepted and has not left.
    ///
    /// Releases its hold and forgets its key, so that it can be made again. Does nothing to a call
    /// that has ended.
    public func withdraw(_ call: AcceptedCall) async throws(Problem) {
        guard call.record == .fromStart else { return }
        try await perform(calls.withdraw(call))
    }

    /// Charges the call or releases its hold, and stores the answer.
    ///
    /// Settling again gives the same answer and moves nothing.
    ///
    /// - Parameters:
    ///   - call: The call.
    ///   - end: What it came to.
    ///   - parts: How many parts of its run a streamed answer has. Default: as many as are stored.
    ///   - changes: What is stored with it. Default: nothing.
    /// - Returns: The answer.
    /// - Throws: `upstream_timeout` for a call that has expired, `overloaded` or `internal_fault`
    ///   for a storage that does not take it.
    public func settle(
        _ call: AcceptedCall,
        _ end: CallEnd,
        parts: Int64? = nil,
        with changes: [Change] = []
    ) async throws(Problem) -> Answer {
        let command = calls.settle(call, end, parts: parts, with: changes)
        guard call.record != .nothing else { return try await outcome(of: command) }
        return try await perform(command)
    }

    /// Answers a call with what is known already, for the price of the terms.
    ///
    /// - Throws: as ``start(_:_:)``. Nothing was changed then.
    func answer(
        _ account: Identifier,
        _ submission: Submission<CallTerms>,
        _ body: @escaping CallEnd.Body
    ) async throws(Problem) -> (Answer, run: Identifier?) {
        try await perform(calls.answer(account, submission, body))
    }

    /// Stores parts of an answer while it is made, with what they cost if they are the last.
    func store(
        _ parts: PartsRow,
        of call: AcceptedCall,
        chargeWhenCut: Int64
    ) async throws(Problem) {
        try await perform(calls.store(parts, of: call, chargeWhenCut: chargeWhenCut))
    }

    /// The stored parts of an answer from one on.
    func parts(
        of run: Identifier,
        from index: Int64,
        limit: Int
    ) async throws(Problem) -> [PartsRow] {
        try await read { storage throws(StorageError) in
            try await storage.parts(of: run, from: index, limit: limit)
        }
    }

    /// The kept answer for a key, if it still counts.
    func result(_ key: ResultKey) async throws(Problem) -> ResultRow? {
        let row = try await load([.result(key.bytes)]).result(key.bytes)
        return row.flatMap { clock.now() < $0.expiresAt ? $0 : nil }
    }

    /// What is stored under a key.
    func operation(_ position: OperationPosition) async throws(Problem) -> OperationRow? {
        let (account, key) = (position.account, position.key)
        return try await load([.operation(account, key: key)]).operation(account, key: key)
    }

    /// What is known of an account.
    func profile(_ account: Identifier) async throws(Problem) -> Account {
        guard let row = try await load([.account(account)]).account(account) else {
            throw .noAccount
        }
        return row.profile
    }

    /// What became of a call that has ended, and the balance after it.
    func ending(
        _ account: Identifier,
        _ answer: StoredAnswer
    ) async throws(Problem) -> CallEnding {
        let body = await WireBody.perform(answer.body.count, for: account) {
            try? JSONParser.parse(answer.body, limits: .tolerant).value
        }
        let isCancelled = body?["code"]?.string == ProblemCode.callCancelled.rawValue
        return CallEnding(
            state: isCancelled ? .cancelled : .ended,
            charged: body?["charged"]?.integer ?? 0,
            balance: try await balance(account)
        )
    }

    private func load(_ keys: [Key]) async throws(Problem) -> Loaded {
        try await read { storage throws(StorageError) in try await storage.load(keys) }
    }

    /// How long it is until the hold of a call that runs expires, which ends the call.
    ///
    /// - Returns: The time, negative if the expiry is due; `nil` for a call that does not run, or
    ///   is free.
    public func timeToExpiry(of call: OperationPosition) async throws(Problem) -> Duration? {
        let operation = try await read { storage throws(StorageError) in
            try await storage.load([.operation(call.account, key: call.key)])
        }.operation(call.account, key: call.key)
        guard case .running(let id?) = operation?.state else { return nil }
        let hold = try await read { storage throws(StorageError) in
            try await storage.load([.hold(id)])
        }.hold(id)
        guard let hold, hold.state == .open else { return nil }
        return hold.expiresAt - clock.now()
    }

    /// Ends holds whose time is over, a group at a time, so that they share commits.
    ///
    /// A hold that cannot be ended keeps no other one from its end.
    ///
    /// - Parameters:
    ///   - limit: How many at most in one turn, with those that are spared. Default: 1,000.
    ///   - isSpared: Whether a hold stays open although its time is over. Default: none does.
    /// - Returns: How many were ended.
    /// - Throws: The first failure, after all were tried.
    @discardableResult
    public func expireHolds(
        limit: Int = 1_000,
        sparing isSpared: @Sendable (HoldRow) -> Bool = { _ in false }
    ) async throws(Problem) -> Int {
        let now = clock.now()
        let due = try await read { storage throws(StorageError) in
            try await storage.openHolds(expiringBy: now, limit: limit)
        }.filter { !isSpared($0) }
        var count = 0
        var failure: Problem?
        for start in stride(from: 0, to: due.count, by: Self.expiriesAtOnce) {
            for end in await expire(due.dropFirst(start).prefix(Self.expiriesAtOnce)) {
                switch end {
                case .success(let isEnded): count += isEnded ? 1 : 0
                case .failure(let problem): failure = failure ?? problem
                }
            }
        }
        if let failure { throw failure }
        return count
    }

    private func expire(_ holds: ArraySlice<HoldRow>) async -> [Result<Bool, Problem>] {
        await withTaskGroup(of: Result<Bool, Problem>.self) { group in
            for hold in holds {
                group.addTask { [self] in
                    do throws(Problem) {
                        return .success(try await perform(calls.expire(hold)))
                    } catch {
                        return .failure(error)
                    }
                }
            }
            return await group.reduce(into: []) { $0.append($1) }
        }
    }

    /// Cleans up after a process that died: releases the calls that were never sent upstream.
    ///
    /// Their keys are forgotten. Calls that were sent end at once if they cost nothing when they
    /// are lost; others stay until their hold expires, and are charged.
    ///
    /// Run it before the first request, on storage that no other process uses.
    ///
    /// - Parameter report: Called for each call that cannot be cleaned up. It is left to its
    ///   hold's expiry, and keeps no other one from its end.
    /// - Returns: How many calls were released.
    /// - Throws: The failure to list the calls.
    @discardableResult
    public func recover(
        report: @Sendable (Problem) -> Void = { _ in }
    ) async throws(Problem) -> Int {
        var count = 0
        var position: OperationPosition?
        while true {
            let rows = try await read { [position] storage throws(StorageError) in
                try await storage.runningOperations(after: position, limit: Self.recoveryPage)
            }
            for row in rows {
                do throws(Problem) {
                    if try await recover(row) { count += 1 }
                } catch {
                    report(error)
                }
            }
            guard let last = rows.last, rows.count == Self.recoveryPage else { return count }
            position = OperationPosition(account: last.account, key: last.key)
        }
    }

    private func recover(_ row: OperationRow) async throws(Problem) -> Bool {
        guard case .running(let id) = row.state else { return false }
        let hold = if let id { try await load([.hold(id)]).hold(id) } else { HoldRow?.none }
        if let run = row.run, try await interrupt(row, run, hold) { return true }
        guard id != nil else { return try await perform(calls.abandon(row)) }
        guard let hold else { return false }
        return try await perform(calls.expire(hold, evenEarly: true))
    }

    /// Ends a streamed call of a process that died: what was stored of it stays, and is charged.
    ///
    /// One that is known not to have left for its upstream is none of these: it can be made again.
    /// Of any other a reader may have seen what was not stored yet, and must not get the rest of
    /// another answer.
    private func interrupt(
        _ row: OperationRow,
        _ run: Identifier,
        _ hold: HoldRow?
    ) async throws(Problem) -> Bool {
        let last = try await parts(of: run, from: .max, limit: 1).last
        let count = last.map { $0.first + Int64($0.parts.count) } ?? 0
        let wasSent = hold?.sent ?? false
        if let hold, !hold.sent, hold.chargeWhenCut != nil, count == 0 { return false }
        var call = AcceptedCall(operation: run, account: row.account, key: row.key)
        call.hold = hold?.id
        call.quota = hold?.quota
        let end = CallEnd.cut(
            charge: wasSent ? hold?.chargeWhenCut ?? 0 : 0,
            takesQuota: wasSent && hold?.quota?.isKeptWhenLost ?? false,
            .interrupted
        )
        _ = try await settle(call, end, parts: count)
        return true
    }

    /// Drops what has served its time, see ``Storage/sweep(_:limit:)``, and the bytes of files that
    /// no account has.
    ///
    /// - Parameters:
    ///   - limit: How many rows of each kind, and files, at most. Default: 1,000.
    ///   - begin: When the oldest run began that makes parts now: later ones stay. Default: none
    ///     does.
    ///   - moment: The time by which things are old. Default: what the clock shows.
    /// - Returns: How many rows and files were dropped.
    /// - Throws: `overloaded` or `internal_fault` for a storage that fails.
    @discardableResult
    public func sweep(
        limit: Int = 1_000,
        keepingPartsSince begin: Timestamp? = nil,
        asOf moment: Timestamp? = nil
    ) async throws(Problem) -> Int {
        let now = moment ?? clock.now()
        let horizon = SweepHorizon(
            answers: now - settings.answersKept,
            sessions: now - settings.endedSessionsKept,
            holds: now - settings.holdsKept,
            tombstones: now - settings.tombstonesKept,
            results: now,
            parts: min(now - settings.partsKept, begin ?? now)
        )
        let rows = try await read { storage throws(StorageError) in
            try await storage.sweep(horizon, limit: limit)
        }
        return rows + (try await sweepBlobs(limit: limit, asOf: now))
    }

    /// Recomputes every balance from its entries.
    public func verifyLedger() async throws(Problem) -> LedgerReport {
        try await read { storage throws(StorageError) in try await storage.verifyLedger() }
    }

    private static let recoveryPage = 256
    /// Holds that are ended at a time.
    private static let expiriesAtOnce = 64

    private var calls: CallCommands { CallCommands(now: clock.now(), quotas: quota) }
}
