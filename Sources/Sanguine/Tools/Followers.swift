import Synchronization

/// Those who follow a value: each gets it at once, then after every change.
///
/// Who is slow gets the newest. The owner calls it under the lock that guards the value, so that
/// everybody gets the values in their order; ``finish()`` alone is called under no lock.
///
/// Mutable state: `state`, by its mutex, which is held over nothing that calls back.
final class Followers<Value: Equatable & Sendable>: Sendable {
    private struct State {
        var readers = Observers<Value>()
        /// What all readers were told last.
        var told: Value?
        var isFinished = false

        mutating func tell(_ value: Value) {
            guard value != told else { return }
            told = value
            readers.crowd().tell(value)
        }
    }

    private let state = Mutex(State())

    /// The value now, and after each change.
    func stream(from value: Value) -> AsyncStream<Value> {
        let (stream, continuation) = AsyncStream.makeStream(
            of: Value.self,
            bufferingPolicy: .bufferingNewest(1)
        )
        let number = state.withLock { state -> UInt64? in
            guard !state.isFinished else { return nil }
            // It may have changed, and the others are still to be told.
            state.tell(value)
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

    /// Calls the closure after each change until the result is released, under the owner's lock.
    func follow(_ tell: @escaping @Sendable (Value) -> Void) -> ObservationToken {
        let number = state.withLock { $0.readers.add(.init(tell: tell)) }
        return ObservationToken { [weak self] in self?.state.withLock { $0.readers.remove(number) }
        }
    }

    /// Tells everybody, if it is another value; it is not made if nobody follows.
    func tell(_ value: @autoclosure () -> Value) {
        state.withLock { state in
            guard !state.readers.isEmpty else { return }
            state.tell(value())
        }
    }

    /// Ends all streams, and those to come.
    func finish() {
        let readers = state.withLock { state in
            state.isFinished = true
            return state.readers.takeAll()
        }
        // Under no lock: whoever ends a stream is called back.
        readers.finish()
    }
}
