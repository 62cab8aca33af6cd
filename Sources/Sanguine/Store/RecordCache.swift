import SanguineModel
import Synchronization

/// Caches records that were read from the disk, together with their decoded forms.
///
/// It has two generations: a record that is used moves to the young one, and when that is full, the
/// old one is dropped. So the least recently used records go first, at the cost of a dictionary.
///
/// Mutable state: `state`, protected by its mutex; no call is made while it is held.
final class RecordCache: Sendable {
    private struct State {
        var young: [RecordKey: Held] = [:]
        var old: [RecordKey: Held] = [:]
        var youngBytes = 0
    }

    /// A record, or its absence, and the bytes of its JSON.
    private struct Held {
        let value: RecordValue?
        let bytes: Int
    }

    private let state = Mutex(State())
    private let halfCount: Int
    private let halfBytes: Int

    /// Creates a cache with a limit on the number of records and the bytes of their JSON.
    init(
        count: Int = RecordLimits.cachedRecords,
        bytes: Int = RecordLimits.cachedRecordBytes
    ) {
        halfCount = max(1, count / 2)
        halfBytes = max(1, bytes / 2)
    }

    /// Returns the cached record: `nil` if it is not cached, `.some(nil)` if it does not exist.
    func value(_ key: RecordKey) -> RecordValue?? {
        state.withLock { state in
            if let held = state.young[key] { return .some(held.value) }
            guard let held = state.old.removeValue(forKey: key) else { return nil }
            keep(held, for: key, in: &state)
            return .some(held.value)
        }
    }

    /// Caches a record, or its absence.
    func set(_ value: RecordValue?, bytes: Int, for key: RecordKey) {
        state.withLock { keep(Held(value: value, bytes: bytes), for: key, in: &$0) }
    }

    private func keep(_ held: Held, for key: RecordKey, in state: inout State) {
        state.youngBytes += held.bytes - (state.young.updateValue(held, forKey: key)?.bytes ?? 0)
        guard state.young.count >= halfCount || state.youngBytes >= halfBytes else { return }
        state.old = state.young
        state.young = [:]
        state.youngBytes = 0
    }

    /// Removes records that have changed.
    func forget(_ keys: some Sequence<RecordKey>) {
        state.withLock { state in
            guard !state.young.isEmpty || !state.old.isEmpty else { return }
            for key in keys {
                state.youngBytes -= state.young.removeValue(forKey: key)?.bytes ?? 0
                state.old[key] = nil
            }
        }
    }

    /// Removes all records.
    func clear() { state.withLock { $0 = State() } }

    /// The number of cached records.
    var count: Int { state.withLock { $0.young.count + $0.old.count } }
}
