import Synchronization

/// The state that an observer was last notified of.
///
/// Several events may each cause a notification of the same state.
///
/// Mutable state: `state`, protected by its mutex, which is never held during a call.
final class LastNotified<Value: Equatable & Sendable>: Sendable {
    private let state = Mutex<Value?>(nil)

    /// Returns the value, or `nil` if it equals the last one; called by one thread at a time.
    func update(_ value: Value) -> Value? {
        // Compared outside of the lock: this runs the app's code.
        guard value != state.withLock({ $0 }) else { return nil }
        state.withLock { $0 = value }
        return value
    }
}
