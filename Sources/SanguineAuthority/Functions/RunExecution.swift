import SanguineModel

/// The services that runs of functions use.
struct RunServices: Sendable {
    let authority: Authority
    let queue: CallQueue
    let calls: RunningCalls
    /// The ended calls whose end the storage has not accepted yet.
    let unsettled: UnsettledCalls
    let sharedRuns: SharedRunTable
    let tier: ResultMemoryCache
    let estimates: CostEstimates
    let abandoned = AbandonedCalls()
    let delay: any Clock<Duration>
    let reports: CallRunner.Reports
    /// The longest time that a call waits for its turn.
    let queueTime: Duration
    /// The largest size of a cached output in bytes.
    let keptBytes: Int
    /// The time on a monotonic clock.
    let uptime: @Sendable () -> Duration
    /// The timers of streams.
    let deadlines: Deadlines
    /// Returns the executor for a run that starts on this thread; `nil` for any.
    let executor: @Sendable () -> (any TaskExecutor)?
}

/// One run of a function, with its leading call: waits for its turn, is sent upstream, stores its
/// parts, and settles the call.
struct RunExecution: Sendable {
    let services: RunServices
    let name: String
    let rules: FunctionRules
    let prepared: PreparedCall
    /// The account's settings that the answer depends on.
    let settings: [String: JSONValue]
    /// The cache key of the result; `nil` if it is not cached.
    let key: ResultKey?
    let leader: RunningCall
    /// Whether the leader was accepted as sent.
    let isSent: Bool
    /// The time when the leader was accepted, by ``RunServices/uptime``.
    let acceptedAt: Duration
    /// The executor of the run; `nil` for any.
    let executor: (any TaskExecutor)?

    private var sharedRun: SharedRun { leader.sharedRun }
    private var authority: Authority { services.authority }

    /// Runs to the end, and settles the leader.
    func perform() async {
        let end = await sharedRun.begin(on: executor) { await run() }
        sharedRun.log.end()
        let changes = self.changes(after: end)
        let records = await leader.records(of: prepared, after: end)
        let result = await services.settle(leader, end, with: changes.all, recording: records)
        if let row = changes.row, case .success = result {
            services.tier.add(row)
            sharedRun.keep()
        }
        report(end)
        // Later calls find the cached answer.
        if let key { services.sharedRuns.remove(key, sharedRun) }
        sharedRun.end(end)
        services.end(leader, with: result)
    }

    // MARK: - The run

    private func run() async -> RunEnd {
        guard let caller = await nextTurn() else {
            return undone ?? sharedRun.cutReason.map { .cut($0, wasSent: false) }
                ?? .withdrawn(.noTurn)
        }
        defer { sharedRun.turn.release() }
        if let undone { return undone }
        if let end = await markSent() { return end }
        let writer =
            sharedRun.isStreamed ? Task(executorPreference: executor) { await storeParts() } : nil
        let end = await made(in: caller)
        // The writer must not store parts after the end, which may include the same parts.
        writer?.cancel()
        await writer?.value
        return end
    }

    /// The end of a run that was not sent before the server stops, unless its owner cancelled it.
    ///
    /// Its upstream and its readers are already gone. The call can be repeated with its key.
    private var undone: RunEnd? {
        guard services.calls.isStopped, sharedRun.cutReason?.code != .callCancelled else {
            return nil
        }
        return .withdrawn(.stopping)
    }

    private func made(in caller: CallQueue.Caller) async -> RunEnd {
        do throws(Problem) {
            let outcome = try await prepared.run(context(caller))
            let charge = min(max(0, outcome.charge), prepared.hold)
            let output = outcome.output
            let written = outcome.written
            let isLong = written == nil && output.isLonger(than: WireBody.shortBytes)
            let bytes = await WireBody.perform(ifLong: isLong, for: leader.call.account) {
                written ?? ResponseEncoder.encode(output)
            }
            let reason = outcome.finishReason.map { FinishReason(text: $0) }
            return .made(output: bytes, charge: charge, reason)
        } catch {
            let progress = sharedRun.log.progress
            if let reason = sharedRun.cutReason {
                let hasMade = progress.parts > 0 || progress.usage != nil
                return .cut(reason, wasSent: sharedRun.isSent || hasMade)
            }
            guard progress.parts > 0 else { return .failed(error) }
            return .cut(services.calls.isStopped ? .interrupted : error.afterParts, wasSent: true)
        }
    }

    /// Waits, for a limited time, for the turn of any call that wants the run.
    ///
    /// - Returns: The caller that the run counts for; `nil` if no turn came in time.
    private func nextTurn() async -> CallQueue.Caller? {
        if let holder = sharedRun.turn.holder { return holder }
        let patience = Task {
            guard (try? await services.delay.sleep(for: services.queueTime)) != nil else { return }
            sharedRun.turn.stopWaiting()
        }
        defer { patience.cancel() }
        return await sharedRun.turn.wait()
    }

    /// Marks the call as sent, or withdraws it if the storage fails.
    ///
    /// - Returns: `nil` if the call may be sent.
    private func markSent() async -> RunEnd? {
        // A leader that has cancelled its call is settled, so there is nothing to mark.
        if prepared.isSent, !isSent, sharedRun.cutReason == nil, !leader.endsEarly {
            // By elapsed time, so that a jump of the wall clock does not end a running call.
            guard services.uptime() < leader.expiresAt else { return .failed(.expiredUnsent) }
            do throws(Problem) {
                let isMarked = try await authority.markSent(leader.call, evenLate: true)
                guard isMarked || leader.endsEarly else { return .failed(.expiredUnsent) }
            } catch {
                return .withdrawn(error)
            }
        }
        return sharedRun.send().map { .cut($0, wasSent: false) }
    }

    /// Returns the account that the upstream's limits apply to: the one whose turn it is.
    ///
    /// Its own failures may have excluded that account since its call was accepted. Then it is
    /// another account that wants the run and is not excluded.
    private func admitted(_ holder: Identifier) -> Identifier {
        guard prepared.unavailableFor(holder) != nil else { return holder }
        return sharedRun.accounts.first { prepared.unavailableFor($0) == nil } ?? holder
    }

    private func context(_ caller: CallQueue.Caller) -> CallContext {
        CallContext(
            account: rules.cache.audience == .account ? leader.call.account : nil,
            caller: admitted(caller.account),
            settings: settings,
            isStreamed: sharedRun.isStreamed,
            write: { [sharedRun, services, name, acceptedAt] text, bytes in
                guard sharedRun.isStreamed else { return }
                if sharedRun.log.append(text, bytes: bytes) {
                    services.reports.began(name, services.uptime() - acceptedAt)
                }
                await sharedRun.log.waitForSpace()
            },
            report: { [sharedRun] in sharedRun.log.report($0) },
            askedNobody: { [sharedRun] in sharedRun.didNotLeave() },
            asks: { [sharedRun] in sharedRun.asks($0) },
            attachment: { [authority, prepared] file async throws(Problem) in
                guard prepared.attachments.contains(file), let id = BlobID(file.id) else {
                    throw Problem(.notFound, "Read only files that are attached to the call.")
                }
                return try await authority.readBlob(id, from: 0, count: file.size)
            }
        )
    }

    // MARK: - Storage

    /// The interval at which parts are stored: four times a second.
    static let storeInterval = Duration.milliseconds(250)

    private func storeParts() async {
        while !Task.isCancelled {
            await services.deadlines.sleep(for: Self.storeInterval)
            guard !Task.isCancelled, let parts = unstored else { continue }
            let cost = leader.chargeWhenLost(sharedRun.log.progress)
            do throws(Problem) {
                try await authority.store(parts.row, of: leader.labelled, chargeWhenCut: cost)
                sharedRun.log.stored(through: parts.end)
            } catch {
                // Retried together with later parts; the run waits if there are too many.
                services.reports.notStored(error, 1)
            }
        }
    }

    private var unstored: (row: PartsRow, end: Int64)? {
        guard let (first, texts) = sharedRun.log.unstored() else { return nil }
        let row = PartsRow(
            run: sharedRun.id,
            first: first,
            texts: ResponseEncoder.encode(texts),
            at: authority.clock.now()
        )
        return (row, first + Int64(texts.count))
    }

    /// Returns the changes to store with the end: the last parts, and the result for the cache.
    private func changes(after end: RunEnd) -> (all: [Change], row: ResultRow?) {
        var changes: [Change] = []
        if sharedRun.isStreamed, let parts = unstored { changes.append(.put(.parts(parts.row))) }
        guard let key, case .made(let output, _, let reason) = end,
            output.count <= services.keptBytes, reason?.isNatural ?? true, !output.isBlankText
        else { return (changes, nil) }
        let now = authority.clock.now()
        let row = ResultRow(
            key: key.bytes,
            account: key.account,
            function: name,
            output: output,
            madeAt: now,
            expiresAt: key.expiry(madeAt: now)
        )
        // The day of the key may have ended during the run.
        guard now < row.expiresAt else { return (changes, nil) }
        changes.append(.put(.result(row)))
        let kept = authority.settings.resultsKept(isPublic: key.account == nil)
        changes.append(.pruneResults(of: key.account, keeping: kept))
        return (changes, row)
    }

    private func report(_ end: RunEnd) {
        switch end {
        case .made(_, let charge, _):
            services.estimates.learn(charge, of: name)
            services.reports.ended(name, "succeeded")
        case .failed(let problem), .cut(let problem, _), .withdrawn(let problem):
            services.reports.ended(name, problem.code.rawValue)
        }
    }
}

extension RunServices {
    /// Reports the end of a call to its waiters, and removes the call.
    ///
    /// A failure is not the call's end, which the storage has or receives later. A client that
    /// retries after the failure must not find the call here.
    func end(_ call: RunningCall, with result: Result<Answer, Problem>) {
        let isUnsettled = unsettled.contains(hold: call.call.operation)
        if case .failure = result { calls.remove(call, isUnsettled: isUnsettled) }
        call.ending.resolve(result)
        call.sharedRun.log.wakeAll()
        call.leave()
        calls.remove(call, isUnsettled: isUnsettled)
        call.reportAnswer(result)
    }

    /// Settles a call with the end of its run, or withdraws it if nothing has happened.
    ///
    /// If the storage does not accept the end, it is kept and stored later; see ``UnsettledCalls``.
    ///
    /// - Parameters:
    ///   - call: The call.
    ///   - end: The end of its run.
    ///   - changes: Changes to store with it.
    ///   - records: Changes of records to make with it. Default: none.
    /// - Returns: The answer, or the problem.
    func settle(
        _ call: RunningCall,
        _ end: RunEnd,
        with changes: [Change] = [],
        recording records: CallRecords? = nil
    ) async -> Result<Answer, Problem> {
        call.countIfAbandoned(end)
        let settlement = call.settlement(
            end,
            parts: call.sharedRun.log.count,
            with: changes,
            recording: records,
            leaving: await message(of: call, end)
        )
        return await settle(settlement)
    }

    /// Stores the end of a call, or keeps it until the storage accepts it.
    ///
    /// - Returns: The answer, or the problem.
    func settle(_ settlement: CallSettlement) async -> Result<Answer, Problem> {
        let result = await persist(settlement)
        switch result {
        case .success(let end): return end
        case .failure(let problem):
            guard problem.isOfStorage else { return .failure(problem) }
            if settlement.call.record != .nothing { keep(settlement) }
            // 503 would say that nothing was changed, although the call was accepted.
            return .failure(problem.code == .overloaded ? .endUnknown : problem)
        }
    }

    /// Keeps the end of a call until the storage accepts it, if there is room.
    private func keep(_ settlement: CallSettlement) {
        guard unsettled.add(settlement, at: uptime()) else {
            return leaveToExpiry(settlement.call)
        }
        calls.keep(settlement.call, settlement.fingerprint)
    }

    /// Removes a call that cannot be settled; the expiry of its hold ends it, or the search for
    /// free calls that had no room.
    func leaveToExpiry(_ call: AcceptedCall) {
        if call.hold == nil { unsettled.leave(acceptedUntil: authority.clock.now(), at: uptime()) }
        calls.release(call.position, of: call.operation)
        reports.left(call)
    }

    /// Stores the end of a call, and retries while the storage is overloaded or failing.
    ///
    /// - Returns: The answer, or the reason for a withdrawal; the last failure if all retries fail.
    func persist(_ settlement: CallSettlement) async -> Result<Result<Answer, Problem>, Problem> {
        var attempt = 1
        while true {
            do throws(Problem) {
                return .success(try await settlement.store(in: authority))
            } catch {
                guard error.isOfStorage else { return .failure(error) }
                reports.notStored(error, attempt)
                guard attempt < Self.persistAttempts else { return .failure(error) }
            }
            try? await delay.sleep(for: .milliseconds(100 << attempt))
            attempt += 1
        }
    }

    /// The number of attempts to store the end of a call, within 6.2 seconds.
    private static let persistAttempts = 6
}

extension JSONValue {
    /// Returns whether the value exceeds this number of bytes as JSON, roughly; stops at the limit.
    func isLonger(than bytes: Int) -> Bool {
        var left = bytes
        var open = [self]
        while let value = open.popLast() {
            switch value {
            case .string(let text): left -= text.utf8.count + 2
            case .array(let values):
                // Each value is followed by a comma.
                guard values.count <= left else { return true }
                open += values
            case .object(let members):
                guard members.count <= left else { return true }
                for (name, value) in members {
                    left -= name.utf8.count + 3
                    open.append(value)
                }
            case .null, .bool, .integer, .number, .decimal: left -= 8
            }
            if left < 0 { return true }
        }
        return false
    }
}

extension Problem {
    fileprivate static var expiredUnsent: Problem {
        Problem(
            .upstreamTimeout,
            "The hold expired while the call waited. Call again with a new key."
        )
    }

    /// The same problem for an answer with some output: the detail must not say that nothing was
    /// charged.
    fileprivate var afterParts: Problem {
        guard !isOfLength else { return self }
        var problem = Problem(
            code,
            """
            The answer is incomplete; the parts so far are kept under this key, and 'charged' is \
            their cost. Call again with a new key.
            """
        )
        problem.upstream = upstream
        return problem
    }
}
