import Synchronization

/// A value that changes, and that others follow: whether the app is in the foreground, say.
///
/// Followers are called at the moment of the change, on the thread that makes it: on iOS a process
/// may be stopped right after it was told that it left the foreground, so a message that waits to
/// be read would be read when the app comes back, and nobody would know how long it was away.
///
/// May be used from any thread.
public final class Signal<Value: Sendable & Equatable>: Sendable {
    private struct State {
        var value: Value
        var followers = Observers<Void>()
    }

    // The only mutable state, guarded by its mutex. Followers are called outside of it.
    private let state: Mutex<State>

    /// Creates a signal with its first value.
    public init(_ value: Value) { state = Mutex(State(value: value)) }

    /// The present value.
    public var value: Value { state.withLock { $0.value } }

    /// Changes the value, and tells the followers unless it is equal to the last one.
    public func set(_ value: Value) {
        let followers = state.withLock { state -> Observers<Void>.Crowd? in
            guard state.value != value else { return nil }
            state.value = value
            return state.followers.crowd()
        }
        followers?.tell(())
    }

    /// Calls the follower after each change, until the result is released.
    ///
    /// It gets no value and reads ``value`` itself: with two changes at once it then reads the one
    /// that counts.
    public func follow(_ follower: @escaping @Sendable () -> Void) -> ObservationToken {
        let number = state.withLock { $0.followers.add(.init(tell: follower)) }
        return ObservationToken { [weak self] in
            self?.state.withLock { $0.followers.remove(number) }
        }
    }
}
