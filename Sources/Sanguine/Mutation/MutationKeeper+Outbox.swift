import OrderedCollections
import SanguineModel
import Synchronization

// MARK: - What the outbox shows

extension MutationKeeper {
    /// The operations that are not settled, by number.
    func pending() -> [(sequence: Int64, operation: Outbox.Operation)] {
        guarded.withLock { guarded in
            guarded.state.items.values.compactMap { item in
                guard let phase = Outbox.Phase(item), let row = guarded.rows[item.sequence]
                else { return nil }
                let operation = Outbox.Operation(
                    id: item.id,
                    name: row.name,
                    lane: item.lane,
                    phase: phase,
                    conflict: nil
                )
                return (item.sequence, operation)
            }
        }
    }

    /// The operations that were refused, by number.
    func tray() -> [(sequence: Int64, operation: Outbox.Refused)] {
        guarded.withLock { guarded in
            guarded.state.items.values.compactMap { item in
                guard case .refused(let problem) = item.phase,
                    let row = guarded.rows[item.sequence]
                else { return nil }
                let operation = Outbox.Refused(
                    id: item.id,
                    name: row.name,
                    lane: item.lane,
                    problem: problem
                )
                return (item.sequence, operation)
            }
        }
    }

    func summary() -> Outbox.Summary {
        guarded.withLock { Outbox.Summary($0.state.items.values) }
    }

    func summaries() -> AsyncStream<Outbox.Summary> {
        AsyncStream(bufferingPolicy: .bufferingNewest(1)) { continuation in
            let number = guarded.withLock { guarded -> UInt64 in
                guarded.runs += 1
                guard !guarded.isClosed else {
                    continuation.finish()
                    return guarded.runs
                }
                guarded.readers[guarded.runs] = continuation
                continuation.yield(Outbox.Summary(guarded.state.items.values))
                return guarded.runs
            }
            continuation.onTermination = { [weak self] _ in
                self?.guarded.withLock { $0.readers[number] = nil }
            }
        }
    }

    /// Tells those who follow the outbox.
    func tellOutbox() {
        guarded.withLock { guarded in
            guard !guarded.readers.isEmpty else { return }
            let summary = Outbox.Summary(guarded.state.items.values)
            // Yielding only schedules; under the lock, so that summaries come in their order.
            for reader in guarded.readers.values { reader.yield(summary) }
        }
    }

    /// Sends all that waits, and returns when it was answered.
    func synchronize() async throws(SanguineError) {
        try open()
        guarded.withLock { $0.state.set(.offline, false) }
        wake()
        while true {
            let flights = guarded.withLock { Array($0.flights.values) }
            for flight in flights { await flight.value }
            if Task.isCancelled { throw .cancelled }
            let (isDone, mustSignIn, failure) = guarded.withLock { guarded in
                (
                    !guarded.state.items.values.contains(where: \.isUnanswered),
                    guarded.state.pauses.contains(.signIn), guarded.failure
                )
            }
            if isDone { return }
            if mustSignIn {
                throw .problem(Problem(.unauthenticated, "Sign in, then synchronize again."))
            }
            guard flights.isEmpty else { continue }
            kick()
            if guarded.withLock({ $0.flights.isEmpty }) { throw failure ?? .closed }
        }
    }
}

extension Outbox.Summary {
    init(_ items: some Sequence<OutboxState.Item>) {
        self.init()
        for item in items {
            switch item.phase {
            case .queued, .sending: unsent += 1
            case .acknowledged: settling += 1
            case .refused: refused += 1
            }
        }
    }

    /// Adds others to them.
    func with(_ other: Self) -> Self {
        var sum = self
        sum.unsent += other.unsent
        sum.settling += other.settling
        sum.refused += other.refused
        return sum
    }
}
