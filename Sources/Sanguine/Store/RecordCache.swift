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
        var young: [RecordKey: Held] = [:]
        var old: [RecordKey: Held] = [:]
        var youngBytes = 0
    }

    /// A record, or that there is none, and the bytes of its JSON.
    private struct Held {
        let value: RecordValue?
        let bytes: Int
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
            if let held = state.young[key] { return .some(held.value) }
            guard let held = state.old.removeValue(forKey: key) else { return nil }
            keep(held, for: key, in: &state)
            return .some(held.value)
        }
    }

    /// Remembers a record, or that there is none.
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

    /// Forgets records that have changed.
    func forget(_ keys: some Sequence<RecordKey>) {
        state.withLock { state in
            for key in keys {
                state.youngBytes -= state.young.removeValue(forKey: key)?.bytes ?? 0
                state.old[key] = nil
            }
        }
    }

    /// Forgets all.
    func clear() { state.withLock { $0 = State() } }

    /// How many records it holds.
    var count: Int { state.withLock { $0.young.count + $0.old.count } }
}
