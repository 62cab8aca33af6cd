import Foundation
import Logging
public import SanguineModel
import Synchronization

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
    // No mutable state of its own: the reader guards its.
    private let reader: CompanionReader

    /// Opens the records of the app whose folder it is.
    ///
    /// Of the configuration count: `folder`, `schema`, `clock`, `delay`, `random`, `logger` and
    /// `durableWrites`.
    ///
    /// - Throws: ``SanguineError/notConfigured(_:)`` without a folder: the app's own is not found
    ///   by its name from another process.
    public init(_ configuration: SanguineClient.Configuration) throws(SanguineError) {
        guard let folder = configuration.folder, !configuration.isInMemory else {
            throw .notConfigured("'folder', which the app and its companion share")
        }
        reader = CompanionReader(configuration, UserFolders(folder))
    }

    deinit { close() }

    /// Gives files back.
    ///
    /// May be called more than once.
    public func close() { reader.close() }

    /// Does what the user did: here at once; the app sends it.
    ///
    /// The operation is on disk when this returns.
    ///
    /// - Throws: As ``SanguineClient/perform(_:)`` does.
    public func perform(_ mutator: some Mutator) throws(SanguineError) {
        while true {
            let keeper = reader.keeper
            do throws(SanguineError) {
                _ = try keeper.perform(mutator)
                return
            } catch {
                // The app shows another user since: it is theirs.
                guard error == .userChanged, reader.keeper !== keeper else { throw error }
            }
        }
    }

    /// The record with the user's own changes, at once; `nil` if there is none, or none that can be
    /// read as the type.
    public func record<R: Record>(_ type: R.Type = R.self, _ id: RecordID) -> R? {
        let keeper = reader.keeper
        return keeper.value(RecordKey(R.collection.name, id))
            .flatMap { keeper.unreadable.record($0, id) }
    }

    /// All records of a type, in the order of their ids.
    public func records<R: Record>(_ type: R.Type = R.self) -> [R] { cached(.all(type)) }

    /// What the query gives of the present records, at once.
    public func cached<Value>(_ query: RecordQuery<Value>) -> Value {
        reader.keeper.reading(query.collections, query.read)
    }

    /// What the query gives now, then every change of it, the app's within a second.
    public func updates<Value>(of query: RecordQuery<Value>) -> AsyncStream<Value> {
        reader.observers.updates(of: query)
    }

    /// The query as an observable object for a view.
    @MainActor
    public func model<Value>(_ query: RecordQuery<Value>) -> RecordModel<Value> {
        RecordModel(
            query,
            value: cached(query),
            observers: reader.observers,
            turn: reader.turn
        )
    }
}

/// Reads the folder of whomever the app shows, and goes over to the next one's.
///
/// Mutable state: `present`, by its mutex, held over the opening of files alone.
private final class CompanionReader: Sendable {
    let turn: MainTurn
    let observers: RecordObservers
    private let configuration: SanguineClient.Configuration
    private let folders: UserFolders
    private let present: Mutex<(keeper: SyncKeeper, folder: URL)?>
    private let isClosed = Mutex(false)

    init(_ configuration: SanguineClient.Configuration, _ folders: UserFolders) {
        self.configuration = configuration
        self.folders = folders
        turn = MainTurn()
        observers = RecordObservers(turn: turn)
        present = Mutex(nil)
        observers.observe { [weak self] in self?.keeper }
    }

    /// The records of whomever the app shows.
    var keeper: SyncKeeper {
        let isOver = isClosed.withLock { $0 }
        let (keeper, former) = present.withLock { present -> (SyncKeeper, SyncKeeper?) in
            // Read under the lock, so that the last one to read is the last one to open.
            let readable = try? folders.present()
            if let present, readable == nil { return (present.keeper, nil) }
            // Of whom nobody can name there is nothing to read; the next call looks again.
            let place = readable ?? UserFolders.Place(folders: folders, number: 0)
            if let present, isOver || present.folder.path == place.url.path {
                return (present.keeper, nil)
            }
            let fresh = make(place)
            defer { present = (fresh, place.url) }
            return (fresh, present?.keeper)
        }
        if isOver { keeper.end(.closed)() }
        if let former {
            former.end(.userChanged)()
            former.outbox.close()
            observers.userChanged()
        }
        return keeper
    }

    func close() {
        isClosed.withLock { $0 = true }
        observers.close()
        let keeper = present.withLock { $0?.keeper }
        keeper?.end(.closed)()
        keeper?.outbox.close()
    }

    private func make(_ place: UserFolders.Place) -> SyncKeeper {
        let logger = configuration.logger
        var environment = SyncEnvironment(
            configuration,
            folder: place.url,
            isCompanion: true,
            news: OutboxNews(),
            restores: Followers()
        ) { reason in
            logger.error("The app's records cannot be read.", metadata: ["reason": "\(reason)"])
        }
        environment.isMoved = { [weak self] in
            guard let self, !folders.isPresent(place.url) else { return false }
            _ = keeper
            return true
        }
        return SyncKeeper(
            environment: environment,
            outbox: OutboxFile(place, isCompanion: true),
            observers: observers,
            network: nil
        )
    }
}
