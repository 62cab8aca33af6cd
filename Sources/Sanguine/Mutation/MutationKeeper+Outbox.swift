import OrderedCollections
import SanguineModel
import Synchronization

// MARK: - What the outbox shows

extension MutationKeeper {
    /// The operations that are not settled.
    func pending() -> [Outbox.Numbered<Outbox.Operation>] {
        guarded.withLock { guarded in guarded.state.pending(guarded.rows) }
    }

    /// The operations that were refused.
    func tray() -> [Outbox.Numbered<Outbox.Refused>] {
        guarded.withLock { guarded in guarded.state.tray(guarded.rows) }
    }

    func summary() -> Outbox.Summary { guarded.withLock { $0.state.summary } }

    func summaries() -> AsyncStream<Outbox.Summary> {
        guarded.withLock { followers.stream(from: $0.state.summary) }
    }

    /// Tells those who follow the outbox.
    func tellOutbox() { guarded.withLock { followers.tell($0.state.summary) } }

    /// Sends all that waits, and returns when it was answered.
    func synchronize() async throws(SanguineError) {
        try open()
        guarded.withLock { $0.state.set(.offline, false) }
        wake()
        while true {
            let flights = guarded.withLock { Array($0.flights.values) }
            for flight in flights { await flight.value }
            if Task.isCancelled { throw .cancelled }
            let (waiting, mustSignIn) = guarded.withLock { guarded in
                (
                    guarded.state.items.values.first(where: \.isUnanswered),
                    guarded.state.pauses.contains(.signIn)
                )
            }
            guard let waiting else { return }
            if mustSignIn {
                throw .problem(Problem(.unauthenticated, "Sign in, then synchronize again."))
            }
            guard flights.isEmpty else { continue }
            kick()
            let failure = guarded.withLock { guarded -> SanguineError? in
                guard guarded.flights.isEmpty else { return nil }
                guard !guarded.isClosed else { return .closed }
                return guarded.failures[waiting.sequence]
                    ?? .transport(.offline("the network went away meanwhile"))
            }
            if let failure { throw failure }
        }
    }
}
