import Synchronization

/// The state that an observer was notified of last.
///
/// Several causes may lead to one notification each, and to one state.
///
/// Mutable state: `state`, by its mutex, held over nothing.
final class LastNotified<Value: Equatable & Sendable>: Sendable {
    private let state = Mutex<Value?>(nil)

    /// Returns the value, or `nil` if it is the last one; called by one thread at a time.
    func take(_ value: Value) -> Value? {
        // Compared outside of the lock: that runs the app's code.
        guard value != state.withLock({ $0 }) else { return nil }
        state.withLock { $0 = value }
        return value
    }
}
