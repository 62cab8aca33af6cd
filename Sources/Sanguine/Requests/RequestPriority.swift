import Synchronization

/// How much the requests of one flight matter, now.
///
/// The flight and its requests share it. Whoever raises it raises every request of the flight that
/// waits, and those that come. It never falls: what was begun for somebody who has gone is ended,
/// or wanted by somebody else.
final class RequestPriority: Sendable {
    typealias Observer = @Sendable (FetchPriority) -> Void

    private struct State {
        var current: FetchPriority
        var observers = Observers<FetchPriority>()
    }

    // The only mutable state, guarded by the mutex. Observers are called outside of it.
    private let state: Mutex<State>

    init(_ priority: FetchPriority) { state = Mutex(State(current: priority)) }

    var current: FetchPriority { state.withLock { $0.current } }

    /// Raises the priority, unless it is that high already.
    func raise(to priority: FetchPriority) {
        let observers = state.withLock { state -> Observers<FetchPriority>.Crowd? in
            guard state.current < priority else { return nil }
            state.current = priority
            return state.observers.crowd()
        }
        observers?.tell(priority)
    }

    /// Calls the observer after each rise from now on.
    ///
    /// The observer may hear of rises in any order. It asks for the present priority itself.
    ///
    /// - Returns: The observer's number, for ``forget(_:)``.
    func observe(_ observer: @escaping Observer) -> UInt64 {
        state.withLock { $0.observers.add(.init(tell: observer)) }
    }

    /// Calls the observer no more.
    func forget(_ observer: UInt64) { state.withLock { $0.observers.remove(observer) } }
}
