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

    /// Sends all that waits, and returns when it was answered.
    func synchronize() async throws(SanguineError) {
        try open()
        guarded.withLock { $0.state.set(.offline, false) }
        wake()
        while true {
            let flights = guarded.withLock { Array($0.flights.values) }
            try await Self.finish(flights)
            let (waiting, mustSignIn) = guarded.withLock { guarded in
                (
                    guarded.state.items.values.first(where: \.isUnanswered),
                    guarded.state.pauses.contains(.signIn)
                )
            }
            guard let waiting else {
                refetchSettling()
                return try await Self.finish(guarded.withLock { Array($0.settling.values) })
            }
            if mustSignIn {
                throw .problem(Problem(.unauthenticated, "Sign in, then synchronize again."))
            }
            guard flights.isEmpty else { continue }
            kick()
            let failure = guarded.withLock { guarded -> SanguineError? in
                guard guarded.flights.isEmpty else { return nil }
                if let ending = guarded.ending { return ending }
                return guarded.failures[waiting.sequence]
                    ?? .transport(.offline("the network went away meanwhile"))
            }
            if let failure { throw failure }
        }
    }

    /// Returns when the tasks have ended, or throws when the caller's is cancelled.
    private static func finish(_ tasks: [Task<Void, Never>]) async throws(SanguineError) {
        guard !tasks.isEmpty else { return }
        let end = OneShot<Void>()
        Task {
            for task in tasks { await task.value }
            end.resolve(.success(()))
        }
        try await end.value()
    }
}
