import OrderedCollections
import SanguineModel
import Synchronization

// MARK: - Sending

extension OutboxEngine {
    private static let schedule = RetrySchedule(attempts: .max, cap: RecordLimits.longestWait)
    private static let deployment = RetrySchedule(
        attempts: .max,
        cap: RecordLimits.longestDeploymentPause
    )

    /// Sends queued operations.
    ///
    /// A lane waits only for its own send.
    func sendQueued() {
        let (shown, hasDeparted) = guarded.withLock { guarded -> ([Shown], Bool) in
            guard guarded.ending == nil else { return ([], false) }
            let kinds = guarded.sendable
            guard !kinds.isEmpty else { return ([], false) }
            // Reads the disk only for kinds that can be sent; when another kind can be sent again,
            // this runs again.
            let shown = kinds.contains(.record) ? notice(&guarded) : []
            var hasDeparted = false
            while let (send, steps) = guarded.contents.state.outbox.startSend(of: kinds) {
                hasDeparted = true
                let rows = send.sequences.compactMap { guarded.contents.rows[$0] }
                let departure = OutboxSend(send: send, steps: steps, rows: rows)
                guarded.sends[send.number] = RunningSend(
                    kind: send.kind,
                    task: Task { [weak self] in await self?.runSend(departure) }
                )
            }
            return (shown, hasDeparted)
        }
        for show in shown { show() }
        if hasDeparted || !shown.isEmpty { changed() }
    }

    /// Whether any operation is being sent.
    var isSending: Bool { guarded.withLock { !$0.sends.isEmpty } }

    /// Ends the waits of all retries, because a send may succeed now.
    func wake() {
        guarded.withLock { guarded in
            guarded.contents.state.outbox.wake()
            for waking in guarded.waking.values { waking.task.cancel() }
            guarded.waking = [:]
        }
        sendQueued()
    }

    private func runSend(_ departure: OutboxSend) async {
        var departure = departure
        let number = departure.send.number
        let driver = guarded.withLock { guarded in
            for sequence in departure.send.sequences { guarded.uploads[sequence] = nil }
            return guarded.drivers[departure.send.kind]
        }
        guard let driver else { return }
        departure.rows = driver.prepare(departure.rows)
        do {
            try write(departure)
        } catch {
            report(error)
            failed(departure, driver, .store(.writeFailed("the outbox: \(error)")))
            return complete(departure)
        }
        // The user may have left during the write.
        guard isBeingSent(number) else { return }
        do throws(SanguineError) {
            try await driver.send(departure)
        } catch {
            if isBeingSent(number) { failed(departure, driver, error) }
        }
        complete(departure)
    }

    /// Records how much of an operation's bytes, files and forms has been sent.
    func progressed(_ sequence: Int64, _ progress: UploadProgress) {
        let isShown = guarded.withLock { guarded in
            guard guarded.ending == nil, guarded.isBeingSent(sequence) else { return false }
            guarded.uploads[sequence] = progress
            return true
        }
        if isShown { changed() }
    }

    private func isBeingSent(_ number: UInt64) -> Bool {
        guarded.withLock { $0.sends[number] != nil }
    }

    /// Makes durable that operations are being sent, and how.
    private func write(_ departure: OutboxSend) throws {
        let rewritten = read { contents in
            departure.rows.filter { row in
                guard let old = contents.rows[row.sequence] else { return false }
                return !row.isSame(as: old)
            }
        }
        try file.write(departure.steps, rewriting: rewritten)
        guarded.withLock { $0.replaceRows(rewritten) }
    }

    /// Ends a send.
    private func complete(_ departure: OutboxSend) {
        // Starts the next send first, so that a waiting caller sees no gap.
        sendQueued()
        let wasFlying = guarded.withLock { guarded in
            for sequence in departure.send.sequences where !guarded.isBeingSent(sequence) {
                guarded.uploads[sequence] = nil
            }
            return guarded.sends.removeValue(forKey: departure.send.number) != nil
        }
        guard wasFlying else { return }
        changed()
        file.checkpointLogIfLong()
    }

    /// Records the outcomes of a send, durably.
    ///
    /// - Parameters:
    ///   - departure: The operations that were sent.
    ///   - results: Their outcomes.
    ///   - rewrite: Returns, under the outbox's lock, operations with new arguments or in another
    ///     lane; they are written in the same transaction.
    /// - Returns: The durable steps and the rewritten operations; `nil` if the user has left.
    func recordOutcomes(
        _ departure: OutboxSend,
        _ results: [PushResult],
        _ rewrite: (borrowing OutboxContents) -> [OutboxFile.Row] = { _ in [] }
    ) -> (steps: [OutboxState.Step], rewritten: [OutboxFile.Row])? {
        var failure: (any Error)?
        let recorded = guarded.withLock {
            guarded -> (steps: [OutboxState.Step], rewritten: [OutboxFile.Row])? in
            let send = departure.send
            guard guarded.sends[send.number] != nil else { return nil }
            let steps = guarded.contents.state.outbox.complete(send.number, results)
            for sequence in send.sequences { guarded.failures[sequence] = nil }
            let rows = rewrite(guarded.contents)
            do { try file.write(steps, rewriting: rows) } catch { failure = error }
            guarded.replaceRows(rows)
            return (steps, rows)
        }
        if let failure { report(failure) }
        if recorded != nil { count(results) }
        return recorded
    }

    /// Counts the outcomes of operations; those that the server has not decided are not counted.
    private func count(_ results: [PushResult]) {
        guard let metrics = environment.metrics else { return }
        let refused = results.filter { $0.status == .refused }
        metrics.outbox.count(
            performed: results.count { $0.status == .applied || $0.status == .replayed },
            refused: refused.count
        )
        for result in refused where result.problem?.code == .quotaExhausted {
            metrics.analytics.post(.quotaExhausted)
        }
    }

    /// Replaces operations by versions with other arguments or in another lane.
    func rewrite(_ body: (borrowing OutboxContents) -> [OutboxFile.Row]) {
        var failure: (any Error)?
        guarded.withLock { guarded in
            let rows = body(guarded.contents)
            do { try file.write([], rewriting: rows) } catch { failure = error }
            guarded.replaceRows(rows)
        }
        if let failure { report(failure) }
    }

    // MARK: - Failures

    private func failed(
        _ departure: OutboxSend,
        _ driver: any OutboxDriver,
        _ error: SanguineError
    ) {
        switch driver.verdict(on: error, of: departure) {
        case .refused(let problem): driver.refused(departure, problem)
        case .notAnswered(let failure, let problem):
            if countForeignAnswer(to: departure) < RecordLimits.foreignAnswers {
                wait(departure, failure, wasSent: true, error)
            } else {
                driver.refused(departure, problem)
            }
        case .failed(let failure, let wasSent):
            if !wasSent {
                // Done before they are queued again, because another send may then start.
                let sequences = departure.send.sequences
                let unsent = read { contents in
                    sequences.filter { contents.state.outbox.items[$0]?.outcomeUnknown == false }
                }
                if !unsent.isEmpty { driver.notSent(unsent) }
            }
            wait(departure, failure, wasSent: wasSent, error)
        }
    }

    /// Counts, durably, a response that is not the backend's; returns the largest count.
    private func countForeignAnswer(to departure: OutboxSend) -> Int {
        let (counts, failure) = guarded.withLock { guarded -> ([Int64: Int], (any Error)?) in
            var counts: [Int64: Int] = [:]
            for sequence in departure.send.sequences {
                guard let row = guarded.contents.rows[sequence] else { continue }
                counts[sequence] = row.foreignAnswers + 1
                guarded.contents.rows[sequence]?.foreignAnswers = row.foreignAnswers + 1
            }
            do { try file.store(foreignAnswers: counts) } catch { return (counts, error) }
            return (counts, nil)
        }
        if let failure { report(failure) }
        return counts.values.max() ?? 0
    }

    private func wait(
        _ departure: OutboxSend,
        _ failure: OutboxState.Failure,
        wasSent: Bool,
        _ error: SanguineError
    ) {
        let now = environment.clock.now()
        guarded.withLock { guarded in
            let send = departure.send
            guard guarded.ending == nil else { return }
            for sequence in send.sequences { guarded.failures[sequence] = error }
            let waits = guarded.contents.state.outbox.fail(send.number, failure, wasSent: wasSent)
            var random = environment.random
            for (group, failures) in waits {
                var wait = Self.schedule.backoff(afterFailures: failures, using: &random)
                if case .retryAfter(let wanted) = failure {
                    let bounded = min(wanted, ClientLimits.longestPause)
                    wait = max(wait, Self.schedule.later(bounded, using: &random))
                }
                wake(group, after: wait, from: now, &guarded)
            }
        }
        guard let steps = environment.metrics?.steps else { return }
        for row in departure.rows {
            let code = error.metricsCode
            steps.log(.retried, .operation(row.name, row.id), code: code)
        }
    }

    /// Schedules the next try of an operation whose mutation the server does not know yet.
    func wait(for sequence: Int64, at now: Timestamp, _ guarded: inout Guarded) {
        guard guarded.ending == nil,
            let (lane, times) = guarded.contents.state.outbox.deferral(of: sequence)
        else { return }
        var random = environment.random
        let wait = Self.deployment.backoff(afterFailures: times, using: &random)
        wake(lane, after: wait, from: now, &guarded)
    }

    private func wake(
        _ group: OutboxState.RetryGroup,
        after wait: Duration,
        from now: Timestamp,
        _ guarded: inout Guarded
    ) {
        guarded.waking[group]?.task.cancel()
        let task = Task { [weak self, delay = environment.delay] in
            guard (try? await delay.sleep(for: wait)) != nil, let self else { return }
            self.guarded.withLock { $0.contents.state.outbox.wake(group) }
            sendQueued()
        }
        guarded.waking[group] = Waking(task: task, due: now + wait)
    }

    // MARK: - Sending everything

    /// Sends all queued operations of a kind and returns when they are answered.
    ///
    /// A lane that waits for a deployment of the server is tried once.
    ///
    /// - Throws: ``SanguineError``: the error of the first operation that was not answered.
    func sendAll(_ kind: OutboxState.Kind) async throws(SanguineError) {
        try open(kind)
        loadForeignOperations()
        let last = guarded.withLock { guarded in
            // An explicit request is sent even if the system reports no network.
            guarded.contents.state.outbox.set(.offline, false)
            return guarded.contents.state.outbox.lastShown(kind)
        }
        wake()
        while true {
            try await Self.finish(guarded.withLock { $0.tasks(of: kind) })
            try await checkPresence()
            // Starts the next send before a single look at the state. With two looks, an operation
            // answered in between would seem to be queued without a send in progress.
            sendQueued()
            let isOver = try guarded.withLock { guarded throws(SanguineError) in
                let outbox = guarded.contents.state.outbox
                let first = outbox.firstUnanswered(kind, outside: guarded.deferredLanes)
                guard let first, first <= last else { return true }
                guard guarded.ending == nil, guarded.tasks(of: kind).isEmpty else { return false }
                // An operation that is held may wait for a file that could not be uploaded.
                let related = [first] + (outbox.items[first]?.dependencies.sorted() ?? [])
                if let failure = related.compactMap({ guarded.failures[$0] }).first {
                    throw failure
                }
                guard outbox.mustSignIn(kind) else {
                    throw .transport(.offline("the connection was lost while waiting"))
                }
                throw .problem(
                    Problem(.unauthenticated, "Sign in, then synchronize again.")
                )
            }
            if isOver { return }
            if Task.isCancelled { throw .cancelled }
        }
    }

    /// Returns when the tasks have ended; throws if the calling task is cancelled.
    static func finish(_ tasks: [Task<Void, Never>]) async throws(SanguineError) {
        guard !tasks.isEmpty else { return }
        let end = OneShot<Void>()
        Task {
            for task in tasks { await task.value }
            end.resolve(.success(()))
        }
        try await end.value()
    }
}

extension OutboxEngine.Guarded {
    fileprivate func isBeingSent(_ sequence: Int64) -> Bool {
        contents.state.outbox.items[sequence]?.isBeingSent ?? false
    }

    /// Replaces rows by their rewritten versions.
    mutating func replaceRows(_ rows: [OutboxFile.Row]) {
        for row in rows where contents.rows[row.sequence] != nil {
            contents.rows[row.sequence] = row
            contents.state.outbox.move(row.sequence, to: row.lane)
        }
    }

    /// The lanes with an operation that waits for a deployment of the server.
    fileprivate var deferredLanes: Set<String> {
        let deferred = contents.rows.values.filter { row in
            row.deferredSince != nil
                && contents.state.outbox.items[row.sequence]?.isUnanswered == true
        }
        return Set(deferred.map(\.lane))
    }

    fileprivate func tasks(of kind: OutboxState.Kind) -> [Task<Void, Never>] {
        sends.values.filter { $0.kind == kind }.map(\.task)
    }

    /// The kinds that can be sent now and whose operations are all loaded.
    fileprivate var sendable: [OutboxState.Kind] {
        OutboxState.Kind.allCases.filter {
            contents.state.outbox.canSend($0) && loaded.contains($0)
                && drivers[$0]?.canSend == true
        }
    }
}
