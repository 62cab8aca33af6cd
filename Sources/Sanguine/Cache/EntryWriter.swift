import Foundation
import SanguineModel
import Synchronization

/// Writes entries to the store behind the readers' backs, many in one transaction.
///
/// A fetched value is shown before it is on disk: it can be fetched again, and a sync of the disk
/// for each would cost more than the fetch. What waits to be written is found by readers.
///
/// Invariants:
///
/// 1. Of two changes of one key the later is the one that stays.
/// 2. A change is in `waiting`, in `writing` or on disk; readers look in this order.
///
/// Mutable state: `guarded`, by its mutex, which is never held over a call of the store. Writes run
/// one after the other on `queue`. Whoever holds the lock of ``QueryCache`` may call
/// ``put(_:epoch:)`` and ``markStale(_:)``: this object never calls the cache.
final class EntryWriter: Sendable {
    private struct Guarded {
        var waiting: [String: ClientStore.EntryChange] = [:]
        var writing: [String: ClientStore.EntryChange] = [:]
        var waitingBytes = 0
        var isScheduled = false
    }

    private let guarded = Mutex(Guarded())
    private let queue = DispatchQueue(label: "sanguine.entry-writer", qos: .utility)
    private let store: ClientStore

    init(store: ClientStore) { self.store = store }

    /// Has an entry written soon.
    func put(_ entry: StoredEntry, epoch: UInt64) {
        change(entry.key, to: .put(entry, epoch: epoch))
    }

    /// Has an entry marked as stale soon; one that waits is marked at once.
    func markStale(_ key: String) {
        let waiting = guarded.withLock { $0.waiting[key] }
        if case .put(var entry, let epoch) = waiting {
            entry.isStale = true
            change(key, to: .put(entry, epoch: epoch))
        } else {
            change(key, to: .markStale(key: key))
        }
    }

    /// Whether more waits than should; whoever wrote calls ``flush()`` then, outside of all locks.
    var isBehind: Bool { guarded.withLock { $0.waitingBytes > ClientLimits.unwrittenBytes } }

    /// Returns when all that waits is on disk.
    func flush() {
        queue.sync { drain() }
    }

    /// The newest entry of that key as far as the owner may see it: waiting, or on disk.
    func entry(_ key: String, owner: String) -> StoredEntry? {
        let (waiting, writing) = guarded.withLock { ($0.waiting[key], $0.writing[key]) }
        var isStale = false
        for change in [waiting, writing] {
            switch change {
            case .put(var entry, _):
                guard entry.audience != .user || entry.owner == owner else { return nil }
                entry.isStale = entry.isStale || isStale
                return entry
            case .markStale: isStale = true
            case nil: continue
            }
        }
        // A store that fails has said so in its log and report; a cache then has no such entry.
        guard var entry = try? store.entry(key, owner: owner) else { return nil }
        entry.isStale = entry.isStale || isStale
        return entry
    }

    /// Forgets all users' entries that wait, and removes those on disk.
    ///
    /// Durable when it returns.
    func removeUserEntries(before epoch: UInt64) {
        guarded.withLock { guarded in
            guarded.waiting = guarded.waiting.filter { change in
                if case .put(let entry, _) = change.value { entry.audience != .user } else { true }
            }
            guarded.waitingBytes = guarded.waiting.values.reduce(0) { $0 + $1.cost }
        }
        try? store.removeUserEntries(before: epoch)
    }

    private func change(_ key: String, to change: ClientStore.EntryChange) {
        let mustSchedule = guarded.withLock { guarded in
            let previous = guarded.waiting.updateValue(change, forKey: key)
            guarded.waitingBytes += change.cost - (previous?.cost ?? 0)
            defer { guarded.isScheduled = true }
            return !guarded.isScheduled
        }
        if mustSchedule { queue.async { [weak self] in self?.drain() } }
    }

    // Runs on `queue` alone.
    private func drain() {
        while true {
            let batch = guarded.withLock { guarded in
                guarded.writing = guarded.waiting
                guarded.waiting = [:]
                guarded.waitingBytes = 0
                if guarded.writing.isEmpty { guarded.isScheduled = false }
                return guarded.writing
            }
            guard !batch.isEmpty else { return }
            // On failure the store says so, and the values stay in memory.
            try? store.applyEntries(Array(batch.values))
            guarded.withLock { $0.writing = [:] }
        }
    }
}
