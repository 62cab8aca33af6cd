import Foundation
import SanguineModel
import Synchronization

/// Writes entries to the store in the background, many in one transaction, and measures values.
///
/// A value is shown before it is on disk: it can be fetched again, and flushing the disk for each
/// one would cost more than the fetch. It is not even encoded while a caller waits. Reads include
/// values that have not reached the disk yet.
///
/// Invariants:
///
/// 1. Of two changes of one key, the later one stays.
/// 2. A change waits, is being written, has failed, or is on disk; reads look in this order.
/// 3. A mark applies to a value wherever it is: waiting, being written, or on disk.
/// 4. Marks and values that a failing store rejected are retried: by a timer, with growing delays
///    and a limit, and together with other writes.
/// 5. A journaled mark stays in the journal until the store has it.
/// 6. Work that waits for values to be stored, see ``afterWriting(_:)``, runs when the store has
///    all values that were put before; it never runs if the process ends first.
///
/// Mutable state: `guarded`, protected by its mutex, which is never held during a call to the
/// store, the app's code or the cache; ``isBehind``, which may lag behind; and `measured`, set
/// once. Writes run one after the other on `queue`. ``put(_:)`` and ``markStale(_:)`` may be called
/// with the lock of ``Entries`` held.
final class EntryWriter: Sendable {
    /// A value to encode, to measure and, depending on its policy, to write.
    struct Draft: Sendable {
        let key: QueryKey
        let policy: Policy
        let asOf: Timestamp
        let day: LocalDay?
        var isStale: Bool
        /// See ``StoredEntry/contained``.
        var contained: Set<Int64> = []
        /// The last mark before the draft, which does not apply to it.
        var lastMark: UInt64 = 0
        /// Returns the cost of a value that is not stored, if known without encoding it.
        var size: (@Sendable () -> Int?)?
        let encode: @Sendable () -> Data?

        /// Returns the row, or `nil` if the value cannot be encoded or is too large for the disk.
        func entry(_ json: Data?) -> StoredEntry? {
            guard let json, json.count <= ClientLimits.diskEntryBytes else { return nil }
            return StoredEntry(
                key: key.text,
                asOf: asOf,
                day: day,
                keptUntil: policy.end(of: asOf),
                version: policy.version,
                labels: StoredEntry.labels(of: policy),
                isStale: isStale,
                contained: contained,
                value: json
            )
        }
    }

    /// An invalidation that has not reached the disk yet.
    struct Mark: Sendable {
        let scope: InvalidationMarks.Scope
        let number: UInt64
    }

    /// The cost of a value, in bytes of its JSON; `nil` if it cannot be encoded.
    struct Measure: Sendable {
        let key: QueryKey
        let bytes: Int?
    }

    private struct Guarded {
        var waiting: [QueryKey: Draft] = [:]
        var writing: [QueryKey: Draft] = [:]
        /// Marks for the disk, with their numbers; a batch writes them before its entries.
        var waitingMarks: [InvalidationMarks.Scope: UInt64] = [:]
        var writingMarks: [InvalidationMarks.Scope: UInt64] = [:]
        /// Marks that failed to be written: until they are, all rows that they cover are stale.
        var failedMarks: Set<InvalidationMarks.Scope> = []
        /// Values that failed to be written.
        var failedDrafts: [QueryKey: Draft] = [:]
        /// The number of consecutive failed writes.
        var failures = 0
        var retry: Task<Void, Never>?
        var isClosed = false
        /// Whether writing has ended permanently.
        var isEnded = false
        /// The number of the last mark; they ascend.
        var lastMark: UInt64 = 0
        /// Whether there may be rows that a mark covers.
        var mayHaveRows: Bool
        var isScheduled = false
        /// Work to run when everything pending now is on disk.
        var followUps: [@Sendable () -> Void] = []

        /// Whether anything is pending.
        var hasWaiting: Bool {
            !waiting.isEmpty || !waitingMarks.isEmpty || !followUps.isEmpty
        }

        var hasTooMany: Bool {
            waiting.count > ClientLimits.unwrittenEntries
                || waitingMarks.count > ClientLimits.invalidationMarks
        }

        /// Whether there is work that only waits for the disk, and the disk works.
        var hasFollowUps: Bool { failedMarks.isEmpty && !followUps.isEmpty }

        /// Drops everything pending.
        mutating func forget() {
            (waiting, waitingMarks) = ([:], [:])
            (failedMarks, failedDrafts) = ([], [:])
            followUps = []
            retry?.cancel()
            retry = nil
        }
    }

    private let guarded: Mutex<Guarded>
    /// Whether too much is pending; read without the lock, at each write.
    private let hasTooMany = Atomic(false)
    private let queue: any SerialQueue
    private let store: ClientStore
    private let delay: any Clock<Duration>
    private let journal: MarkJournal?
    private let measured = Mutex<(@Sendable ([Measure]) -> Void)?>(nil)

    /// The name of the queue in the debugger.
    static let label = "sanguine.entry-writer"

    /// - Parameters:
    ///   - store: The store for entries.
    ///   - delay: The clock that delays a retry after a failure.
    ///   - queue: The queue for writes. Default: a background queue of the system.
    init(
        store: ClientStore,
        delay: any Clock<Duration>,
        queue: any SerialQueue = BackgroundQueue(EntryWriter.label)
    ) {
        self.store = store
        self.delay = delay
        self.queue = queue
        journal = store.markJournal()
        let scopes = journal?.read() ?? []
        guarded = Mutex(Guarded(mayHaveRows: !store.isNew || !scopes.isEmpty))
        // Invalidations of an earlier process that did not reach the store.
        for scope in scopes { markStale(scope) }
        // The store records its version in the transaction that writes the mark.
        if store.isOfOtherVersion { markStale(.everything) }
    }

    deinit { guarded.withLock { $0.retry?.cancel() } }

    /// Sets the observer of the costs of values, called on the writer's queue.
    func onMeasured(_ observer: @escaping @Sendable ([Measure]) -> Void) {
        measured.withLock { $0 = observer }
    }

    /// Schedules a value to be measured and, if its policy says so, written.
    func put(_ draft: Draft) {
        schedule { guarded in
            var draft = draft
            draft.lastMark = guarded.lastMark
            guarded.waiting[draft.key] = draft
            if draft.policy.tier == .onDisk { guarded.mayHaveRows = true }
        }
    }

    /// Schedules entries to be marked as stale; the cost does not depend on how many are pending.
    ///
    /// - Returns: The argument for ``journal(_:)``; `nil` if there is nothing to mark.
    @discardableResult
    func markStale(_ scope: InvalidationMarks.Scope) -> Mark? {
        var mark: Mark?
        schedule { guarded in
            guard guarded.mayHaveRows else { return }
            guarded.lastMark += 1
            guarded.waitingMarks[scope] = guarded.lastMark
            mark = Mark(scope: scope, number: guarded.lastMark)
        }
        return mark
    }

    /// Makes a mark outlive the process; called with no lock held.
    func journal(_ mark: Mark) {
        do {
            // A pending value may be written right now, into a folder that this write creates.
            try store.open()
            guard store.place != nil else { return }  // Nothing outlives the process.
            try journal?.append(mark.scope, number: mark.number)
        } catch {
            store.log.failure("An invalidation could not be written to disk: \(error)")
        }
    }

    /// Calls `work` when all values and marks that are pending now are on disk.
    ///
    /// On the writer's queue, and not before a failing store works again.
    func afterWriting(_ work: @escaping @Sendable () -> Void) {
        schedule { $0.followUps.append(work) }
    }

    /// Whether too much is pending; a writer then calls ``flush()``, outside of all locks.
    var isBehind: Bool { hasTooMany.load(ordering: .relaxed) }

    /// Whether a write is in progress or scheduled.
    var isWriting: Bool { guarded.withLock { $0.isScheduled } }

    /// Returns when everything pending is on disk.
    func flush() {
        queue.sync { drain(retrying: true) }
    }

    /// Like ``flush()``; later failures are not retried by timer.
    func close() {
        guarded.withLock { $0.isClosed = true }
        flush()
        guarded.withLock { $0.retry?.cancel() }
    }

    /// Returns the newest entry of the key, pending or on disk.
    func entry(_ key: QueryKey, policy: Policy) -> StoredEntry? {
        let (draft, isStale) = guarded.withLock { guarded -> (Draft?, Bool) in
            let draft = guarded.waiting[key] ?? guarded.writing[key] ?? guarded.failedDrafts[key]
            let hasFailed = guarded.failedMarks.contains {
                draft == nil && $0.covers(key: key.text, policy: policy)
            }
            let isStale =
                hasFailed
                || [guarded.waitingMarks, guarded.writingMarks].contains { marks in
                    Self.mark(marks, after: draft?.lastMark ?? 0, key, policy)
                }
            return (draft, isStale)
        }
        var entry: StoredEntry?
        if let draft {
            entry = draft.entry(draft.encode())
        } else {
            // A failing store is logged and reported; the cache then has no such entry.
            entry = try? store.entry(key.text, version: policy.version)
        }
        if isStale { entry?.isStale = true }
        return entry
    }

    /// Removes names from the journal: keys may contain data of a user who has signed out.
    func anonymize() { journal?.anonymize() }

    /// Drops everything pending and stops writing, because the user is gone.
    func end() {
        guarded.withLock { guarded in
            guarded.isClosed = true
            guarded.isEnded = true
            guarded.forget()
        }
    }

    /// Schedules the removal of entries that may no longer be shown.
    func removeEntries(keptUntil now: Timestamp) {
        guard guarded.withLock({ $0.mayHaveRows }) else { return }
        queue.async { [weak self] in
            self?.drain(retrying: true)
            try? self?.store.removeEntries(keptUntil: now)
        }
    }

    private static func mark(
        _ marks: [InvalidationMarks.Scope: UInt64],
        after last: UInt64,
        _ key: QueryKey,
        _ policy: Policy
    ) -> Bool {
        marks.contains { $0.value > last && $0.key.covers(key: key.text, policy: policy) }
    }

    private func schedule(_ change: (inout Guarded) -> Void) {
        let mustSchedule = guarded.withLock { guarded in
            guard !guarded.isEnded else { return false }
            change(&guarded)
            guard guarded.hasWaiting else { return false }
            if guarded.hasTooMany { hasTooMany.store(true, ordering: .relaxed) }
            defer { guarded.isScheduled = true }
            return !guarded.isScheduled
        }
        if mustSchedule { queue.async { [weak self] in self?.drain() } }
    }

    // Runs only on `queue`. Failed writes are retried with pending ones or on their own.
    private func drain(retrying: Bool = false) {
        var isRetrying = retrying
        while true {
            let batch = guarded.withLock { guarded -> Batch? in
                guarded.writing = guarded.waiting
                guarded.writingMarks = guarded.waitingMarks
                guarded.waiting = [:]
                guarded.waitingMarks = [:]
                hasTooMany.store(false, ordering: .relaxed)
                let hasWork = !guarded.writing.isEmpty || !guarded.writingMarks.isEmpty
                let mustRetry = isRetrying && !guarded.failedMarks.isEmpty
                guard hasWork || mustRetry || guarded.hasFollowUps else {
                    guarded.isScheduled = false
                    return nil
                }
                // Failed drafts are written too, unless a newer one replaces them.
                let drafts = guarded.failedDrafts.merging(guarded.writing) { $1 }
                return Batch(
                    marks: guarded.writingMarks,
                    drafts: Array(drafts.values),
                    lastMark: guarded.lastMark,
                    followUps: guarded.followUps.count
                )
            }
            guard let batch else { return }
            isRetrying = false
            write(batch.marks, batch.drafts)
            let followUps = guarded.withLock { guarded -> [@Sendable () -> Void]? in
                guarded.writing = [:]
                guarded.writingMarks = [:]
                guard !guarded.isEnded else { return [] }
                guard guarded.failedMarks.isEmpty else { return nil }
                defer { guarded.followUps.removeFirst(batch.followUps) }
                return Array(guarded.followUps.prefix(batch.followUps))
            }
            guard let followUps else { continue }
            journal?.clear(upTo: batch.lastMark)
            for work in followUps { work() }
        }
    }

    /// The contents of one write.
    private struct Batch {
        let marks: [InvalidationMarks.Scope: UInt64]
        let drafts: [Draft]
        let lastMark: UInt64
        let followUps: Int
    }

    /// Schedules a retry of failed writes, unless another write retries them first.
    private func retryLater() {
        guarded.withLock { guarded in
            guarded.failures += 1
            guarded.retry?.cancel()
            guarded.retry = nil
            guard guarded.failures <= ClientLimits.storeRetries, !guarded.isClosed else { return }
            let wait = min(.seconds(1 << (guarded.failures - 1)), ClientLimits.longestStoreRetry)
            guarded.retry = Task { [weak self, delay] in
                guard (try? await delay.sleep(for: wait)) != nil, let self else { return }
                queue.async { self.drain(retrying: true) }
            }
        }
    }

    private func keepMarks(of changes: [ClientStore.EntryChange]) {
        guarded.withLock { guarded in
            for change in changes {
                let scope: InvalidationMarks.Scope =
                    switch change {
                    case .put(let entry): .key(entry.key)
                    case .markStale(let scope): scope
                    case .remove(let key): .key(key)
                    }
                guarded.failedMarks.insert(scope)
            }
            if guarded.failedMarks.count > ClientLimits.invalidationMarks {
                guarded.failedMarks = [.everything]
            }
        }
    }

    /// Keeps values that the store rejected, up to its limit.
    private func keep(_ drafts: [Draft]) {
        guarded.withLock { guarded in
            guarded.failedDrafts = [:]
            for draft in drafts.prefix(ClientLimits.unwrittenEntries) {
                guarded.failedDrafts[draft.key] = draft
            }
        }
    }

    private func write(
        _ marks: [InvalidationMarks.Scope: UInt64],
        _ drafts: some Collection<Draft>
    ) {
        let failed = guarded.withLock { $0.failedMarks }
        var changes = failed.union(marks.keys).map(ClientStore.EntryChange.markStale)
        var measures: [Measure] = []
        var written: [Draft] = []
        for var draft in drafts {
            // Marks that came while it was pending.
            if Self.mark(marks, after: draft.lastMark, draft.key, draft.policy) {
                draft.isStale = true
            }
            if draft.policy.tier != .onDisk, let size = draft.size {
                measures.append(Measure(key: draft.key, bytes: size()))
                continue
            }
            let json = draft.encode()
            measures.append(Measure(key: draft.key, bytes: json?.count))
            guard draft.policy.tier == .onDisk else { continue }
            if let entry = draft.entry(json) {
                written.append(draft)
                changes.append(.put(entry))
            } else {
                // The row on disk is older than the shown value.
                changes.append(.remove(key: draft.key.text))
            }
        }
        if !changes.isEmpty {
            do {
                try store.applyEntries(changes)
                guarded.withLock { guarded in
                    guarded.failedMarks.subtract(failed)
                    guarded.failedDrafts = [:]
                    guarded.failures = 0
                    guarded.retry?.cancel()
                    guarded.retry = nil
                }
            } catch {
                guard !guarded.withLock({ $0.isEnded }) else { return }
                // The store has logged this, and the values stay in memory. The rows on disk are
                // older than they should be: they count as stale until the store works again.
                keepMarks(of: changes)
                keep(written)
                retryLater()
            }
        }
        let observer = measured.withLock { $0 }
        observer?(measures)
    }
}
