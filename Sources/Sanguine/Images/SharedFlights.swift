import SanguineModel
import Synchronization

/// Decides when shared work starts and ends: one flight for each key, which ends when no caller
/// waits for it.
///
/// Pure. Invariants: a key has at most one flight; a flight has at least one caller, and each caller
/// waits for one flight.
struct FlightTable<Key: Hashable & Sendable>: Sendable {
    struct Ticket: Hashable, Sendable {
        let key: Key
        let flight: UInt64
        let caller: UInt64
    }

    private struct Flight: Sendable {
        let number: UInt64
        var callers: Set<UInt64>
    }

    private var flights: [Key: Flight] = [:]
    private var lastNumber: UInt64 = 0

    var count: Int { flights.count }

    /// The keys in flight, in no particular order.
    var keys: [Key] { Array(flights.keys) }

    /// Adds a caller.
    ///
    /// - Returns: The caller's ticket, and whether a flight must be started for it.
    mutating func join(_ key: Key) -> (ticket: Ticket, mustStart: Bool) {
        lastNumber += 1
        let caller = lastNumber
        if let flight = flights[key] {
            flights[key]?.callers.insert(caller)
            return (Ticket(key: key, flight: flight.number, caller: caller), false)
        }
        flights[key] = Flight(number: caller, callers: [caller])
        return (Ticket(key: key, flight: caller, caller: caller), true)
    }

    /// Removes a caller.
    ///
    /// - Returns: Whether the flight must be cancelled, because no caller waits for it any more. A
    ///   later caller starts another one.
    mutating func leave(_ ticket: Ticket) -> Bool {
        guard flights[ticket.key]?.number == ticket.flight,
            flights[ticket.key]?.callers.remove(ticket.caller) != nil
        else { return false }
        guard flights[ticket.key]?.callers.isEmpty == true else { return false }
        flights[ticket.key] = nil
        return true
    }

    /// Ends a flight; later callers start another one.
    mutating func end(_ key: Key, flight: UInt64) {
        if flights[key]?.number == flight { flights[key] = nil }
    }
}

/// Work that callers with the same key share.
///
/// A caller that is cancelled stops waiting at once. The work is cancelled with its last caller, and
/// has the highest priority of its callers.
///
/// Mutable state: `state`, protected by its mutex, which is not held over the work.
final class SharedFlights<Key: Hashable & Sendable, Value: Sendable>: Sendable {
    typealias Work =
        @Sendable (RequestPriority) async -> Result<Value, SanguineError>

    private struct Flight {
        let number: UInt64
        let outcome: OneShot<Value>
        let priority: RequestPriority
        let task: Task<Void, Never>
    }

    private struct State {
        var table = FlightTable<Key>()
        var flights: [Key: Flight] = [:]
    }

    private let state = Mutex(State())

    /// The number of flights.
    var count: Int { state.withLock { $0.table.count } }

    /// Returns the value of a key, from a flight that is under way or a new one.
    ///
    /// - Parameters:
    ///   - key: The key.
    ///   - priority: The caller's priority, which may be raised while it waits.
    ///   - onShared: Called if another caller has started the flight. Default: does nothing.
    ///   - work: Produces the value.
    /// - Returns: The value.
    /// - Throws: The error of the work, or ``SanguineError/cancelled``.
    func value(
        of key: Key,
        priority: RequestPriority,
        onShared: () -> Void = {},
        _ work: @escaping Work
    ) async throws(SanguineError) -> Value {
        let (ticket, flight, isShared) = join(key, priority.current, work)
        if isShared { onShared() }
        flight.priority.raise(to: priority.current)
        let observer = priority.observe { flight.priority.raise(to: $0) }
        defer {
            priority.forget(observer)
            leave(ticket)
        }
        return try await flight.outcome.value()
    }

    /// Ends all flights whose keys fit; their callers get the error.
    func end(_ error: SanguineError, where fits: (Key) -> Bool) {
        let ended = state.withLock { state in
            let ended = state.flights.filter { fits($0.key) }
            for (key, flight) in ended {
                state.table.end(key, flight: flight.number)
                state.flights[key] = nil
            }
            return ended
        }
        for flight in ended.values {
            flight.outcome.resolve(.failure(error))
            flight.task.cancel()
        }
    }

    private func join(
        _ key: Key,
        _ priority: FetchPriority,
        _ work: @escaping Work
    ) -> (FlightTable<Key>.Ticket, Flight, isShared: Bool) {
        state.withLock { state in
            let (ticket, mustStart) = state.table.join(key)
            if !mustStart, let flight = state.flights[key] { return (ticket, flight, true) }
            let (outcome, shared) = (OneShot<Value>(), RequestPriority(priority))
            let task = Task { [weak self] in
                let result = await work(shared)
                self?.ended(key, ticket.flight)
                outcome.resolve(result)
            }
            let flight = Flight(
                number: ticket.flight,
                outcome: outcome,
                priority: shared,
                task: task
            )
            state.flights[key] = flight
            return (ticket, flight, false)
        }
    }

    private func ended(_ key: Key, _ number: UInt64) {
        state.withLock { state in
            state.table.end(key, flight: number)
            if state.flights[key]?.number == number { state.flights[key] = nil }
        }
    }

    private func leave(_ ticket: FlightTable<Key>.Ticket) {
        let task = state.withLock { state -> Task<Void, Never>? in
            guard state.table.leave(ticket) else { return nil }
            return state.flights.removeValue(forKey: ticket.key)?.task
        }
        task?.cancel()
    }
}
