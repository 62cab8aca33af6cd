import Synchronization

/// A value that changes and can be followed, such as whether the app is in the foreground.
///
/// Followers are called at the moment of the change, on the thread that makes it. On iOS a process
/// may be stopped right after the notification that it left the foreground: a queued message would
/// be read only when the app comes back, and the time away would be unknown.
///
/// May be used from any thread.
public final class Signal<Value: Sendable & Equatable>: Sendable {
    private struct State {
        var value: Value
        var followers = Observers<Void>()
    }

    // The only mutable state, guarded by its mutex. Followers are called without holding it.
    private let state: Mutex<State>

    /// Creates a signal with its first value.
    public init(_ value: Value) { state = Mutex(State(value: value)) }

    /// The current value.
    public var value: Value { state.withLock { $0.value } }

    /// Changes the value, and calls the followers unless it equals the last one.
    public func set(_ value: Value) {
        let followers = state.withLock { state -> Observers<Void>.Snapshot? in
            guard state.value != value else { return nil }
            state.value = value
            return state.followers.snapshot()
        }
        followers?.notify(())
    }

    /// Calls the follower after each change, until the result is released.
    ///
    /// The follower gets no value and reads ``value`` itself: if two changes happen at once, it
    /// reads the current value.
    public func follow(_ follower: @escaping @Sendable () -> Void) -> ObservationToken {
        let number = state.withLock { $0.followers.add(.init(tell: follower)) }
        return ObservationToken { [weak self] in
            self?.state.withLock { $0.followers.remove(number) }
        }
    }
}
