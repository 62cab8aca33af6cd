import Foundation
import Logging
import OrderedCollections
import SanguineModel
import Synchronization

// MARK: - Sending

extension MutationKeeper {
    /// A mutation on its way.
    private struct Departure: Sendable {
        let flight: OutboxState.Flight
        let records: [OutboxState.Record]
        let sequence: Int64
        let mutation: any Mutation
        let row: OutboxFile.Row
        /// What real ids were known.
        let replaced: OrderedDictionary<String, String>
        let request: MutationRequest
        let run: UInt64
    }

    /// What a sending came to.
    private enum Verdict {
        case done
        case refused(Problem)
        case failed(OutboxState.Failure, wasSent: Bool)
    }

    private static let schedule = RetrySchedule(attempts: .max, cap: RecordLimits.longestWait)

    /// Sends what waits, unless that is under way or must wait.
    func kick() {
        guarded.withLock { guarded in
            while guarded.ending == nil, let (flight, records) = guarded.state.takeOff() {
                guard let sequence = flight.sequences.first, let row = guarded.rows[sequence],
                    let mutation = guarded.mutations[sequence]
                else { return assertionFailure("An operation without a row.") }
                guarded.runs += 1
                let departure = Departure(
                    flight: flight,
                    records: records,
                    sequence: sequence,
                    mutation: mutation,
                    row: row,
                    replaced: guarded.replaced,
                    request: MutationRequest(
                        id: row.id,
                        backend: user.attempts.backend
                    ),
                    run: guarded.runs
                )
                guarded.flights[departure.run] = Task { [weak self] in await self?.fly(departure) }
            }
        }
    }

    /// Something has happened that makes another try worth it.
    func wake() {
        guarded.withLock { guarded in
            guarded.state.wake()
            for task in guarded.waking.values { task.cancel() }
            guarded.waking = [:]
        }
        kick()
    }

    /// Sends again what a 401 has stopped.
    func resume() {
        guarded.withLock { $0.state.set(.signIn, false) }
        wake()
    }

    private func fly(_ departure: Departure) async {
        let (mutation, rewritten) = renamed(departure)
        do {
            try outbox.write(departure.records, rewriting: rewritten)
        } catch {
            report(error)
            return failed(departure, .store(.writeFailed("the outbox: \(error)")))
        }
        queries.noteSent(departure.sequence)
        news.changed()
        let outcome = await attempt(departure, mutation)
        guard !Task.isCancelled else { return }
        do throws(SanguineError) {
            try outcome.get()
            landed(departure)
        } catch {
            failed(departure, error)
        }
    }

    /// The mutation with the real ids that were known when it took off.
    ///
    /// They may have become known in the same moment, and not be in it yet.
    private func renamed(_ departure: Departure) -> (any Mutation, [OutboxFile.Row]) {
        guard !departure.replaced.isEmpty else { return (departure.mutation, []) }
        let row = rewrite(departure.row, departure.replaced)
        guard let mutation = mutation(of: row ?? departure.row) else {
            return (departure.mutation, [])
        }
        if let row { take(row, mutation) }
        return (mutation, row.map { [$0] } ?? [])
    }

    // In a task of its own: the app's closure may ignore its cancellation, and the lane must not
    // stand for ever.
    private func attempt(
        _ departure: Departure,
        _ mutation: any Mutation
    ) async -> Result<Void, SanguineError> {
        let outcome = OneShot<Void>()
        let work = Task {
            do {
                try await mutation.send(departure.request)
                outcome.resolve(.success(()))
            } catch {
                outcome.resolve(.failure(SanguineError(error)))
            }
        }
        let deadline = Task { [delay = configuration.delay] in
            guard (try? await delay.sleep(for: RecordLimits.mutationTimeout)) != nil else { return }
            outcome.resolve(.failure(.transport(.timedOut)))
        }
        defer {
            work.cancel()
            deadline.cancel()
        }
        do throws(SanguineError) {
            return .success(try await outcome.value())
        } catch {
            return .failure(error)
        }
    }

    // MARK: - Answers

    private func landed(_ departure: Departure) {
        let sequence = departure.sequence
        let said = departure.request.notes.said.withLock { $0 }
        let moment = clock.now()
        let landing = guarded.withLock { guarded -> (records: [OutboxState.Record], shot: Shot?)? in
            guard guarded.isPresent(departure.run) else { return nil }
            for (temporary, real) in said.replaced {
                guarded.replaced.updateValue(real, forKey: temporary)
                if guarded.replaced.count > RecordLimits.replacedIds {
                    guarded.replaced.removeFirst()
                }
            }
            let records = guarded.state.land(
                departure.flight.number,
                [
                    PushResult(
                        id: departure.request.id,
                        status: .applied,
                        head: moment.millisecondsSince1970
                    )
                ]
            )
            guarded.failures[departure.sequence] = nil
            return (records, guarded.receipts[sequence])
        }
        guard let landing else { return }
        rewriteWaiting(sequence, with: landing.records)
        var unsettled: [ErasedQuery] = []
        for (query, box) in said.values
        where !queries.settle(sequence, query, with: box, for: user) {
            unsettled.append(query)
        }
        let rest = queries.acknowledge(sequence, said.conditions)
        for query in unsettled where !rest.contains(where: { $0.key == query.key }) {
            queries.invalidate(query)
        }
        end(departure)
        landing.shot?.resolve(.success(.applied))
        if rest.isEmpty { settled(sequence) } else { refetch([sequence]) }
        news.changed()
        kick()
    }

    private func failed(_ departure: Departure, _ error: SanguineError) {
        switch Self.verdict(on: error, of: departure.row.name) {
        case .done:
            configuration.logger.error(
                "A mutation's answer could not be read; it counts as done.",
                metadata: ["reason": "\(error)"]
            )
            landed(departure)
        case .refused(let problem):
            refused(departure, problem)
        case .failed(let failure, let wasSent):
            wait(departure, failure, wasSent: wasSent, error)
        }
    }

    private func refused(_ departure: Departure, _ problem: Problem) {
        let sequence = departure.sequence
        let result = PushResult(id: departure.request.id, status: .refused, problem: problem)
        var failure: (any Error)?
        let shot = guarded.withLock { guarded -> Shot?? in
            guard guarded.isPresent(departure.run) else { return nil }
            let records = guarded.state.land(departure.flight.number, [result])
            do { try outbox.write(records) } catch { failure = error }
            return .some(guarded.receipts.removeValue(forKey: sequence))
        }
        if let failure { report(failure) }
        guard let shot else { return }
        let touched = queries.effectQueries(of: sequence)
        queries.setEffects([], of: sequence, for: user)
        // Who refuses often knows something that is not shown yet.
        for query in touched { queries.invalidate(query) }
        end(departure)
        shot?.resolve(.success(.refused(problem)))
        news.changed()
        kick()
    }

    private func wait(
        _ departure: Departure,
        _ failure: OutboxState.Failure,
        wasSent: Bool,
        _ error: SanguineError
    ) {
        var isUnsent = false
        guarded.withLock { guarded in
            guard guarded.isPresent(departure.run) else { return }
            guarded.failures[departure.sequence] = error
            var random = configuration.random
            let number = departure.flight.number
            let waits = guarded.state.fail(number, failure, wasSent: wasSent)
            isUnsent = guarded.state.items[departure.sequence]?.mayBeDone == false
            for (line, failures) in waits {
                var wait = Self.schedule.backoff(afterFailures: failures, using: &random)
                if case .retryAfter(let wanted) = failure {
                    let bounded = min(wanted, ClientLimits.longestPause)
                    wait = max(wait, Self.schedule.later(bounded, using: &random))
                }
                guarded.waking[line]?.cancel()
                guarded.waking[line] = Task { [weak self, delay = configuration.delay] in
                    guard (try? await delay.sleep(for: wait)) != nil, let self else { return }
                    self.guarded.withLock { $0.state.wake(line) }
                    self.kick()
                }
            }
        }
        // What is fetched meanwhile has it not in it.
        if isUnsent { queries.noteUnsent(departure.sequence) }
        end(departure)
        news.changed()
        kick()
    }

    private func end(_ departure: Departure) {
        guarded.withLock { $0.flights[departure.run] = nil }
    }

    /// What a sending's error means.
    private static func verdict(on error: SanguineError, of name: String) -> Verdict {
        switch error {
        case .decoding: return .done
        case .transport(.offline), .store, .notConfigured: return .failed(.retry, wasSent: false)
        case .problem(let problem) where problem.status == 401:
            return .failed(.needsSignIn, wasSent: false)
        case .problem(let problem):
            // These say that the request was not worked on (RFC 9110, RFC 6585, RFC 8470).
            let isTurnedAway = [408, 425, 429, 503].contains(problem.status)
            let isBusy = isTurnedAway || problem.status >= 500
            guard isBusy || problem.code == .operationInProgress else { return .refused(problem) }
            let failure = error.retryAfter.map { OutboxState.Failure.retryAfter($0) } ?? .retry
            return .failed(failure, wasSent: !isTurnedAway)
        case .queryFailed(let text): return .refused(unsendable(name, text))
        case .transport(.invalid), .conflictingQuery, .rangeTooLong:
            return .refused(unsendable(name, "\(error)"))
        default: return .failed(.retry, wasSent: true)
        }
    }

    /// What no other try would cure.
    private static func unsendable(_ name: String, _ reason: String) -> Problem {
        var problem = Problem(
            .mutatorFailed,
            "Fix the 'send' of '\(name)', then retry or discard the operation. It threw: \(reason)"
        )
        problem.title = "The mutation failed."
        return problem
    }

    // MARK: - Settling

    /// Has fetched what done operations have changed and nobody has fetched since.
    func refetchSettling() {
        let sequences = guarded.withLock { guarded in
            guarded.state.items.values.compactMap { item in
                if case .acknowledged = item.phase { item.sequence } else { nil }
            }
        }
        if !sequences.isEmpty { refetch(sequences) }
    }

    private func refetch(_ sequences: [Int64], after wait: Duration? = nil) {
        guarded.withLock { guarded in
            guard guarded.ending == nil else { return }
            guarded.runs += 1
            let run = guarded.runs
            let task = Task { [weak self, delay = configuration.delay] in
                if let wait {
                    guard (try? await delay.sleep(for: wait)) != nil else { return }
                }
                for sequence in sequences { await self?.refetch(sequence) }
                self?.guarded.withLock { guarded in
                    guarded.settling[run] = nil
                    guarded.waitingToSettle[run] = nil
                }
            }
            if wait == nil {
                guarded.settling[run] = task
            } else {
                guarded.waitingToSettle[run] = task
            }
        }
    }

    private func refetch(_ sequence: Int64) async {
        for query in queries.effectQueries(of: sequence) {
            guard !Task.isCancelled else { return }
            if queries.forgetEffect(of: sequence, onUnknown: query) { continue }
            _ = await queries.answer(to: query, refreshing: true, priority: nil)
            guard !Task.isCancelled else { return }
            // If that failed, or brought one page of many, the rest is known all the same.
            queries.fold(sequence, into: query)
        }
        if !settled(sequence) { refetchLater(sequence) }
    }

    /// Has fetched again what does not show yet that it contains the operation.
    private func refetchLater(_ sequence: Int64) {
        let wait = guarded.withLock { guarded -> Duration? in
            guard guarded.state.items[sequence] != nil else { return nil }
            let tries = guarded.settlingTries[sequence, default: 0] + 1
            guarded.settlingTries[sequence] = tries
            guard tries <= RecordLimits.settlingFetches else { return nil }
            var random = configuration.random
            return Self.schedule.backoff(afterFailures: tries, using: &random)
        }
        if let wait { refetch([sequence], after: wait) }
    }

    /// An effect is over; if it was the last one, so is the operation.
    ///
    /// - Returns: Whether nothing of the operation is left to settle.
    @discardableResult
    func settled(_ sequence: Int64) -> Bool {
        guard queries.effectQueries(of: sequence).isEmpty else { return false }
        let records = guarded.withLock { guarded in
            let records = guarded.state.settle([sequence])
            if !records.isEmpty { guarded.forget([sequence]) }
            return records
        }
        guard !records.isEmpty else { return true }
        news.changed()
        // It leaves the disk after the values that contain it are there.
        queries.afterWriting { [weak self] in self?.remove(sequence, records) }
        return true
    }

    private func remove(_ sequence: Int64, _ records: [OutboxState.Record]) {
        let failure = guarded.withLock { guarded -> (any Error)? in
            guard guarded.ending == nil else { return nil }
            do { try outbox.write(records) } catch { return error }
            return nil
        }
        if let failure { return report(failure) }
        queries.noteRemoved(sequence)
        outbox.tidyUpIfLong()
    }
}

extension MutationKeeper.Guarded {
    fileprivate func isPresent(_ run: UInt64) -> Bool { ending == nil && flights[run] != nil }
}
