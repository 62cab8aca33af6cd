import Synchronization

/// The current priority of the requests of one fetch.
///
/// The fetch and its requests share it. Raising it raises all waiting and later requests of the
/// fetch. It never decreases: a fetch whose caller has left is either cancelled or needed by
/// another caller.
final class RequestPriority: Sendable {
    typealias Observer = @Sendable (FetchPriority) -> Void

    private struct State {
        var current: FetchPriority
        var observers = Observers<FetchPriority>()
    }

    // The only mutable state, guarded by the mutex. Observers are called without holding it.
    private let state: Mutex<State>

    init(_ priority: FetchPriority) { state = Mutex(State(current: priority)) }

    var current: FetchPriority { state.withLock { $0.current } }

    /// Raises the priority, unless it is already as high.
    func raise(to priority: FetchPriority) {
        let observers = state.withLock { state -> Observers<FetchPriority>.Snapshot? in
            guard state.current < priority else { return nil }
            state.current = priority
            return state.observers.snapshot()
        }
        observers?.notify(priority)
    }

    /// Adds an observer that is called after each increase.
    ///
    /// Calls may come in any order, so the observer should read the current priority itself.
    ///
    /// - Returns: The observer's number, for ``forget(_:)``.
    func observe(_ observer: @escaping Observer) -> UInt64 {
        state.withLock { $0.observers.add(.init(tell: observer)) }
    }

    /// Removes the observer.
    func forget(_ observer: UInt64) { state.withLock { $0.observers.remove(observer) } }
}
