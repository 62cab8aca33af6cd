public import SanguineModel
import Synchronization

extension SanguineClient {
    // MARK: - Writing

    /// Performs a mutation: at once on this device, then at the backend.
    ///
    /// ```swift
    /// try client.perform(Like(post: post.id))
    /// ```
    ///
    /// When this method returns, the mutation is on disk, and its effects are part of all reads. It
    /// is sent as soon as there is a network, by a later process if necessary, until the backend
    /// has answered, each time with the same idempotency key. Its effects stay until a fetch that
    /// started after the answer has completed, even if other fetches complete earlier. If it is
    /// refused, only its own effects are removed.
    ///
    /// - Returns: A receipt for the operation's outcome.
    /// - Throws: ``SanguineError``, and nothing is stored then: `outboxFull` past
    ///   ``RecordLimits/operations``, `store` if the disk failed, `invalidDeclaration` if the type
    ///   is not registered, see ``Configuration/register(_:)-(Registrable....)``.
    @discardableResult
    public func perform(_ mutation: some RemoteMutation) throws(SanguineError) -> Receipt {
        try users.perform { user throws(SanguineError) in try user.mutations.perform(mutation) }
    }

    /// Performs the user's action, at once on this device and then on the server.
    ///
    /// ```swift
    /// try client.perform(CompleteHabit(habit: habit.id, day: today))
    /// ```
    ///
    /// When this returns, the operation is on disk and every read contains its effect. The client
    /// sends it as soon as there is a network, even after a restart, until the server has answered;
    /// it takes effect once. The call waits neither for the network nor for a flush of the disk:
    /// the operation survives the process's end, but a power failure may lose the most recent
    /// operations.
    ///
    /// - Returns: A receipt that reports the operation's outcome.
    /// - Throws: ``SanguineError``; then nothing has changed: `problem` with the mutation's own
    ///   refusal, `outboxFull` beyond ``RecordLimits/operations``, `store` if the disk cannot store
    ///   it, `invalidDeclaration` if its type is not registered, see
    ///   ``Configuration/register(_:)-(Registrable....)``.
    @discardableResult
    public func perform(_ mutation: some RecordMutation) throws(SanguineError) -> Receipt {
        try users.perform { user throws(SanguineError) in try user.recordMutations.perform(mutation)
        }
    }

    /// The epoch of the server's records that are shown; `nil` while there are none.
    package var recordsEpoch: Epoch? {
        users.current.records.outbox.read { $0.state.outbox.epoch }
    }

    /// The user's operations that the server has not settled yet, and the tray of refused ones.
    public var outbox: Outbox { Outbox(users: users) }

    /// Sends all waiting operations, and fetches all changes of the server.
    ///
    /// For programs that end, and for background tasks: an app in the foreground synchronizes
    /// automatically.
    ///
    /// - Throws: ``SanguineError`` if an operation was not sent, or a change could not be fetched.
    ///   Operations that were not sent stay in the outbox. A refusal by the server is not an error.
    public nonisolated(nonsending) func synchronize() async throws(SanguineError) {
        try await users.current.synchronize()
    }

    // MARK: - Reading

    /// Returns the record with the user's own changes, at once; `nil` if there is none, or it
    /// cannot be decoded as the type.
    public func record<R: SyncedRecord>(_ type: R.Type = R.self, _ id: RecordID) -> R? {
        let key = RecordKey(of: R.self, id)
        return source.value(key).flatMap { source.unreadable.record($0, key.id) }
    }

    /// Returns all records of a type, in the order of their ids.
    public func records<R: SyncedRecord>(_ type: R.Type = R.self) -> [R] { cached(.all(type)) }

    /// Returns the records whose member has the value, in the order of their ids.
    ///
    /// The member must be among the collection's indexes.
    public func records<R: SyncedRecord, Value: IndexValue>(
        where index: RecordIndex<R, Value>,
        is value: Value
    ) -> [R] {
        source.reading([R.collection.name]) { $0.records(where: index, is: value) }
    }

    /// Returns the query's value for the current records, at once.
    public func cached<Value>(_ query: RecordQuery<Value>) -> Value {
        source.reading(query.collections, query.read)
    }

    /// Returns the query's current value, then every change of it.
    ///
    /// After a change, all observers get values from the same state of the records. Values that
    /// equal the last one are skipped, and a slow reader gets the newest. The sequence ends when
    /// the client is closed.
    public func updates<Value>(of query: RecordQuery<Value>) -> AsyncStream<Value> {
        services.records.updates(of: query)
    }

    /// Returns an observable object for a view that shows the query; all views share the one of
    /// ``RecordQuery/all(_:)`` or ``RecordQuery/record(_:_:)``.
    @MainActor
    public func model<Value>(_ query: RecordQuery<Value>) -> RecordModel<Value> {
        RecordModel.shared(query, of: users)
    }

    /// Returns the query's value; on a device that never had the user's records, they are fetched
    /// first.
    ///
    /// - Throws: ``SanguineError`` of that fetch only; `notConfigured` without a server.
    public nonisolated(nonsending) func value<Value>(
        of query: RecordQuery<Value>
    ) async throws(SanguineError) -> Value {
        try await users.current.feed.loadBase()
        return cached(query)
    }

    /// Returns the query's value after it has fetched all of the server's changes to the user's
    /// records.
    ///
    /// The feed delivers changes automatically; use this method for pull-to-refresh. The user's own
    /// record mutations are sent first. All record queries share one feed: a refresh of one
    /// refreshes all.
    ///
    /// - Throws: ``SanguineError``; `notConfigured` without a server.
    @discardableResult
    public nonisolated(nonsending) func refresh<Value>(
        _ query: RecordQuery<Value>
    ) async throws(SanguineError) -> Value {
        try await users.current.feed.synchronize()
        return cached(query)
    }

    /// Not available for records: see the message.
    @available(*, unavailable, message: "Perform a RecordMutation to change records.")
    public func set<Value>(_ value: Value, for query: RecordQuery<Value>) -> Bool { false }

    /// Not available for records: see the message.
    @available(*, unavailable, message: "Perform a RecordMutation to change records.")
    public func update<Value>(
        _ query: RecordQuery<Value>,
        _ body: (inout Value) -> Void
    ) -> Value? { nil }

    /// The part of the user's records that is on this device, from 0 to 1.
    ///
    /// Less than 1 only while a long feed is restored, as on a new device, where its records are
    /// shown as they arrive. To follow it, use ``RecordQuery/restoreProgress``.
    public var restored: Double {
        let restore = users.current.feed.restore
        return restore.isUnfinished ? restore.progress.fraction : 1
    }

    private var source: UserRecords { users.current.records }
}
