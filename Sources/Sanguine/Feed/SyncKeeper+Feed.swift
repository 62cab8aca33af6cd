import Foundation
import Logging
import OrderedCollections
import SanguineModel
import Synchronization

// MARK: - Pulling

extension SyncKeeper {
    /// What a pull asks.
    struct Ask: Sendable {
        let since: Int64
        /// The operations of which it asks whether they are done, with their sequence numbers.
        let operations: [Identifier: Int64]
        /// Up to where the base knows that deletions are forgotten.
        let horizon: Int64
    }

    private static let schedule = RetrySchedule(attempts: .max, cap: RecordLimits.longestWait)

    /// Asks for what is new; once more if that is under way.
    ///
    /// - Returns: What tells of the end of it; `nil` without a server, or in a companion.
    @discardableResult
    func pull() -> OneShot<Void>? {
        guard network != nil else { return nil }
        return guarded.withLock { guarded in
            guard guarded.isOpen, guarded.ending == nil else { return nil }
            if let puller = guarded.puller {
                guarded.mustPullAgain = true
                return puller.outcome
            }
            guarded.polling?.cancel()
            guarded.polling = nil
            guarded.runs += 1
            var run = Run(number: guarded.runs)
            let number = run.number
            run.task = Task { [self] in await pull(run: number) }
            guarded.puller = run
            guarded.mustPullAgain = true
            return run.outcome
        }
    }

    /// Whether a live connection stands: nothing is polled then.
    func setLive(_ isLive: Bool) {
        guarded.withLock { guarded in
            guarded.isLive = isLive
            if isLive {
                guarded.polling?.cancel()
                guarded.polling = nil
            }
        }
        if !isLive { pull() }
    }

    private func pull(run: UInt64) async {
        var more = false
        var vain = 0
        var failure: SanguineError?
        while let ask = nextAsk(run, more: more && vain < RecordLimits.vainPulls, failure) {
            do throws(SanguineError) {
                more = try await pullPage(ask)
                vain = position != ask.since ? 0 : vain + 1
            } catch {
                failure = error
            }
        }
    }

    private var position: Int64 { guarded.withLock { $0.state.pullPosition } }

    /// What to ask next; `nil` if the run is over.
    private func nextAsk(_ run: UInt64, more: Bool, _ failure: SanguineError?) -> Ask? {
        let (ask, ended) = guarded.withLock { guarded -> (Ask?, OneShot<Void>?) in
            guard guarded.puller?.number == run, guarded.ending == nil else { return (nil, nil) }
            guard failure == nil, more || guarded.mustPullAgain else {
                defer { guarded.puller = nil }
                guarded.pullFailures = failure == nil ? 0 : guarded.pullFailures + 1
                poll(&guarded)
                return (nil, guarded.puller?.outcome)
            }
            guarded.mustPullAgain = false
            return (question(guarded), nil)
        }
        ended?.resolve(failure.map { .failure($0) } ?? .success(()))
        return ask
    }

    func question(_ guarded: borrowing Guarded) -> Ask {
        let outbox = guarded.state.outbox
        let unresolved = outbox.unresolved.prefix(WireLimits.operationsAsked)
            .compactMap { outbox.items[$0] }
        return Ask(
            since: guarded.state.pullPosition,
            operations: Dictionary(unresolved.map { ($0.id, $0.sequence) }) { first, _ in first },
            horizon: guarded.state.pullHorizon
        )
    }

    /// Has the feed pulled again after a while, if nothing else brings news.
    private func poll(_ guarded: inout Guarded) {
        // A live feed goes on from where the pull should have ended.
        guard !guarded.isLive || guarded.pullFailures > 0, guarded.isForeground else { return }
        var random = environment.random
        let wait =
            guarded.pullFailures == 0
            ? environment.pollInterval
            : Self.schedule.backoff(afterFailures: guarded.pullFailures, using: &random)
        guard let wait else { return }
        guarded.polling?.cancel()
        guarded.polling = Task { [weak self, delay = environment.delay] in
            guard (try? await delay.sleep(for: wait)) != nil else { return }
            self?.pullInForeground()
        }
    }

    private func pullInForeground() {
        if guarded.withLock({ $0.isForeground && $0.isOnline }) { pull() }
    }

    /// Returns whether there is more to pull.
    private func pullPage(_ first: Ask) async throws(SanguineError) -> Bool {
        let ask = try await signedIn(first)
        if let restore = try unfinishedRestore() { return try await go(on: restore, ask) }
        // At the start it has no record, and may miss the deletion of none.
        let horizon = ask.since == 0 ? 0 : ask.horizon
        let answer = try await get(PullAnswer.self, since: ask.since, ask, horizon: horizon).value
        if answer.hasMore, answer.reset || ask.since == 0 {
            return try await go(on: try beginRestore(with: answer), ask)
        }
        return receive(Self.batch(of: answer, to: ask))
    }

    /// Makes an account known before anything is asked: nobody has no feed.
    private func signedIn(_ ask: Ask) async throws(SanguineError) -> Ask {
        guard let network else { throw .notConfigured("'server'") }
        guard network.call.authorizer.account == nil else { return ask }
        _ = try await network.call.authorizer.accessToken()
        guard network.call.authorizer.account != nil else { throw .userChanged }
        return guarded.withLock { question($0) }
    }

    func get<Page: Decodable & Sendable>(
        _ page: Page.Type,
        since: Int64,
        _ ask: Ask,
        horizon: Int64
    ) async throws(SanguineError) -> ServerCall.Answer<Page> {
        guard let network else { throw .notConfigured("'server'") }
        var query = [
            URLQueryItem(name: "since", value: "\(since)"),
            URLQueryItem(name: "limit", value: "\(RecordLimits.pullChanges)"),
            URLQueryItem(name: "horizon", value: "\(horizon)"),
        ]
        if !ask.operations.isEmpty {
            let ids = ask.operations.keys.map(\.description).sorted().joined(separator: ",")
            query.append(URLQueryItem(name: "operations", value: ids))
        }
        return try await network.call.get(
            "/v1/sync/pull",
            query: query,
            as: page
        )
    }

    static func batch(of answer: PullAnswer, to ask: Ask) -> SyncState.FeedBatch {
        // A server that does not say what became of them has not been asked.
        let asked = answer.operations == nil ? [] : Set(ask.operations.values)
        var batch = SyncState.FeedBatch(answer, since: ask.since, asked: asked)
        batch.head = answer.hasMore ? max(answer.head, answer.next + 1) : answer.next
        return batch
    }
}

// MARK: - Taking in

extension SyncKeeper {
    /// Takes a part of the feed in; returns whether the feed must be pulled.
    func receive(_ batch: SyncState.FeedBatch) -> Bool {
        // What is no record waits for nothing that records wait for.
        if !hasEnded, let carry = environment.carry {
            for change in batch.changes where change.isSystem { carry(change, batch.isReset) }
        }
        return take { guarded in try guarded.state.received(batch, over: guarded.base) }
    }

    /// Takes something of the server's in; returns whether the feed must be pulled.
    func take(_ body: (inout Guarded) throws -> SyncState.Effects) -> Bool {
        let aftermath = serial.withLock { _ in
            let taken = guarded.withLock { guarded -> SyncState.Effects? in
                guard guarded.isOpen, guarded.ending == nil else { return nil }
                guarded.revision += 1
                return attempt(&guarded, body)
            }
            return taken.map { carryOut($0) } ?? Aftermath()
        }
        // The app's code, so under no lock.
        if aftermath.hasWritten { environment.durableWrites?() }
        return aftermath.mustPull
    }

    /// What is to be done after effects were performed, under no lock.
    private struct Aftermath {
        var mustPull = false
        var hasWritten = false
    }

    /// Performs effects in their order, and those that they lead to.
    ///
    /// The caller holds `serial`.
    private func carryOut(_ first: SyncState.Effects) -> Aftermath {
        var next: SyncState.Effects? = first
        var aftermath = Aftermath()
        while let effects = next {
            next = nil
            aftermath.mustPull = aftermath.mustPull || effects.mustPull
            defer { tell(effects) }
            do {
                try outbox.write(effects.records)
            } catch StoreError.closed {
                return Aftermath()  // The user has left meanwhile.
            } catch {
                // Without it a restart would show what the base has a second time.
                environment.logger.error(
                    "The outbox could not be written. The feed waits.",
                    metadata: ["reason": "\(error)"]
                )
                aftermath.mustPull = false
                return aftermath
            }
            guard let batch = effects.adopt else { continue }
            next = adopt(batch)
            let isChange = !batch.changes.isEmpty || batch.isReset
            aftermath.hasWritten = aftermath.hasWritten || (next != nil && isChange)
        }
        tellOutbox()
        return aftermath
    }

    /// Makes a part of the feed the base.
    private func adopt(_ batch: SyncState.FeedBatch) -> SyncState.Effects? {
        guard let records = guarded.withLock({ $0.records }) else { return nil }
        do {
            let effects = try write(batch, to: records)
            records.checkpoint()
            if batch.isReset { try records.sweep() }
            return effects
        } catch {
            records.rollback()
            return recover(from: error, records, batch)
        }
    }

    private func write(
        _ batch: SyncState.FeedBatch,
        to records: RecordsFile
    ) throws -> SyncState.Effects? {
        guard records.isOnDisk else {
            // In memory readers would see what is written, so they wait; it does not take long.
            return try guarded.withLock { guarded in
                guard guarded.ending == nil else { return nil }
                let space = try records.begin(batch)
                return try show(batch, in: space, of: records, &guarded)
            }
        }
        let space = try records.begin(batch)
        return try guarded.withLock { guarded in
            guard guarded.ending == nil else {
                records.rollback()
                return nil
            }
            return try show(batch, in: space, of: records, &guarded)
        }
    }

    private func show(
        _ batch: SyncState.FeedBatch,
        in space: Int64,
        of records: RecordsFile,
        _ guarded: inout Guarded
    ) throws -> SyncState.Effects {
        try records.commit()
        if batch.isReset {
            records.cache.clear()
        } else {
            records.cache.forget(batch.changes.map { RecordKey($0.collection, $0.id) })
        }
        guarded.base.space = space
        guarded.revision += 1
        return try guarded.state.adopted(batch, over: guarded.base)
    }

    /// Goes on without the disk, or with a fresh file.
    private func recover(
        from error: any Error,
        _ records: RecordsFile,
        _ batch: SyncState.FeedBatch
    ) -> SyncState.Effects? {
        let canGoOn = guarded.withLock { guarded in
            guard guarded.ending == nil, records.isOnDisk, !SQLiteFile.isDamage(error) else {
                failed(error, &guarded)
                return false
            }
            do {
                try records.leaveDisk(because: error)
                return true
            } catch {
                failed(error, &guarded)
                return false
            }
        }
        return canGoOn ? adopt(batch) : nil
    }

    /// What the body returns, or `nil` after a failure of the records' file.
    func attempt<Value>(
        _ guarded: inout Guarded,
        _ body: (inout Guarded) throws -> Value
    ) -> Value? {
        do {
            return try body(&guarded)
        } catch {
            failed(error, &guarded)
            return nil
        }
    }

    private func tell(_ effects: SyncState.Effects) {
        let receipts = guarded.withLock { guarded in
            for record in effects.records {
                if case .removed(let sequences) = record {
                    for sequence in sequences { guarded.rows[sequence] = nil }
                }
            }
            return effects.ended.compactMap { sequence, outcome in
                guarded.receipts.removeValue(forKey: sequence).map { ($0, outcome) }
            }
        }
        for (receipt, outcome) in receipts { receipt.resolve(.success(Receipt.Outcome(outcome))) }
        if effects.isEverythingChanged {
            observers.changed(nil)
        } else if !effects.changed.isEmpty {
            observers.changed(effects.changed)
        }
    }
}

extension RecordChange {
    /// Whether it is of what every account has, and no record of the app's.
    fileprivate var isSystem: Bool { collection.hasPrefix("$") && !deleted }
}

extension Receipt.Outcome {
    fileprivate init(_ outcome: SyncState.Outcome) {
        self =
            switch outcome {
            case .applied: .applied
            case .refused(let problem): .refused(problem)
            }
    }
}
