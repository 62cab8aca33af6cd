import SanguineModel
import Synchronization

/// A cache in memory of the most recently used answers in the storage.
///
/// Invariants:
/// 1. The outputs in the tier take at most `limit` bytes.
/// 2. The tier contains only answers that the storage has.
///
/// Mutable state: one `State`, guarded by its mutex. The clock algorithm selects the answers to
/// evict: an approximation of LRU with cheap reads.
final class ResultMemoryCache: Sendable {
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

    /// Creates an empty tier with this limit.
    init(bytes limit: Int) { self.limit = limit }

    /// Returns the answer, if it is in memory and has not expired.
    func find(_ key: [UInt8], at now: Timestamp) -> ResultRow? {
        state.withLock { state in
            guard let slot = state.index[key] else { return nil }
            guard now < state.slots[slot].row.expiresAt else {
                state.remove(at: slot)
                return nil
            }
            state.slots[slot].wasUsed = true
            return state.slots[slot].row
        }
    }

    /// Adds a stored answer, unless it takes more than half of the limit.
    func add(_ row: ResultRow) {
        let size = row.output.count + Self.overhead
        guard size <= limit / 2 else { return }
        state.withLock { state in
            if let slot = state.index[row.key] { state.remove(at: slot) }
            while state.bytes + size > limit { state.evict() }
            state.index[row.key] = state.slots.count
            state.slots.append(Slot(row: row))
            state.bytes += size
        }
    }

    /// The approximate size in bytes of an answer without its output.
    static let overhead = 256
}

extension ResultMemoryCache.State {
    fileprivate mutating func remove(at slot: Int) {
        let gone = slots[slot].row
        bytes -= gone.output.count + ResultMemoryCache.overhead
        index[gone.key] = nil
        // The last slot moves to its position.
        let last = slots.removeLast()
        if slot < slots.count {
            slots[slot] = last
            index[last.row.key] = slot
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
