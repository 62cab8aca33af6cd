import Foundation
import SanguineModel
import Synchronization

/// Writes entries to the store behind the readers' backs, many in one transaction, and measures
/// what values cost.
///
/// A value is shown before it is on disk: it can be fetched again, and a sync of the disk for each
/// would cost more than the fetch. It is not even encoded while somebody waits. What waits to be
/// written is found by readers.
///
/// Invariants:
///
/// 1. Of two changes of one key the later is the one that stays.
/// 2. A change waits, is being written, has failed, or is on disk; readers look in this order.
/// 3. What is marked as stale is marked wherever it is: waiting, being written, and on disk.
/// 4. Marks and values that a failing store did not take are tried again: by a timer, which waits
///    longer each time and gives up in the end, and with whatever else is done here.
/// 5. A mark that was journaled is in the journal until the store has it.
/// 6. What waits for values to be stored, see ``afterWriting(_:)``, is done when the store has all
///    values that were put before it; not at all, if the process ends before.
///
/// Mutable state: `guarded`, by its mutex, which is never held over a call of the store, over the
/// app's code or over a call of the cache; ``isBehind``, which may be late; and `measured`, set
/// once. Writes run one after the other on `queue`. Whoever holds the lock of ``Entries`` may call
/// ``put(_:)`` and ``markStale(_:)``.
final class EntryWriter: Sendable {
    /// A value that is to be encoded, measured and, maybe, written.
    struct Draft: Sendable {
        let key: QueryKey
        let policy: Policy
        let asOf: Timestamp
        let day: LocalDay?
        var isStale: Bool
        /// See ``StoredEntry/contained``.
        var contained: Set<Int64> = []
        /// The last mark that came before the draft, and says nothing of it.
        var lastMark: UInt64 = 0
        /// What the value costs if it is not to be stored, where that is known without encoding it.
        var size: (@Sendable () -> Int?)?
        let encode: @Sendable () -> Data?

        /// The row, or `nil` if the value cannot be encoded or is too large for the disk.
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

    /// An invalidation that is on its way to the disk.
    struct Mark: Sendable {
        let scope: InvalidationMarks.Scope
        let number: UInt64
    }

    /// What a value costs, in bytes of its JSON; `nil` for one that cannot be encoded.
    struct Measure: Sendable {
        let key: QueryKey
        let bytes: Int?
    }

    private struct Guarded {
        var waiting: [QueryKey: Draft] = [:]
        var writing: [QueryKey: Draft] = [:]
        /// Marks for the disk, with their numbers; those of a batch come before its entries.
        var waitingMarks: [InvalidationMarks.Scope: UInt64] = [:]
        var writingMarks: [InvalidationMarks.Scope: UInt64] = [:]
        /// Marks that could not be written yet: until then all rows that they cover are stale.
        var failedMarks: Set<InvalidationMarks.Scope> = []
        /// Values that could not be written yet.
        var failedDrafts: [QueryKey: Draft] = [:]
        /// How often in a row a write failed.
        var failures = 0
        var retry: Task<Void, Never>?
        var isClosed = false
        /// Whether nothing is written any more.
        var isEnded = false
        /// Marks are numbered upwards.
        var lastMark: UInt64 = 0
        /// Whether there are rows, or may be, that a mark could be about.
        var mayHaveRows: Bool
        var isScheduled = false
        /// What is to be done when all that waits now is on disk.
        var followUps: [@Sendable () -> Void] = []

        /// Whether anything waits.
        var hasWaiting: Bool {
            !waiting.isEmpty || !waitingMarks.isEmpty || !followUps.isEmpty
        }

        var hasTooMany: Bool {
            waiting.count > ClientLimits.unwrittenEntries
                || waitingMarks.count > ClientLimits.invalidationMarks
        }

        /// Whether something waits for the disk alone, and the disk works.
        var hasFollowUps: Bool { failedMarks.isEmpty && !followUps.isEmpty }

        /// Drops all that waits.
        mutating func forget() {
            (waiting, waitingMarks) = ([:], [:])
            (failedMarks, failedDrafts) = ([], [:])
            followUps = []
            retry?.cancel()
            retry = nil
        }
    }

    private let guarded: Mutex<Guarded>
    /// Whether more waits than should; read without the lock, with each write.
    private let hasTooMany = Atomic(false)
    private let queue: any SerialQueue
    private let store: ClientStore
    private let delay: any Clock<Duration>
    private let journal: MarkJournal?
    private let measured = Mutex<(@Sendable ([Measure]) -> Void)?>(nil)

    /// What its queue is called in the debugger.
    static let label = "sanguine.entry-writer"

    /// - Parameters:
    ///   - store: Where entries are written.
    ///   - delay: What waits before another try after a failure.
    ///   - queue: What writes. Default: a thread of the system's.
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
        // What an earlier process has invalidated and not written.
        for scope in scopes { markStale(scope) }
        // The store names its version in the transaction that writes the mark.
        if store.isOfOtherVersion { markStale(.everything) }
    }

    deinit { guarded.withLock { $0.retry?.cancel() } }

    /// Has the observer told what values cost, on the writer's queue.
    func onMeasured(_ observer: @escaping @Sendable ([Measure]) -> Void) {
        measured.withLock { $0 = observer }
    }

    /// Has an entry measured and, if its policy says so, written soon.
    func put(_ draft: Draft) {
        schedule { guarded in
            var draft = draft
            draft.lastMark = guarded.lastMark
            guarded.waiting[draft.key] = draft
            if draft.policy.tier == .onDisk { guarded.mayHaveRows = true }
        }
    }

    /// Has entries marked as stale soon; it costs the same however many wait.
    ///
    /// - Returns: What ``journal(_:)`` takes; `nil` if there is nothing to mark.
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

    /// Makes a mark outlive the process; called under no lock.
    func journal(_ mark: Mark) {
        do {
            // What was put may be written in this moment, into a folder that is made then.
            try store.open()
            guard store.place != nil else { return }  // Nothing outlives the process.
            try journal?.append(mark.scope, number: mark.number)
        } catch {
            store.log.failure("An invalidation could not be noted on disk: \(error)")
        }
    }

    /// Does something when all values and marks that wait now are on disk.
    ///
    /// On the writer's queue, and not before a failing store works again.
    func afterWriting(_ work: @escaping @Sendable () -> Void) {
        schedule { $0.followUps.append(work) }
    }

    /// Whether more waits than should; whoever wrote calls ``flush()`` then, outside of all locks.
    var isBehind: Bool { hasTooMany.load(ordering: .relaxed) }

    /// Whether something is being written, or is about to be.
    var isWriting: Bool { guarded.withLock { $0.isScheduled } }

    /// Returns when all that waits is on disk.
    func flush() {
        queue.sync { drain(retrying: true) }
    }

    /// As ``flush()``, and nothing is tried again by a timer from now on.
    func close() {
        guarded.withLock { $0.isClosed = true }
        flush()
        guarded.withLock { $0.retry?.cancel() }
    }

    /// The newest entry of that key: waiting, or on disk.
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
            // A store that fails has said so in its log and report; a cache then has no such entry.
            entry = try? store.entry(key.text, version: policy.version)
        }
        if isStale { entry?.isStale = true }
        return entry
    }

    /// Names nothing any more that was invalidated: a user has gone whose keys may be among it.
    func anonymize() { journal?.anonymize() }

    /// Drops what waits, and writes nothing from now on: the user is gone.
    func end() {
        guarded.withLock { guarded in
            guarded.isClosed = true
            guarded.isEnded = true
            guarded.forget()
        }
    }

    /// Removes soon what may no longer be shown.
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

    // Runs on `queue` alone. What failed before is written with whatever waits, or by itself.
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
                // What failed goes with it, unless something newer does.
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

    /// What is written together.
    private struct Batch {
        let marks: [InvalidationMarks.Scope: UInt64]
        let drafts: [Draft]
        let lastMark: UInt64
        let followUps: Int
    }

    /// Has what failed tried again after a while, if nothing else brings it about before.
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

    /// Keeps values that the store did not take, up to its limit.
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
            // Marks that came while it waited.
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
                // What lies there is older than what is shown.
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
                // The store has said so, and the values stay in memory. The rows that are there
                // are older than what should be: they count as stale until it works again.
                keepMarks(of: changes)
                keep(written)
                retryLater()
            }
        }
        let observer = measured.withLock { $0 }
        observer?(measures)
    }
}
