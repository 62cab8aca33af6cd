import OrderedCollections
public import SanguineModel
import Synchronization

/// What the user did and the authority has not settled yet.
///
/// ```swift
/// for operation in client.outbox.refused {
///     show(operation.problem, retry: { try client.outbox.retry(operation.id) })
/// }
/// ```
public struct Outbox: Sendable {
    /// Where an operation is.
    public enum Phase: Hashable, Sendable {
        /// It waits to be sent.
        case queued
        /// It is on its way, or its answer was lost and it will be sent again.
        case sending
        /// The authority has done it; the records that it gave with it are still to come.
        case acknowledged
    }

    /// An operation that is not settled.
    public struct Operation: Hashable, Sendable, Identifiable {
        /// The operation's id.
        public let id: Identifier
        /// The mutator's name.
        public let name: String
        /// The line in which it waits.
        public let lane: String
        /// Where it is.
        public let phase: Phase
        /// Why it is not part of what is shown at present; `nil` if it is.
        ///
        /// It is sent all the same: the authority decides.
        public let conflict: Refusal?
    }

    /// An operation in the tray: the authority has refused it.
    public struct Refused: Hashable, Sendable, Identifiable {
        /// The operation's id.
        public let id: Identifier
        /// The mutator's name.
        public let name: String
        /// The line in which it waited.
        public let lane: String
        /// Why it was refused.
        public let problem: Problem
    }

    /// How many operations there are.
    public struct Summary: Hashable, Sendable {
        /// Those that the authority has not answered.
        public var unsent = 0
        /// Those that it has done and whose records are still to come.
        public var settling = 0
        /// Those in the tray.
        public var refused = 0
    }

    let keeper: SyncKeeper

    /// The operations that are not settled, in the order in which they were made.
    public var pending: [Operation] { keeper.pending() }

    /// The tray: what the authority has refused, until it is retried or discarded.
    public var refused: [Refused] { keeper.tray() }

    /// How many operations there are.
    public var summary: Summary { keeper.summary() }

    /// How many operations there are, now and after each change.
    ///
    /// A reader who is slow gets the newest numbers. The sequence ends when the client is closed.
    public var updates: AsyncStream<Summary> { keeper.summaries() }

    /// Makes a refused operation anew: under a new id, and behind all others.
    ///
    /// - Throws: ``SanguineError``: `not_found` if the tray has no such operation.
    @discardableResult
    public func retry(_ id: Identifier) throws(SanguineError) -> Receipt { try keeper.retry(id) }

    /// Drops an operation that was refused, or was never sent.
    ///
    /// - Throws: ``SanguineError``: `operation_in_progress` if it was sent and may be done,
    ///   `not_found` if there is no such operation.
    public func discard(_ id: Identifier) throws(SanguineError) { try keeper.discard(id) }
}

extension SyncKeeper {
    func pending() -> [Outbox.Operation] {
        activate()
        return guarded.withLock { guarded in
            guarded.state.outbox.items.values.compactMap { item in
                guard let phase = Outbox.Phase(item), let row = guarded.rows[item.sequence] else {
                    return nil
                }
                return Outbox.Operation(
                    id: item.id,
                    name: row.name,
                    lane: item.lane,
                    phase: phase,
                    conflict: guarded.state.replay.refusal(of: item.sequence)
                )
            }
        }
    }

    func tray() -> [Outbox.Refused] {
        activate()
        return guarded.withLock { guarded in
            guarded.state.outbox.items.values.compactMap { item in
                guard case .refused(let problem) = item.phase,
                    let row = guarded.rows[item.sequence]
                else { return nil }
                return Outbox.Refused(
                    id: item.id,
                    name: row.name,
                    lane: item.lane,
                    problem: problem
                )
            }
        }
    }

    func summary() -> Outbox.Summary {
        activate()
        return guarded.withLock { Self.summary($0) }
    }

    func summaries() -> AsyncStream<Outbox.Summary> {
        activate()
        return AsyncStream(bufferingPolicy: .bufferingNewest(1)) { continuation in
            let number = guarded.withLock { guarded -> UInt64 in
                guarded.runs += 1
                guard !guarded.isClosed else {
                    continuation.finish()
                    return guarded.runs
                }
                guarded.outboxReaders[guarded.runs] = continuation
                continuation.yield(Self.summary(guarded))
                return guarded.runs
            }
            continuation.onTermination = { [weak self] _ in
                self?.guarded.withLock { $0.outboxReaders[number] = nil }
            }
        }
    }

    /// Tells those who follow the outbox, if there is another summary.
    func tellOutbox() {
        guarded.withLock { guarded in
            guard !guarded.outboxReaders.isEmpty else { return }
            let summary = Self.summary(guarded)
            guard summary != guarded.shownSummary else { return }
            guarded.shownSummary = summary
            // Yielding only schedules; under the lock, so that summaries come in their order.
            for reader in guarded.outboxReaders.values { reader.yield(summary) }
        }
    }

    private static func summary(_ guarded: borrowing Guarded) -> Outbox.Summary {
        var summary = Outbox.Summary()
        for item in guarded.state.outbox.items.values {
            switch item.phase {
            case .queued, .sending: summary.unsent += 1
            case .acknowledged: summary.settling += 1
            case .refused: summary.refused += 1
            }
        }
        return summary
    }

    /// How much of a long feed is restored, now and after each change.
    func restores() -> AsyncStream<Double> {
        AsyncStream(bufferingPolicy: .bufferingNewest(1)) { continuation in
            let number = guarded.withLock { guarded -> UInt64 in
                guarded.runs += 1
                guard !guarded.isClosed else {
                    continuation.finish()
                    return guarded.runs
                }
                guarded.restoreReaders[guarded.runs] = continuation
                continuation.yield(guarded.restored)
                return guarded.runs
            }
            continuation.onTermination = { [weak self] _ in
                self?.guarded.withLock { $0.restoreReaders[number] = nil }
            }
        }
    }
}

extension Outbox.Phase {
    fileprivate init?(_ item: OutboxState.Item) {
        switch item.phase {
        case .queued: self = item.mayBeDone ? .sending : .queued
        case .sending: self = .sending
        case .acknowledged: self = .acknowledged
        case .refused: return nil
        }
    }
}
