import Synchronization

/// Lets work begin while the memory that all running work needs stays below a limit.
///
/// Waiting work begins in the order of its arrival, so that large work is not overtaken for ever.
/// Work that needs more than the limit begins when no other work is running.
///
/// Mutable state: `state`, guarded by its mutex. Bounded by the requests in progress.
package final class MemoryTurns: Sendable {
    private struct Waiter {
        let number: UInt64
        let bytes: Int
        let continuation: CheckedContinuation<Bool, Never>
    }

    private struct State {
        var taken = 0
        var waiting: [Waiter] = []
        var lastNumber: UInt64 = 0
        /// The waiters that were cancelled before they were added.
        var cancelled: Set<UInt64> = []
    }

    /// The maximum number of bytes of all running work.
    package let limit: Int
    private let state = Mutex(State())

    /// Creates turns of which none is taken.
    package init(limit: Int) { self.limit = limit }

    /// The number of bytes that running work needs.
    package var taken: Int { state.withLock(\.taken) }
    /// The number of waiting calls.
    package var waiting: Int { state.withLock(\.waiting.count) }

    /// Runs the body when its memory is available.
    ///
    /// - Parameters:
    ///   - bytes: The memory that the body needs.
    ///   - body: The work.
    /// - Returns: The body's result.
    /// - Throws: `cancelled` if the task is cancelled before the body begins, or the body's error.
    package func perform<Value>(
        _ bytes: Int,
        _ body: () async throws(ImageFailure) -> Value
    ) async throws(ImageFailure) -> Value {
        let bytes = min(max(0, bytes), limit)
        guard await wait(bytes) else { throw .cancelled }
        defer { release(bytes) }
        return try await body()
    }

    private func wait(_ bytes: Int) async -> Bool {
        let number = state.withLock { state in
            state.lastNumber += 1
            return state.lastNumber
        }
        let mayBegin = await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let answer = state.withLock { state -> Bool? in
                    if state.cancelled.remove(number) != nil { return false }
                    if state.waiting.isEmpty, state.taken + bytes <= limit {
                        state.taken += bytes
                        return true
                    }
                    state.waiting.append(
                        Waiter(number: number, bytes: bytes, continuation: continuation)
                    )
                    return nil
                }
                if let answer { continuation.resume(returning: answer) }
            }
        } onCancel: {
            cancel(number)
        }
        // A late cancellation found no waiter.
        state.withLock { _ = $0.cancelled.remove(number) }
        return mayBegin
    }

    private func cancel(_ number: UInt64) {
        let (cancelled, next) = state.withLock { state -> (Waiter?, [Waiter]) in
            guard let index = state.waiting.firstIndex(where: { $0.number == number }) else {
                state.cancelled.insert(number)
                return (nil, [])
            }
            let waiter = state.waiting.remove(at: index)
            return (waiter, Self.begin(&state, limit))
        }
        cancelled?.continuation.resume(returning: false)
        for waiter in next { waiter.continuation.resume(returning: true) }
    }

    private func release(_ bytes: Int) {
        let next = state.withLock { state in
            state.taken -= bytes
            return Self.begin(&state, limit)
        }
        for waiter in next { waiter.continuation.resume(returning: true) }
    }

    private static func begin(_ state: inout State, _ limit: Int) -> [Waiter] {
        var next: [Waiter] = []
        while let first = state.waiting.first, state.taken + first.bytes <= limit {
            state.taken += first.bytes
            next.append(state.waiting.removeFirst())
        }
        return next
    }
}
