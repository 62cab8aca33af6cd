public import SanguineModel
import Synchronization

/// The user's operations that the backend has not settled yet.
///
/// ```swift
/// for operation in client.outbox.refused {
///     show(operation.problem, retry: { try client.outbox.retry(operation.id) })
/// }
/// ```
public struct Outbox: Sendable {
    /// The state of an operation in the outbox.
    public enum Phase: Hashable, Sendable {
        /// The operation waits to be sent, has certainly not reached the backend, and can be
        /// withdrawn; see ``Outbox/withdraw(_:)``.
        case queued
        /// The operation is being sent, or may have been applied and will be sent again, because
        /// its response was lost or the server did not know its mutation yet.
        case sending
        /// The backend has applied the operation; the resulting changes have not arrived yet.
        case acknowledged
    }

    /// An operation that is not settled.
    public struct Operation: Hashable, Sendable, Identifiable {
        /// The operation's id.
        public let id: Identifier
        /// The name of the mutation.
        public let name: String
        /// The lane of the operation.
        public let lane: String
        /// The state of the operation.
        public let phase: Phase
        /// The reason why the operation is not part of the visible state; `nil` if it is part of
        /// it.
        ///
        /// The operation is sent anyway: the server decides.
        public let conflict: Refusal?
        /// The error of the last send, until the operation is answered; `nil` if no send has
        /// failed.
        public let lastFailure: SanguineError?
        /// The progress of the operation's ``RequestBody``, over all requests of the current send;
        /// `nil` if the operation is not being sent, or has no such body.
        ///
        /// Each send starts at 0. Observers are notified at most once for each hundredth of a
        /// request.
        public let progress: UploadProgress?
        /// The time at which the operation was created, by the device's clock.
        public var created: Timestamp { id.moment }

        /// Creates an operation for previews and tests; an outbox creates its own.
        ///
        /// By default, the operation is queued in lane `main` and visible.
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

    /// An operation in the tray: one that the backend refused.
    public struct Refused: Hashable, Sendable, Identifiable {
        /// The operation's id.
        public let id: Identifier
        /// The name of the mutation.
        public let name: String
        /// The lane of the operation.
        public let lane: String
        /// The reason for the refusal.
        public let problem: Problem
        /// Whether the backend responded with success to one of the operation's requests before the
        /// operation was refused: its ``RemoteMutation/send(_:)`` threw after that.
        ///
        /// ``Outbox/retry(_:)`` then keeps the id, so that the backend applies nothing twice.
        public let isPartlyDone: Bool
        /// The time at which the operation was created or last retried, by the device's clock.
        public var created: Timestamp { id.moment }

        /// Creates a refused operation for previews and tests; an outbox creates its own.
        ///
        /// The default lane is `main`.
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

    /// The numbers of operations in an outbox, by state.
    public struct Summary: Hashable, Sendable {
        /// The number of operations that the backend has not answered: they are queued, are being
        /// sent, or their response was lost.
        public var unsent = 0
        /// The number of operations that the backend has applied and whose changes have not arrived
        /// yet.
        public var settling = 0
        /// The number of operations in the tray, which are not in ``Outbox/pending``.
        public var refused = 0

        /// Creates a summary for previews and tests.
        ///
        /// By default, the summary is that of an empty outbox.
        public init(unsent: Int = 0, settling: Int = 0, refused: Int = 0) {
            self.unsent = unsent
            self.settling = settling
            self.refused = refused
        }
    }

    let users: UserSwitcher

    /// The current user's engine.
    ///
    /// An access counts as a use of the user's records.
    private var current: OutboxEngine {
        let user = users.current
        user.records.use()
        return user.outbox
    }

    /// The operations of the current user that are not settled, in the order in which they were
    /// created.
    ///
    /// These are operations on records and on any backend; see ``RemoteMutation``. An operation
    /// that the backend has applied counts as ``Phase/acknowledged`` until its changes have
    /// arrived. So `pending.count` equals `summary.unsent + summary.settling`; use
    /// ``Summary/unsent`` for the operations that still have to be sent or answered. Operations in
    /// ``refused`` and those of other users, see ``ofOthers``, are not included.
    public var pending: [Operation] { current.pending() }

    /// The tray: refused operations, until they are retried or discarded.
    public var refused: [Refused] { current.tray() }

    /// The numbers of operations, by state.
    public var summary: Summary { current.summary() }

    /// The operations and their numbers at one moment.
    struct Listing: Equatable {
        var pending: [Operation] = []
        var refused: [Refused] = []
        var summary = Summary()
    }

    /// The operations and their numbers at one moment.
    var listing: Listing { current.listing() }

    /// The number of operations of other users that are stored on this device until those users
    /// return.
    ///
    /// No other user sees or sends them. Those of a guest who was merged into an account on another
    /// device are taken over after a sign-in to that account.
    public var ofOthers: Int { users.countLeft() }

    /// The number of operations on the app's own backend that were left behind by users without a
    /// name.
    ///
    /// A user named with ``SanguineClient/signIn(as:)`` gets their operations back at their return;
    /// those are not counted here. Operations of an unnamed user have no known owner: they are
    /// neither shown nor sent until the app decides. ``claim()`` assigns them to the current user,
    /// ``discardUnclaimed()`` removes them.
    public var unclaimed: Int { users.countUnclaimed() }

    /// Assigns the ``unclaimed`` operations to the current user.
    ///
    /// Call this if the app knows that they belong to this user.
    ///
    /// Files that they name are uploaded as this user. Other files that wait for their upload stay
    /// with the record mutations of the user who left them.
    ///
    /// The operations are visible when this method returns, and are sent, or in the tray, as if the
    /// user had never left.
    ///
    /// - Throws: ``SanguineError``: `store` if the disk failed; nothing has changed then.
    public func claim() throws(SanguineError) { try users.claim() }

    /// Removes the ``unclaimed`` operations, including those on disk.
    ///
    /// - Throws: ``SanguineError``: `store` if the disk failed; nothing has changed then.
    public func discardUnclaimed() throws(SanguineError) { try users.discardUnclaimed() }

    /// The numbers of operations, now and after each change.
    ///
    /// A slow consumer gets only the newest numbers. The sequence ends when the client is closed.
    public var updates: AsyncStream<Summary> {
        let changes = users.services.outboxNotifier.stream()
        let last = LastSummary()
        // The numbers are read when the consumer asks, so that they are always the newest.
        return AsyncStream { [self] in
            for await _ in changes {
                let now = summary
                if last.isOther(now) { return now }
            }
            return nil
        }
    }

    /// Resumes sending after the app's own backend has answered 401, because there is a new token.
    ///
    /// This also retries operations that wait after a 401; see
    /// ``SanguineClient/Configuration/refresh``.
    ///
    /// With a Sanguine server, the session resumes sending.
    public func resume() { users.current.outbox.resume() }

    /// Enqueues a refused operation again, under a new id and behind all others.
    ///
    /// An operation that is ``Refused/isPartlyDone`` keeps its id.
    ///
    /// - Throws: ``SanguineError``: `not_found` if the tray has no such operation.
    @discardableResult
    public func retry(_ id: Identifier) throws(SanguineError) -> Receipt {
        try current.retry(id)
    }

    /// Withdraws an operation that has certainly not reached the backend, for example to undo it.
    ///
    /// The upload of a file is cancelled with the last operation that names it, even if it has
    /// begun.
    ///
    /// When this method returns, the operation's effect and its row on disk are gone, and callers
    /// that wait for its outcome get ``Receipt/Outcome/withdrawn``. Later operations stay. Sending
    /// and withdrawing are decided under one lock: a withdrawn operation is never sent.
    ///
    /// - Returns: Whether the operation was withdrawn; `false` if it was or may have been sent, or
    ///   is no longer in ``pending``.
    /// - Throws: ``SanguineError``: `store` if the disk failed; nothing has changed then.
    public func withdraw(_ id: Identifier) throws(SanguineError) -> Bool {
        try current.withdraw(id)
    }

    /// Removes an operation that was refused or never sent.
    ///
    /// The outcome of an operation that was never sent is ``Receipt/Outcome/withdrawn``.
    ///
    /// - Throws: ``SanguineError``: `operation_in_progress` if it was sent and may have been
    ///   applied, `not_found` if there is no such operation.
    public func discard(_ id: Identifier) throws(SanguineError) {
        try current.discard(id)
    }
}

/// The last summary that a stream has delivered.
///
/// Mutable state: the summary, protected by its mutex.
private final class LastSummary: Sendable {
    private let last = Mutex<Outbox.Summary?>(nil)

    /// Stores a summary and returns whether it differs from the previous one.
    func isOther(_ summary: Outbox.Summary) -> Bool {
        last.withLock { last in
            defer { last = summary }
            return last != summary
        }
    }
}
