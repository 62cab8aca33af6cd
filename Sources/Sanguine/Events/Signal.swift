import Synchronization

/// A value that changes, and that others follow: whether the app is in the foreground, say.
///
/// Followers are called at the moment of the change, on the thread that makes it: on iOS a process
/// may be stopped right after it was told that it left the foreground, so a message that waits to be
/// read would be read when the app comes back, and nobody would know how long it was away.
///
/// May be used from any thread.
public final class Signal<Value: Sendable & Equatable>: Sendable {
    private struct State {
        var value: Value
        var followers: [UInt64: @Sendable () -> Void] = [:]
        var lastNumber: UInt64 = 0
    }

    // The only mutable state, guarded by its mutex. Followers are called outside of it.
    private let state: Mutex<State>

    /// Creates a signal with its first value.
    public init(_ value: Value) { state = Mutex(State(value: value)) }

    /// The present value.
    public var value: Value { state.withLock { $0.value } }

    /// Changes the value, and tells the followers unless it is equal to the last one.
    public func set(_ value: Value) {
        let followers = state.withLock { state -> [@Sendable () -> Void] in
            guard state.value != value else { return [] }
            state.value = value
            return Array(state.followers.values)
        }
        for follower in followers { follower() }
    }

    /// Calls the follower after each change, until the result is released.
    ///
    /// It gets no value and reads ``value`` itself: with two changes at once it then reads the one
    /// that counts.
    public func follow(_ follower: @escaping @Sendable () -> Void) -> SignalFollowing {
        let number = state.withLock { state in
            state.lastNumber += 1
            state.followers[state.lastNumber] = follower
            return state.lastNumber
        }
        return SignalFollowing { [weak self] in
            self?.state.withLock { $0.followers[number] = nil }
        }
    }
}

/// Follows a ``Signal`` for as long as it is kept.
public final class SignalFollowing: Sendable {
    private let end: @Sendable () -> Void

    init(end: @escaping @Sendable () -> Void) { self.end = end }

    deinit { end() }
}
