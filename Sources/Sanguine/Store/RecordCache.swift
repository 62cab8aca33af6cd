import SanguineModel
import Synchronization

/// Records that were read from the disk, with the forms that they were decoded to.
///
/// Two generations: what is used moves to the young one, and when that is full the old one goes. So
/// what was used least recently goes first, at the cost of a dictionary.
///
/// Mutable state: `state`, by its mutex, which is held over nothing.
final class RecordCache: Sendable {
    private struct State {
        var young: [RecordKey: RecordValue?] = [:]
        var old: [RecordKey: RecordValue?] = [:]
        var youngBytes = 0
    }

    private let state = Mutex(State())
    private let halfCount: Int
    private let halfBytes: Int

    /// Creates a cache of so many records, and so many bytes of their JSON.
    init(
        count: Int = RecordLimits.cachedRecords,
        bytes: Int = RecordLimits.cachedRecordBytes
    ) {
        halfCount = max(1, count / 2)
        halfBytes = max(1, bytes / 2)
    }

    /// What is known of the record: `nil` if nothing is, `.some(nil)` if there is none.
    func value(_ key: RecordKey) -> RecordValue?? {
        state.withLock { state in
            if let value = state.young[key] { return .some(value) }
            guard let value = state.old.removeValue(forKey: key) else { return nil }
            state.young.updateValue(value, forKey: key)
            return .some(value)
        }
    }

    /// Remembers a record, or that there is none.
    func set(_ value: RecordValue?, bytes: Int, for key: RecordKey) {
        state.withLock { state in
            state.young.updateValue(value, forKey: key)
            state.youngBytes += bytes
            guard state.young.count >= halfCount || state.youngBytes >= halfBytes else { return }
            state.old = state.young
            state.young = [:]
            state.youngBytes = 0
        }
    }

    /// Forgets records that have changed.
    func forget(_ keys: some Sequence<RecordKey>) {
        state.withLock { state in
            for key in keys {
                state.young[key] = nil
                state.old[key] = nil
            }
        }
    }

    /// Forgets all.
    func clear() { state.withLock { $0 = State() } }

    /// How many records it holds.
    var count: Int { state.withLock { $0.young.count + $0.old.count } }
}
