import OrderedCollections
import SanguineModel
import Synchronization

/// The ended calls whose end the storage has not accepted yet.
///
/// They are settled when it does. Until then their holds do not expire, because the process knows
/// the cost of the calls, and the expiry does not.
///
/// Invariants:
/// 1. There are at most ``CallLimits/unsettled`` calls, which take at most
///    ``CallLimits/unsettledBytes``. Further calls are left to their holds' expiry, like those of a
///    crashed process. Free ones have no hold: only the time of the last one is kept, and
///    ``CallRunner/expireHolds(limit:)`` finds them in the storage.
/// 2. No call with a hold stays longer than ``CallLimits/unsettledTime``; then it is left to its
///    hold's expiry as well. A free call stays, because nothing else would end it before a restart.
///
/// Mutable state: `state`, guarded by its mutex.
final class UnsettledCalls: Sendable {
    fileprivate struct Entry {
        let settlement: CallSettlement
        /// The time when it is given up.
        let end: Duration
    }

    fileprivate struct State {
        /// The entries by the calls' ids, in the order in which the calls ended.
        var entries: OrderedDictionary<Identifier, Entry> = [:]
        var bytes = 0
        var left: LeftCalls?
    }

    /// The free calls for which there was no room.
    struct LeftCalls: Hashable, Sendable {
        /// The time until which they were accepted.
        let acceptedUntil: Timestamp
        /// The time, on the monotonic clock, when they are looked for.
        let due: Duration
    }

    private let state = Mutex(State())

    /// The number of calls.
    var count: Int { state.withLock { $0.entries.count } }

    /// Returns whether one of the calls has this hold.
    func contains(hold: Identifier) -> Bool { state.withLock { $0.entries[hold] != nil } }

    /// Returns whether one of the calls has this key.
    func contains(_ position: OperationPosition) -> Bool {
        state.withLock { state in
            state.entries.values.contains { $0.settlement.call.position == position }
        }
    }

    /// The number of calls of an account.
    func count(of account: Identifier) -> Int {
        state.withLock { state in
            state.entries.values.count { $0.settlement.call.account == account }
        }
    }

    /// Makes the calls of a guest those of the account into which it was merged.
    func rehome(_ guest: Identifier, to account: Identifier) {
        state.withLock { state in
            for (id, entry) in state.entries where entry.settlement.call.account == guest {
                let settlement = entry.settlement.paid(by: account)
                state.entries[id] = Entry(settlement: settlement, end: entry.end)
            }
        }
    }

    /// Keeps the end of a call.
    ///
    /// - Returns: `false` if there was no room.
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

    /// Remembers that a free call had no room.
    func leave(acceptedUntil moment: Timestamp, at now: Duration) {
        state.withLock { state in
            let last = max(moment, state.left?.acceptedUntil ?? moment)
            state.left = LeftCalls(acceptedUntil: last, due: now + CallLimits.leftCallsWait)
        }
    }

    /// Removes and returns the free calls to look for, if it is time.
    ///
    /// If some of them cannot be ended, the caller passes them to ``leave(acceptedUntil:at:)``.
    func removeLeft(at now: Duration) -> LeftCalls? {
        state.withLock { state in
            guard let left = state.left, left.due <= now else { return nil }
            state.left = nil
            return left
        }
    }

    /// All settlements, in the order in which the calls ended.
    var all: [CallSettlement] { state.withLock { $0.entries.values.map(\.settlement) } }

    /// Removes a settlement that was stored, or whose call was ended in another way.
    func remove(_ settlement: CallSettlement) {
        state.withLock { $0.remove([settlement.call.operation]) }
    }

    /// Removes and returns the settlements that have waited for too long, of calls with holds.
    func removeOld(at now: Duration) -> [CallSettlement] {
        state.withLock { state in
            let old = state.entries.values.filter { $0.end <= now }.map(\.settlement)
                .filter { $0.call.hold != nil }
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
