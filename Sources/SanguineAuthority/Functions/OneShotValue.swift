import Synchronization

/// A value that is resolved once, and that any number of callers wait for.
///
/// Mutable state: one `State`, guarded by its mutex. Callers are resumed without holding it.
package final class OneShotValue<Value: Sendable>: Sendable {
    private struct State {
        var value: Value?
        var callers: [CheckedContinuation<Value, Never>] = []
    }

    private let state = Mutex(State())

    /// Creates a value that is not resolved.
    package init() {}

    /// The value, if it is resolved.
    package var value: Value? { state.withLock { $0.value } }

    /// Resolves the value for all current and later callers; only the first value counts.
    ///
    /// - Returns: Whether this value is the first.
    @discardableResult
    package func resolve(_ value: Value) -> Bool {
        let waiting = state.withLock { state -> [CheckedContinuation<Value, Never>]? in
            guard state.value == nil else { return nil }
            state.value = value
            defer { state.callers = [] }
            return state.callers
        }
        for caller in waiting ?? [] { caller.resume(returning: value) }
        return waiting != nil
    }

    /// Waits for the value.
    ///
    /// The owner must resolve it, because the wait ignores cancellation.
    package func wait() async -> Value {
        await withCheckedContinuation { continuation in
            let value = state.withLock { state -> Value? in
                if state.value == nil { state.callers.append(continuation) }
                return state.value
            }
            if let value { continuation.resume(returning: value) }
        }
    }
}
