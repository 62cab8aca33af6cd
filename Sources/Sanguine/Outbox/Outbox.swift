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
        /// It waits to be sent, has surely reached nobody, and can be taken back: see
        /// ``Outbox/withdraw(_:)``.
        case queued
        /// It is on its way, or may be done and will be sent again: its answer was lost, or the
        /// server did not know it yet.
        case sending
        /// The authority has done it; the records that it gave with it are still to come.
        case acknowledged
    }

    /// An operation that is not settled.
    public struct Operation: Hashable, Sendable, Identifiable {
        /// The operation's id.
        public let id: Identifier
        /// The record mutation's name.
        public let name: String
        /// The lane in which it waits.
        public let lane: String
        /// Where it is.
        public let phase: Phase
        /// Why it is not part of what is shown at present; `nil` if it is.
        ///
        /// It is sent all the same: the authority decides.
        public let conflict: Refusal?
        /// What its last sending has failed with, as long as it is not answered; `nil` if none has.
        public let lastFailure: SanguineError?
        /// How much of its ``RequestBody`` has been sent, in all requests of the present sending;
        /// `nil` if it is not on its way, or has none.
        ///
        /// Each sending begins at 0. It is news at most once for each hundredth of a request.
        public let progress: UploadProgress?
        /// When it was made, by the device's clock.
        public var created: Timestamp { id.moment }

        /// Creates an operation, for previews and tests; an outbox makes its own.
        ///
        /// Default: one of lane `main` that waits, and is shown.
        public init(
            id: Identifier,
            name: String,
            lane: String = "main",
            phase: Phase = .queued,
            conflict: Refusal? = nil,
            lastFailure: SanguineError? = nil,
            progress: UploadProgress? = nil
        ) {
            self.id = id
            self.name = name
            self.lane = lane
            self.phase = phase
            self.conflict = conflict
            self.lastFailure = lastFailure
            self.progress = progress
        }
    }

    /// An operation in the tray: the authority has refused it.
    public struct Refused: Hashable, Sendable, Identifiable {
        /// The operation's id.
        public let id: Identifier
        /// The record mutation's name.
        public let name: String
        /// The lane in which it waited.
        public let lane: String
        /// Why it was refused.
        public let problem: Problem
        /// Whether the backend has answered a request of it with success before it was refused:
        /// its ``RequestMutation/send(_:)`` threw after that.
        ///
        /// ``Outbox/retry(_:)`` then keeps its id, so that the backend does nothing twice.
        public let isPartlyDone: Bool
        /// When it was made, or retried last, by the device's clock.
        public var created: Timestamp { id.moment }

        /// Creates a refused operation, for previews and tests; an outbox makes its own.
        ///
        /// Default: one of lane `main`.
        public init(
            id: Identifier,
            name: String,
            lane: String = "main",
            problem: Problem,
            isPartlyDone: Bool = false
        ) {
            self.isPartlyDone = isPartlyDone
            self.id = id
            self.name = name
            self.lane = lane
            self.problem = problem
        }
    }

    /// How many operations there are.
    public struct Summary: Hashable, Sendable {
        /// Those that the backend has not answered: they wait, are on their way, or their answer
        /// was lost.
        public var unsent = 0
        /// Those that it has done, and whose changes are still to come.
        public var settling = 0
        /// Those in the tray, which are not in ``Outbox/pending``.
        public var refused = 0

        /// Creates a summary, for previews and tests.
        ///
        /// Default: of an empty outbox.
        public init(unsent: Int = 0, settling: Int = 0, refused: Int = 0) {
            self.unsent = unsent
            self.settling = settling
            self.refused = refused
        }
    }

    let users: Users

    /// The present user's operations; to look at them is to use them.
    private var present: OutboxEngine {
        let user = users.present
        user.records.use()
        return user.outbox
    }

    /// The operations that are not settled, in the order in which they were made.
    ///
    /// Those on records and those on any backend, see ``RequestMutation``, of the present user.
    /// What the backend has done counts as ``Phase/acknowledged`` until what it has changed has
    /// come: for what still waits to be sent or answered, ask for ``Summary/unsent``. So
    /// `pending.count` is
    /// `summary.unsent + summary.settling`. Not among them is what was ``refused``, and what is
    /// another user's, see ``ofOthers``.
    public var pending: [Operation] { present.pending() }

    /// The tray: what was refused, until it is retried or discarded.
    public var refused: [Refused] { present.tray() }

    /// How many operations there are.
    public var summary: Summary { present.summary() }

    /// The operations, and how many there are, at one moment.
    struct Listing: Equatable {
        var pending: [Operation] = []
        var refused: [Refused] = []
        var summary = Summary()
    }

    /// All of it, at one moment.
    var listing: Listing { present.listing() }

    /// How many operations of other users are stored on this device, for their return.
    ///
    /// Nobody else sees or sends them.
    public var ofOthers: Int { users.countLeft() }

    /// How many operations on the app's own backend somebody has left whom the app had not named.
    ///
    /// What a user leaves who was named by ``SanguineClient/signIn(as:)`` is sent at their return,
    /// and is none of these. Without a name nobody can tell who may have them: nobody sees or sends
    /// them until the app says so. ``claim()`` gives them to the present user,
    /// ``discardUnclaimed()`` removes them.
    public var unclaimed: Int { users.countUnclaimed() }

    /// Gives the present user what ``unclaimed`` counts: the app knows that they are the one who
    /// left it.
    ///
    /// It is visible when this returns, and is sent, or in the tray, as if they had never left.
    ///
    /// - Throws: ``SanguineError``: `store` if the disk failed; nothing has changed then.
    public func claim() throws(SanguineError) { try users.claim() }

    /// Removes what ``unclaimed`` counts, from the disk, too.
    ///
    /// - Throws: ``SanguineError``: `store` if the disk failed; nothing has changed then.
    public func discardUnclaimed() throws(SanguineError) { try users.discardUnclaimed() }

    /// How many operations there are, now and after each change.
    ///
    /// A reader who is slow gets the newest numbers. The sequence ends when the client is closed.
    public var updates: AsyncStream<Summary> {
        let news = users.device.outboxNews.stream()
        let last = LastSummary()
        // The numbers are taken when the reader asks, so that they are always the newest.
        return AsyncStream { [self] in
            for await _ in news {
                let now = summary
                if last.isOther(now) { return now }
            }
            return nil
        }
    }

    /// Sends again what a 401 of the app's own backend has stopped: there is a new token.
    ///
    /// Also what waits after a 401 to be tried again; see ``SanguineClient/Configuration/refresh``.
    ///
    /// With a Sanguine server the session does so.
    public func resume() { users.present.outbox.resume() }

    /// Makes a refused operation anew: under a new id, and behind all others.
    ///
    /// One that is ``Refused/isPartlyDone`` keeps its id.
    ///
    /// - Throws: ``SanguineError``: `not_found` if the tray has no such operation.
    @discardableResult
    public func retry(_ id: Identifier) throws(SanguineError) -> Receipt {
        try present.retry(id)
    }

    /// Takes an operation back that has surely reached nobody: an undo.
    ///
    /// Its effect is gone, and so is its row on disk, when this returns; who waits for its outcome
    /// is told ``Receipt/Outcome/withdrawn``. What was made after it stays. The sender and this
    /// decide under one lock: what is taken back is never sent.
    ///
    /// - Returns: Whether it was taken back; `false` if it was sent, may have been, or is no longer
    ///   among ``pending``.
    /// - Throws: ``SanguineError``: `store` if the disk failed; nothing has changed then.
    public func withdraw(_ id: Identifier) throws(SanguineError) -> Bool {
        try present.withdraw(id)
    }

    /// Drops an operation that was refused, or was never sent.
    ///
    /// Of one that was never sent the outcome is ``Receipt/Outcome/withdrawn``.
    ///
    /// - Throws: ``SanguineError``: `operation_in_progress` if it was sent and may be done,
    ///   `not_found` if there is no such operation.
    public func discard(_ id: Identifier) throws(SanguineError) {
        try present.discard(id)
    }
}

/// What a follower was told last.
///
/// Mutable state: the summary, by its mutex.
private final class LastSummary: Sendable {
    private let last = Mutex<Outbox.Summary?>(nil)

    /// Whether it differs from the last one; it is the last one from then on.
    func isOther(_ summary: Outbox.Summary) -> Bool {
        last.withLock { last in
            defer { last = summary }
            return last != summary
        }
    }
}
