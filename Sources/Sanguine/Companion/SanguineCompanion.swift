import Logging
public import SanguineModel

/// A second process at an app's records: a widget, a share extension, an intent.
///
/// ```swift
/// var configuration = SanguineClient.Configuration()
/// configuration.folder = sharedFolder  // of the app group, the same as the app's
/// configuration.schema = .app
/// let companion = try SanguineCompanion(configuration)
/// try companion.perform(CompleteHabit(habit: id, day: today))
/// ```
///
/// It reads what the app has, and takes operations in, which the app sees within a second while it
/// shows records, and sends. It never sends or fetches anything itself, and holds no session.
public final class SanguineCompanion: Sendable {
    // No mutable state of its own: the keeper guards its.
    private let keeper: SyncKeeper
    private let turn = MainTurn()

    /// Opens the records of the app whose folder it is.
    ///
    /// Of the configuration count: `folder`, `schema`, `clock`, `delay`, `random`, `logger` and
    /// `durableWrites`.
    ///
    /// - Throws: ``SanguineError/notConfigured(_:)`` without a folder: the app's own is not found
    ///   by its name from another process.
    public init(_ configuration: SanguineClient.Configuration) throws(SanguineError) {
        guard configuration.folder != nil, !configuration.isInMemory else {
            throw .notConfigured("'folder', which the app and its companion share")
        }
        let logger = configuration.logger
        let report: @Sendable (String) -> Void = { reason in
            logger.error("The app's records cannot be read.", metadata: ["reason": "\(reason)"])
        }
        keeper = SyncKeeper(
            environment: SyncEnvironment(
                configuration,
                isCompanion: true,
                turn: turn,
                report: report
            ),
            network: nil,
            epoch: .first
        )
    }

    deinit { close() }

    /// Gives files back.
    ///
    /// May be called more than once.
    public func close() { keeper.close() }

    /// Does what the user did: here at once; the app sends it.
    ///
    /// The operation is on disk when this returns.
    ///
    /// - Throws: As ``SanguineClient/perform(_:)`` does.
    public func perform(_ mutator: some Mutator) throws(SanguineError) {
        _ = try keeper.perform(mutator)
    }

    /// The record with the user's own changes, at once; `nil` if there is none, or none that can be
    /// read as the type.
    public func record<R: Record>(_ type: R.Type = R.self, _ id: RecordID) -> R? {
        keeper.value(RecordKey(R.collection.name, id)).flatMap { keeper.unreadable.record($0, id) }
    }

    /// All records of a type, in the order of their ids.
    public func records<R: Record>(_ type: R.Type = R.self) -> [R] { cached(.all(type)) }

    /// What the query gives of the present records, at once.
    public func cached<Value>(_ query: RecordQuery<Value>) -> Value {
        keeper.reading(query.collections, query.read)
    }

    /// What the query gives now, then every change of it, the app's within a second.
    public func updates<Value>(of query: RecordQuery<Value>) -> AsyncStream<Value> {
        keeper.updates(of: query)
    }

    /// The query as an observable object for a view.
    @MainActor
    public func model<Value>(_ query: RecordQuery<Value>) -> RecordModel<Value> {
        RecordModel(query, keeper: keeper, turn: turn)
    }
}
