import SanguineModel
import Synchronization

/// The kept answers that were used last, in memory, before those of the storage.
///
/// Invariants:
/// 1. The outputs that are here take at most `limit` bytes.
/// 2. An answer is here only if the storage has taken it.
///
/// Mutable state: one `State`, guarded by its mutex. Which one goes is decided by the clock
/// algorithm: an LRU that is cheap to read.
final class ResultTier: Sendable {
    fileprivate struct Slot {
        var row: ResultRow
        var wasUsed = false
    }

    fileprivate struct State {
        var slots: [Slot] = []
        var index: [[UInt8]: Int] = [:]
        var hand = 0
        var bytes = 0
    }

    private let state = Mutex(State())
    private let limit: Int

    /// Creates an empty tier of so many bytes.
    init(bytes limit: Int) { self.limit = limit }

    /// The answer, if it is here and still counts.
    func find(_ key: [UInt8], at now: Timestamp) -> ResultRow? {
        state.withLock { state in
            guard let place = state.index[key] else { return nil }
            guard now < state.slots[place].row.expiresAt else {
                state.remove(at: place)
                return nil
            }
            state.slots[place].wasUsed = true
            return state.slots[place].row
        }
    }

    /// Takes in an answer that is stored; one that is too large for half of the room is left out.
    func add(_ row: ResultRow) {
        let size = row.output.count + Self.overhead
        guard size <= limit / 2 else { return }
        state.withLock { state in
            if let place = state.index[row.key] { state.remove(at: place) }
            while state.bytes + size > limit { state.evict() }
            state.index[row.key] = state.slots.count
            state.slots.append(Slot(row: row))
            state.bytes += size
        }
    }

    /// Bytes that an answer takes beside its output, roughly.
    static let overhead = 256
}

extension ResultTier.State {
    fileprivate mutating func remove(at place: Int) {
        let gone = slots[place].row
        bytes -= gone.output.count + ResultTier.overhead
        index[gone.key] = nil
        // The last one takes its place.
        let last = slots.removeLast()
        if place < slots.count {
            slots[place] = last
            index[last.row.key] = place
        }
    }

    fileprivate mutating func evict() {
        guard !slots.isEmpty else { return }
        if hand >= slots.count { hand = 0 }
        while slots[hand].wasUsed {
            slots[hand].wasUsed = false
            hand = (hand + 1) % slots.count
        }
        remove(at: hand)
    }
}
