import Synchronization

/// Signals whether the reader of a stream has read all data, so that the producer can wait.
///
/// It outlives the stream, so that waiting for room does not keep a stream alive that its reader
/// has released.
package final class StreamDemand: Sendable {
    private struct State {
        var isFull = false
        var isOver = false
        var waiting: [Int: CheckedContinuation<Void, Never>] = [:]
        var next = 0
    }

    // The only mutable state, guarded by the mutex. Continuations are resumed without holding it.
    private let state = Mutex(State())

    /// Returns when the reader has read all data, or is gone, or the task is cancelled.
    package func wait() async {
        let ticket = state.withLock { state in
            state.next += 1
            return state.next
        }
        await withWaiter { continuation in
            let isFree = state.withLock { state in
                let isFree = !state.isFull || state.isOver
                if !isFree { state.waiting[ticket] = continuation }
                return isFree
            }
            if isFree { continuation.resume() }
        } leave: { [self] in
            state.withLock { $0.waiting.removeValue(forKey: ticket) }?.resume()
        }
    }

    /// Marks that data waits for the reader.
    func fill() { state.withLock { $0.isFull = true } }

    /// Marks that the reader has read all data.
    func empty() { release { $0.isFull = false } }

    /// Marks that there is no longer a reader.
    func end() { release { $0.isOver = true } }

    private func release(_ change: (inout State) -> Void) {
        let waiting = state.withLock { state in
            change(&state)
            defer { state.waiting = [:] }
            return Array(state.waiting.values)
        }
        for continuation in waiting { continuation.resume() }
    }
}
