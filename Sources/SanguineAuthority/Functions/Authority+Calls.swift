public import SanguineModel

extension Authority {
    /// Accepts a metered call: recognizes a repetition, or places the hold.
    ///
    /// - Throws: in this order `idempotency_mismatch`, `operation_in_progress`,
    ///   `idempotency_expired`, `invalid_content`, `insufficient_tokens`, and finally the problem
    ///   in ``CallTerms/unavailable``. Nothing was changed then.
    public func start(
        _ account: Identifier,
        _ submission: Submission<CallTerms>
    ) async throws(Problem) -> CallStart {
        let command = calls.start(account, submission)
        guard (try? submission.content.get())?.isStoredFromStart ?? true else {
            return try await outcome(of: command.refusingDeleted)
        }
        return try await perform(command)
    }

    /// Returns the outcome of a command that changes nothing, without a commit.
    private func outcome<Outcome>(
        of command: Command<Outcome>
    ) async throws(Problem) -> Outcome {
        try command.decide(try await load(command.keys), MemoryRecords()).outcome
    }

    /// Records that the call is about to be sent upstream, so that its expiry charges it.
    ///
    /// - Parameters:
    ///   - call: The call.
    ///   - evenLate: Whether the call may be sent after its hold's expiry time if the hold is still
    ///     open. For a process that measures the age of its calls itself. Default: false.
    /// - Returns: Whether the call may be sent. Its hold may have expired in the meantime.
    /// - Throws: `overloaded` or `internal_fault` if the storage fails.
    public func markSent(
        _ call: AcceptedCall,
        evenLate: Bool = false
    ) async throws(Problem) -> Bool {
        guard call.hold != nil else { return true }
        return try await perform(calls.markSent(call, evenLate: evenLate))
    }

    /// Withdraws an accepted call that was not sent.
    ///
    /// Releases its hold and deletes its key, so that the call can be repeated. Does nothing to a
    /// call that has ended.
    public func withdraw(_ call: AcceptedCall) async throws(Problem) {
        guard call.record == .fromStart else { return }
        let commands = calls
        do throws(Problem) {
            try await following(call.account) {
                commands.withdraw(call.paid(by: $0))
            } performing: { command throws(Problem) in
                try await perform(command, evenIfDeleted: true)
            }
        } catch {
            // A deleted account has no calls.
            guard error.code == .notFound else { throw error }
        }
    }

    /// Charges the call or releases its hold, and stores the answer.
    ///
    /// Settling again returns the same answer and moves nothing.
    ///
    /// - Parameters:
    ///   - call: The call.
    ///   - end: The end of the call.
    ///   - parts: The number of parts that a streamed answer has. Default: as many as are stored.
    ///   - changes: Changes to store with the end. Default: none.
    /// - Returns: The answer.
    /// - Throws: `upstream_timeout` for a call that has expired, `overloaded` or `internal_fault`
    ///   if the storage fails.
    public func settle(
        _ call: AcceptedCall,
        _ end: CallEnd,
        parts: Int64? = nil,
        with changes: [Change] = []
    ) async throws(Problem) -> Answer {
        try await settle(call, end, parts: parts, with: changes, recording: nil)
    }

    /// Works like ``settle(_:_:parts:with:)``, with changes of records in the same transaction.
    func settle(
        _ call: AcceptedCall,
        _ end: CallEnd,
        parts: Int64?,
        with changes: [Change],
        recording records: CallRecords?,
        leaving message: MessageEnd? = nil
    ) async throws(Problem) -> Answer {
        let commands = calls
        let records = CallRecording(records, message, isInThread: call.isInThread, sync)
        return try await following(call.account) { account in
            commands.settle(
                call.paid(by: account),
                end,
                parts: parts,
                with: changes,
                recording: records
            )
        } performing: { command throws(Problem) in
            guard call.record != .nothing else { return try await outcome(of: command) }
            return try await perform(command, evenIfDeleted: true)
        }
    }

    /// Answers a call with a known output, and charges the price of the terms.
    ///
    /// - Throws: see ``start(_:_:)``. Nothing was changed then.
    func answer(
        _ account: Identifier,
        _ submission: Submission<CallTerms>,
        recording records: CallRecords? = nil,
        leaving message: MessageEnd? = nil,
        _ body: @escaping CallEnd.Body
    ) async throws(Problem) -> (Answer, run: Identifier?) {
        let records = CallRecording(records, message, isInThread: message != nil, sync)
        return try await perform(calls.answer(account, submission, recording: records, body))
    }

    /// Stores parts of a running answer, with the charge if they are the last ones.
    func store(
        _ parts: PartsRow,
        of call: AcceptedCall,
        chargeWhenCut: Int64
    ) async throws(Problem) {
        try await perform(calls.store(parts, of: call, chargeWhenCut: chargeWhenCut))
    }

    /// Returns the stored parts of an answer from an index on.
    func parts(
        of run: Identifier,
        from index: Int64,
        limit: Int
    ) async throws(Problem) -> [PartsRow] {
        try await read { storage throws(StorageError) in
            try await storage.parts(of: run, from: index, limit: limit)
        }
    }

    /// Returns the cached answer for a key, if it has not expired.
    func result(_ key: ResultKey) async throws(Problem) -> ResultRow? {
        let row = try await load([.result(key.bytes)]).result(key.bytes)
        return row.flatMap { clock.now() < $0.expiresAt ? $0 : nil }
    }

    /// Returns the operation with the key.
    func operation(_ position: OperationPosition) async throws(Problem) -> OperationRow? {
        let (account, key) = (position.account, position.key)
        return try await load([.operation(account, key: key)]).operation(account, key: key)
    }

    /// Returns the account's profile.
    func profile(_ account: Identifier) async throws(Problem) -> Account {
        guard let row = try await load([.account(account)]).account(account) else {
            throw .noAccount
        }
        return row.profile(at: clock.now())
    }

    /// Returns the end of a call, and the current balance.
    func ending(
        _ account: Identifier,
        _ answer: StoredAnswer
    ) async throws(Problem) -> CallCancellation {
        let body = await WireBody.perform(answer.body.count, for: account) {
            try? JSONParser.parse(answer.body, limits: .tolerant).value
        }
        let isCancelled = body?["code"]?.string == ProblemCode.callCancelled.rawValue
        return CallCancellation(
            state: isCancelled ? .cancelled : .ended,
            charged: body?["charged"]?.integer ?? 0,
            balance: try await balance(account)
        )
    }

    private func load(_ keys: [Key]) async throws(Problem) -> Loaded {
        try await read { storage throws(StorageError) in try await storage.load(keys) }
    }

    /// Returns the time until the hold of a running call expires, which ends the call.
    ///
    /// - Returns: The time, negative if the expiry is due; `nil` for a call that is not running or
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

    /// Ends expired holds in groups, so that they share commits.
    ///
    /// A hold that cannot be ended does not prevent others from ending.
    ///
    /// - Parameters:
    ///   - limit: The maximum number of holds to load, including spared ones. Default: 1,000.
    ///   - isSpared: Whether an expired hold stays open. Default: none does.
    /// - Returns: The number of holds that were ended.
    /// - Throws: The first failure, after all holds were tried.
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
                        return .success(
                            try await expire(hold, afterCrash: false)
                        )
                    } catch {
                        return .failure(error)
                    }
                }
            }
            return await group.reduce(into: []) { $0.append($1) }
        }
    }

    /// Cleans up after a process that crashed: ends all calls that it left running.
    ///
    /// Calls that were never sent to their upstream are released, and their keys deleted. Calls
    /// that were sent are lost, and charged as such: their runs have ended with the process. A
    /// message that one of them was making in a thread says that it was interrupted.
    ///
    /// Run it before the first request, on storage that no other process uses.
    ///
    /// - Parameter report: Receives the problem of each call that cannot be cleaned up. The call is
    ///   left to its hold's expiry, and does not prevent the cleanup of others.
    /// - Returns: The number of ended calls.
    /// - Throws: The failure to list the calls.
    @discardableResult
    public func recover(
        report: @Sendable (Problem) -> Void = { _ in }
    ) async throws(Problem) -> Int {
        try await recover(report: report) { _ in true }
    }

    /// Ends the stored running calls that are lost, see ``recover(report:)``.
    ///
    /// - Parameters:
    ///   - report: Receives the problem of each call that cannot be ended.
    ///   - isLost: Returns whether no process runs a call or knows its end.
    /// - Returns: The number of ended calls.
    /// - Throws: The failure to list the calls.
    func recover(
        report: @Sendable (Problem) -> Void,
        where isLost: @Sendable (OperationRow) -> Bool
    ) async throws(Problem) -> Int {
        var count = 0
        var position: OperationPosition?
        while true {
            let rows = try await read { [position] storage throws(StorageError) in
                try await storage.runningOperations(after: position, limit: Self.recoveryPage)
            }
            for row in rows where isLost(row) {
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
        return try await expire(hold, afterCrash: true)
    }

    private func expire(_ hold: HoldRow, afterCrash: Bool) async throws(Problem) -> Bool {
        let message = try await PartialAnswers(authority: self).end(of: hold)
        return try await perform(
            calls.expire(hold, afterCrash: afterCrash, leaving: message),
            evenIfDeleted: true
        )
    }

    /// Ends a streamed call of a crashed process: its stored parts are kept and charged.
    ///
    /// A call that was certainly not sent upstream is not ended, as it can be repeated. For any
    /// other call, a reader may have seen parts that were not stored, and must not receive the rest
    /// of a different answer.
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
        call.isInThread = true
        let end = CallEnd.cut(
            charge: wasSent ? hold?.chargeWhenCut ?? 0 : 0,
            takesQuota: wasSent && hold?.quota?.isKeptWhenLost ?? false,
            .interrupted
        )
        let message = MessageEnd(content: try await PartialAnswers(authority: self).text(of: run))
        _ = try await settle(call, end, parts: count, with: [], recording: nil, leaving: message)
        return true
    }

    /// Drops expired rows, see ``Storage/sweep(_:limit:)``, files that no record names, and the
    /// bytes of files without an owner.
    ///
    /// - Parameters:
    ///   - limit: The maximum number of rows of each kind, and of files. Default: 1,000.
    ///   - begin: The time at which the oldest current run that produces parts began; later parts
    ///     are kept. Default: there is none.
    ///   - moment: The time of the sweep. Default: the time of the clock.
    /// - Returns: The number of rows and files that were dropped.
    /// - Throws: `overloaded` or `internal_fault` if the storage fails.
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
            parts: min(now - settings.partsKept, begin ?? now),
            documents: now
        )
        let rows = try await read { storage throws(StorageError) in
            try await storage.sweep(horizon, limit: limit)
        }
        let unnamed = try await sweepUnnamedBlobs(limit: limit, asOf: now)
        let uploads = try await sweepUploads(limit: limit, asOf: now)
        return rows + unnamed + uploads + (try await sweepBlobs(limit: limit, asOf: now))
    }

    private static let recoveryPage = 256
    /// The number of holds that are ended concurrently.
    private static let expiriesAtOnce = 64

    private var calls: CallCommands {
        CallCommands(
            now: clock.now(),
            quotas: quota,
            spendingPerDay: settings.spendingPerDay,
            sync: sync
        )
    }
}
