import Synchronization

/// The followers of a value: each one receives the current value at once, and then every change.
///
/// A slow follower gets the newest value. The owner calls this type under the lock that guards the
/// value, so that all followers get the values in order; only ``finish()`` is called with no lock
/// held.
///
/// Mutable state: `state`, protected by its mutex, which is not held during callbacks.
final class Followers<Value: Equatable & Sendable>: Sendable {
    private struct State {
        var readers = Observers<Value>()
        /// The last value that all readers got.
        var notified: Value?
        var isFinished = false

        mutating func notify(_ value: Value) {
            guard value != notified else { return }
            notified = value
            readers.snapshot().notify(value)
        }
    }

    private let state = Mutex(State())

    /// Returns the current value, and then the value after each change.
    func stream(from value: Value) -> AsyncStream<Value> {
        let (stream, continuation) = AsyncStream.makeStream(
            of: Value.self,
            bufferingPolicy: .bufferingNewest(1)
        )
        let number = state.withLock { state -> UInt64? in
            guard !state.isFinished else { return nil }
            // The value may have changed without the others having been notified.
            state.notify(value)
            return state.readers.add(
                .init(tell: { continuation.yield($0) }, finish: { continuation.finish() })
            )
        }
        guard let number else {
            continuation.finish()
            return stream
        }
        continuation.onTermination = { [weak self] _ in
            self?.state.withLock { $0.readers.remove(number) }
        }
        continuation.yield(value)
        return stream
    }

    /// Calls the closure after each change, until the result is released; under the owner's lock.
    func follow(_ tell: @escaping @Sendable (Value) -> Void) -> ObservationToken {
        let number = state.withLock { $0.readers.add(.init(tell: tell)) }
        return ObservationToken { [weak self] in self?.state.withLock { $0.readers.remove(number) }
        }
    }

    /// Notifies all followers if the value is a new one; it is not computed if there are none.
    func notify(_ value: @autoclosure () -> Value) {
        state.withLock { state in
            guard !state.readers.isEmpty else { return }
            state.notify(value())
        }
    }

    /// Ends all current and future streams.
    func finish() {
        let readers = state.withLock { state in
            state.isFinished = true
            return state.readers.removeAll()
        }
        // Under no lock, because ending a stream calls back.
        readers.finish()
    }
}
