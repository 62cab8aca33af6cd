public import SanguineModel
import Synchronization

extension SanguineClient {
    // MARK: - Writing

    /// Does what the user did: at once on this device, then on the server, for good.
    ///
    /// ```swift
    /// try client.perform(CompleteHabit(habit: habit.id, day: today))
    /// ```
    ///
    /// When this returns, the operation is on disk and its effect is in everything that is read. It
    /// is sent as soon as there is a network, also by a later process, until the server has
    /// answered; it takes effect once. It waits for no network and no flush of the disk: it
    /// survives the death of the process, and a loss of power may take the last moments.
    ///
    /// - Returns: What tells of the operation's outcome, for those who want to know.
    /// - Throws: ``SanguineError``; nothing is taken in then: `problem` with the mutation's own
    ///   refusal, `outboxFull` past ``RecordLimits/operations``, `store` if the disk cannot keep
    ///   it, `invalidDeclaration` if its type is not registered, see
    ///   ``Configuration/register(_:)-(Registrable....)``.
    @discardableResult
    public func perform(_ mutation: some RecordMutation) throws(SanguineError) -> Receipt {
        try users.perform { user throws(SanguineError) in try user.mutators.perform(mutation) }
    }

    /// The epoch of the server's records that are shown; `nil` while there are none.
    package var recordsEpoch: Epoch? {
        users.present.records.outbox.read { $0.state.outbox.epoch }
    }

    /// What the user did and the server has not settled yet, with the tray of what it refused.
    public var outbox: Outbox { Outbox(users: users) }

    /// Sends all that waits, and takes in all that the server has.
    ///
    /// For programs that end, and for background tasks: an app in the foreground does so by itself.
    ///
    /// - Throws: ``SanguineError`` if something was not sent, or not all could be taken in. What
    ///   was not sent stays in the outbox. An operation that the server refused is no error.
    public nonisolated(nonsending) func synchronize() async throws(SanguineError) {
        try await users.present.synchronize()
    }

    // MARK: - Reading

    /// The record with the user's own changes, at once; `nil` if there is none, or none that can be
    /// read as the type.
    public func record<R: SyncedRecord>(_ type: R.Type = R.self, _ id: RecordID) -> R? {
        source.value(RecordKey(R.collection.name, id))
            .flatMap { source.unreadable.record($0, id) }
    }

    /// All records of a type, in the order of their ids.
    public func records<R: SyncedRecord>(_ type: R.Type = R.self) -> [R] { cached(.all(type)) }

    /// The records whose member has the value, in the order of their ids.
    ///
    /// The member must be among the collection's indexes.
    public func records<R: SyncedRecord, Value: IndexValue>(
        where index: RecordIndex<R, Value>,
        is value: Value
    ) -> [R] {
        source.reading([R.collection.name]) { $0.records(where: index, is: value) }
    }

    /// What the query gives of the present records, at once.
    public func cached<Value>(_ query: RecordQuery<Value>) -> Value {
        source.reading(query.collections, query.read)
    }

    /// What the query gives now, then every change of it.
    ///
    /// All who observe learn of one change with values of one state of the records. Values that are
    /// equal to the last are left out, and a reader who is slow gets the newest. The sequence ends
    /// when the client is closed.
    public func updates<Value>(of query: RecordQuery<Value>) -> AsyncStream<Value> {
        device.records.updates(of: query)
    }

    /// The query as an observable object for a view; of ``RecordQuery/all(_:)`` and
    /// ``RecordQuery/record(_:_:)`` the same one for all views.
    @MainActor
    public func model<Value>(_ query: RecordQuery<Value>) -> RecordModel<Value> {
        device.models.model(query.key) {
            RecordModel(
                query,
                value: cached(query),
                observers: device.records,
                models: device.models,
                turn: device.turn
            )
        }
    }

    /// The query's value; on a device that has never had the user's records they are fetched first.
    ///
    /// - Throws: ``SanguineError``, of that fetch alone; `notConfigured` without a server.
    public nonisolated(nonsending) func value<Value>(
        of query: RecordQuery<Value>
    ) async throws(SanguineError) -> Value {
        let feed = users.present.feed
        if !feed.hasBase { try await feed.synchronize() }
        return cached(query)
    }

    /// The query's value after all that the server has of the user's records was taken in.
    ///
    /// The feed brings changes by itself; this is for pulling down a list. The user's own record
    /// mutations are sent first. Queries of records share one feed: what is refreshed for one is
    /// for all.
    ///
    /// - Throws: ``SanguineError``; `notConfigured` without a server.
    @discardableResult
    public nonisolated(nonsending) func refresh<Value>(
        _ query: RecordQuery<Value>
    ) async throws(SanguineError) -> Value {
        try await users.present.feed.synchronize()
        return cached(query)
    }

    /// Not for records: see the message.
    @available(*, unavailable, message: "Records change by mutations: perform a RecordMutation.")
    public func set<Value>(_ value: Value, for query: RecordQuery<Value>) -> Bool { false }

    /// Not for records: see the message.
    @available(*, unavailable, message: "Records change by mutations: perform a RecordMutation.")
    public func update<Value>(
        _ query: RecordQuery<Value>,
        _ body: (inout Value) -> Void
    ) -> Value? { nil }

    /// How much of the user's records is on this device, from 0 to 1.
    ///
    /// Less than 1 only while a long feed is restored, as on a new device: its records are shown
    /// when all of them are there.
    public var restored: Double { users.present.feed.restore.part }

    private var source: UserRecords { users.present.records }
}
