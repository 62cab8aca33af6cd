import SanguineModel
import Synchronization

/// Decides when shared work starts and ends: one load for each key, which ends when no caller
/// waits for it.
///
/// Pure. Invariants: a key has at most one load; a load has at least one caller, and each
/// caller waits for one load.
struct LoadTable<Key: Hashable & Sendable>: Sendable {
    struct Ticket: Hashable, Sendable {
        let key: Key
        let load: UInt64
        let caller: UInt64
    }

    private struct Load: Sendable {
        let number: UInt64
        var callers: Set<UInt64>
    }

    private var loads: [Key: Load] = [:]
    private var lastNumber: UInt64 = 0

    var count: Int { loads.count }

    /// The keys that are being loaded, in no particular order.
    var keys: [Key] { Array(loads.keys) }

    /// Adds a caller.
    ///
    /// - Returns: The caller's ticket, and whether a load must be started for it.
    mutating func join(_ key: Key) -> (ticket: Ticket, mustStart: Bool) {
        lastNumber += 1
        let caller = lastNumber
        if let load = loads[key] {
            loads[key]?.callers.insert(caller)
            return (Ticket(key: key, load: load.number, caller: caller), false)
        }
        loads[key] = Load(number: caller, callers: [caller])
        return (Ticket(key: key, load: caller, caller: caller), true)
    }

    /// Removes a caller.
    ///
    /// - Returns: Whether the load must be cancelled, because no other caller waits for it. A later
    ///   caller starts another one.
    mutating func leave(_ ticket: Ticket) -> Bool {
        guard loads[ticket.key]?.number == ticket.load,
            loads[ticket.key]?.callers.remove(ticket.caller) != nil
        else { return false }
        guard loads[ticket.key]?.callers.isEmpty == true else { return false }
        loads[ticket.key] = nil
        return true
    }

    /// Ends a load; later callers start another one.
    mutating func end(_ key: Key, load: UInt64) {
        if loads[key]?.number == load { loads[key] = nil }
    }
}

/// Work that callers with the same key share.
///
/// A caller that is cancelled stops waiting at once. The work is cancelled with its last caller,
/// and has the highest priority of its callers.
///
/// Mutable state: `state`, protected by its mutex, which is not held over the work.
final class SharedLoads<Key: Hashable & Sendable, Value: Sendable>: Sendable {
    typealias Work =
        @Sendable (RequestPriority) async -> Result<Value, SanguineError>

    private struct Load {
        let number: UInt64
        let outcome: OneShot<Value>
        let priority: RequestPriority
        let task: Task<Void, Never>
    }

    private struct State {
        var table = LoadTable<Key>()
        var loads: [Key: Load] = [:]
    }

    private let state = Mutex(State())

    /// The number of loads.
    var count: Int { state.withLock { $0.table.count } }

    /// Returns the value of a key, from a load that is under way or a new one.
    ///
    /// - Parameters:
    ///   - key: The key.
    ///   - priority: The caller's priority, which may be raised while it waits.
    ///   - onShared: Called if another caller has started the load. Default: does nothing.
    ///   - work: Produces the value.
    /// - Returns: The value.
    /// - Throws: The error of the work, or ``SanguineError/cancelled``.
    func value(
        of key: Key,
        priority: RequestPriority,
        onShared: () -> Void = {},
        _ work: @escaping Work
    ) async throws(SanguineError) -> Value {
        let (ticket, load, isShared) = join(key, priority.current, work)
        if isShared { onShared() }
        load.priority.raise(to: priority.current)
        let observer = priority.observe { load.priority.raise(to: $0) }
        defer {
            priority.forget(observer)
            leave(ticket)
        }
        return try await load.outcome.value()
    }

    /// Ends all loads whose keys fit; their callers get the error.
    func end(_ error: SanguineError, where fits: (Key) -> Bool) {
        let ended = state.withLock { state in
            let ended = state.loads.filter { fits($0.key) }
            for (key, load) in ended {
                state.table.end(key, load: load.number)
                state.loads[key] = nil
            }
            return ended
        }
        for load in ended.values {
            load.outcome.resolve(.failure(error))
            load.task.cancel()
        }
    }

    private func join(
        _ key: Key,
        _ priority: FetchPriority,
        _ work: @escaping Work
    ) -> (LoadTable<Key>.Ticket, Load, isShared: Bool) {
        state.withLock { state in
            let (ticket, mustStart) = state.table.join(key)
            if !mustStart, let load = state.loads[key] { return (ticket, load, true) }
            let (outcome, shared) = (OneShot<Value>(), RequestPriority(priority))
            let task = Task { [weak self] in
                let result = await work(shared)
                self?.ended(key, ticket.load)
                outcome.resolve(result)
            }
            let load = Load(
                number: ticket.load,
                outcome: outcome,
                priority: shared,
                task: task
            )
            state.loads[key] = load
            return (ticket, load, false)
        }
    }

    private func ended(_ key: Key, _ number: UInt64) {
        state.withLock { state in
            state.table.end(key, load: number)
            if state.loads[key]?.number == number { state.loads[key] = nil }
        }
    }

    private func leave(_ ticket: LoadTable<Key>.Ticket) {
        let task = state.withLock { state -> Task<Void, Never>? in
            guard state.table.leave(ticket) else { return nil }
            return state.loads.removeValue(forKey: ticket.key)?.task
        }
        task?.cancel()
    }
}
