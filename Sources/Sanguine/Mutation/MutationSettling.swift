import OrderedCollections
import SanguineModel
import Synchronization

/// Settles mutations that the backend has applied: fetches the queries that they changed until the
/// fetched values contain the changes.
///
/// Mutable state: `guarded`, protected by its mutex, which is never held across an `await` or a
/// call to the cache.
final class MutationSettling: Sendable {
    private struct Guarded {
        /// Fetches in progress, and fetches that wait for their next try.
        var fetches: [UInt64: Task<Void, Never>] = [:]
        var waits: [UInt64: Task<Void, Never>] = [:]
        /// The number of times that an operation's queries were fetched without showing its
        /// changes.
        var tries: [Int64: Int] = [:]
        /// The operations whose response is being taken over.
        var held: Set<Int64> = []
        var runs: UInt64 = 0
        var hasEnded = false
    }

    private static let schedule = RetrySchedule(attempts: .max, cap: RecordLimits.longestWait)

    private let outbox: OutboxEngine
    private let queries: QueryCache
    private let guarded = Mutex(Guarded())
    private var entries: Entries { queries.entries }

    init(_ outbox: OutboxEngine, _ queries: QueryCache) {
        (self.outbox, self.queries) = (outbox, queries)
    }

    /// Whether a fetch is in progress.
    var isFetching: Bool { guarded.withLock { !$0.fetches.isEmpty } }

    /// Cancels all fetches.
    func end() {
        let tasks = guarded.withLock { guarded in
            defer { guarded = Guarded(hasEnded: true) }
            return Array(guarded.fetches.values) + guarded.waits.values
        }
        for task in tasks { task.cancel() }
    }

    /// Fetches the queries of all applied operations that are not settled.
    func refetchAll() {
        let sequences = outbox.read { contents in
            contents.state.outbox.items.values.compactMap { item -> Int64? in
                guard item.kind == .remote, case .acknowledged = item.phase else { return nil }
                return item.sequence
            }
        }
        if !sequences.isEmpty { refetch(sequences) }
    }

    /// Fetches them and returns when the fetches have ended.
    func settleAll() async throws(SanguineError) {
        refetchAll()
        try await OutboxEngine.finish(guarded.withLock { Array($0.fetches.values) })
        try await outbox.checkPresence()
    }

    /// Fetches the queries that the operations changed.
    ///
    /// - Parameters:
    ///   - sequences: The operations, which are applied.
    ///   - wait: The delay before the fetches. Default: none.
    func refetch(_ sequences: [Int64], after wait: Duration? = nil) {
        guarded.withLock { guarded in
            guard !guarded.hasEnded else { return }
            guarded.runs += 1
            let run = guarded.runs
            let task = Task { [weak self, delay = outbox.environment.delay] in
                if let wait {
                    guard (try? await delay.sleep(for: wait)) != nil else { return }
                }
                for sequence in sequences { await self?.refetch(sequence) }
                self?.guarded.withLock { guarded in
                    (guarded.fetches[run], guarded.waits[run]) = (nil, nil)
                }
            }
            if wait == nil {
                guarded.fetches[run] = task
            } else {
                guarded.waits[run] = task
            }
        }
    }

    private func refetch(_ sequence: Int64) async {
        for query in entries.effectQueries(of: sequence) {
            guard !Task.isCancelled else { return }
            // A fetch for another operation may have settled this one in the meantime.
            guard entries.effects(on: query.key)?.effect(of: sequence) != nil else { continue }
            if entries.forgetEffect(of: sequence, onUnknown: query) { continue }
            _ = await queries.answer(to: query, refreshing: true, priority: nil)
            guard !Task.isCancelled else { return }
            // Even if the fetch failed or returned one page of many, the remaining rows are known.
            entries.mergeEffect(sequence, into: query)
        }
        if !settled(sequence) { refetchLater(sequence) }
    }

    /// Schedules another fetch of queries that do not show the operation yet.
    private func refetchLater(_ sequence: Int64) {
        guard outbox.read({ $0.rows[sequence] != nil }) else { return }
        let wait = guarded.withLock { guarded -> Duration? in
            let tries = guarded.tries[sequence, default: 0] + 1
            guarded.tries[sequence] = tries
            guard tries <= RecordLimits.settlingFetches else { return nil }
            var random = outbox.environment.random
            return Self.schedule.backoff(afterFailures: tries, using: &random)
        }
        if let wait { refetch([sequence], after: wait) }
    }

    /// Keeps an operation in the outbox while its response is taken over, even if its effects end
    /// in the meantime: the response may contain values and rows that are not stored yet.
    func withResponse(of sequence: Int64, _ body: () -> Void) {
        guarded.withLock { _ = $0.held.insert(sequence) }
        body()
        guarded.withLock { _ = $0.held.remove(sequence) }
    }

    /// Removes an operation when its last effect has ended.
    ///
    /// - Returns: Whether the operation has no effects left.
    @discardableResult
    func settled(_ sequence: Int64) -> Bool {
        guard !guarded.withLock({ $0.held.contains(sequence) }),
            entries.effectQueries(of: sequence).isEmpty
        else { return false }
        let steps = outbox.update { $0.state.outbox.settle([sequence]) } ?? []
        guard !steps.isEmpty else { return true }
        outbox.deliverOutcomes(steps)
        guarded.withLock { $0.tries[sequence] = nil }
        outbox.changed()
        // Removed from disk only after the values that contain it are stored.
        entries.afterWriting { [weak self] in self?.remove(sequence, steps) }
        return true
    }

    private func remove(_ sequence: Int64, _ steps: [OutboxState.Step]) {
        do {
            guard try outbox.update({ _ in try outbox.file.write(steps) }) != nil else { return }
        } catch {
            return outbox.report(error)
        }
        entries.recordRemoval(sequence)
        outbox.file.checkpointLogIfLong()
    }
}
