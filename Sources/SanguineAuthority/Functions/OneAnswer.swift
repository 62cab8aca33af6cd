import Synchronization

/// A value that comes once, and any number of callers that wait for it.
///
/// Mutable state: one `State`, guarded by its mutex. Callers are resumed outside of it.
final class OneAnswer<Value: Sendable>: Sendable {
    private struct State {
        var value: Value?
        var callers: [CheckedContinuation<Value, Never>] = []
    }

    private let state = Mutex(State())

    /// The value, if it is there.
    var value: Value? { state.withLock { $0.value } }

    /// Gives the value to all who wait, and to all who come; only the first one counts.
    ///
    /// - Returns: Whether it is the first.
    @discardableResult
    func resolve(_ value: Value) -> Bool {
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
    /// Whoever makes one sees to it that it is resolved: the wait is not cancelled.
    func wait() async -> Value {
        await withCheckedContinuation { continuation in
            let value = state.withLock { state -> Value? in
                if state.value == nil { state.callers.append(continuation) }
                return state.value
            }
            if let value { continuation.resume(returning: value) }
        }
    }
}
