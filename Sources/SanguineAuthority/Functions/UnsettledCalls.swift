import OrderedCollections
import SanguineModel
import Synchronization

/// The calls that have ended while the storage did not take their end.
///
/// They are settled when it does. Meanwhile their holds do not expire: the process knows what the
/// calls cost, and the expiry does not.
///
/// Invariants:
/// 1. There are at most ``CallLimits/unsettled`` of them, which take at most
///    ``CallLimits/unsettledBytes``. A call that ends beyond that is left to its hold's expiry,
///    like one of a process that died.
/// 2. None is here for longer than ``CallLimits/unsettledTime``: then it is left to its hold's
///    expiry, too.
///
/// Mutable state: `state`, by its mutex.
final class UnsettledCalls: Sendable {
    fileprivate struct Entry {
        let settlement: CallSettlement
        /// When it is given up.
        let end: Duration
    }

    fileprivate struct State {
        /// By the calls' ids, in the order in which they ended.
        var entries: OrderedDictionary<Identifier, Entry> = [:]
        var bytes = 0
    }

    private let state = Mutex(State())

    /// How many there are.
    var count: Int { state.withLock { $0.entries.count } }

    /// Whether this hold pays for one of them.
    func contains(hold: Identifier) -> Bool { state.withLock { $0.entries[hold] != nil } }

    /// Whether one of them has this key.
    func contains(_ position: OperationPosition) -> Bool {
        state.withLock { state in
            state.entries.values.contains { $0.settlement.call.position == position }
        }
    }

    /// Keeps the end of a call.
    ///
    /// - Returns: Whether there was room.
    func add(_ settlement: CallSettlement, at now: Duration) -> Bool {
        state.withLock { state in
            guard state.entries.count < CallLimits.unsettled,
                state.bytes + settlement.bytes <= CallLimits.unsettledBytes
            else { return false }
            let entry = Entry(settlement: settlement, end: now + CallLimits.unsettledTime)
            let old = state.entries.updateValue(entry, forKey: settlement.call.operation)
            state.bytes += settlement.bytes - (old?.settlement.bytes ?? 0)
            return true
        }
    }

    /// All of them, in the order in which they ended.
    var all: [CallSettlement] { state.withLock { $0.entries.values.map(\.settlement) } }

    /// Removes one that was stored, or ended by another path.
    func remove(_ settlement: CallSettlement) {
        state.withLock { $0.remove([settlement.call.operation]) }
    }

    /// Removes those that are here for too long.
    func removeOld(at now: Duration) -> [CallSettlement] {
        state.withLock { state in
            let old = state.entries.values.filter { $0.end <= now }.map(\.settlement)
            state.remove(old.map(\.call.operation))
            return old
        }
    }
}

extension UnsettledCalls.State {
    fileprivate mutating func remove(_ calls: [Identifier]) {
        for call in calls {
            guard let entry = entries.removeValue(forKey: call) else { continue }
            bytes -= entry.settlement.bytes
        }
    }
}
