import Foundation
import Logging
public import SanguineModel
import Synchronization

/// Access to an app's records from a second process: a widget, a share extension, an intent.
///
/// ```swift
/// var configuration = SanguineClient.Configuration()
/// configuration.folder = sharedFolder  // of the app group, the same as the app's
/// configuration.schema = .app
/// let companion = try SanguineCompanion(configuration)
/// try companion.perform(CompleteHabit(habit: id, day: today))
/// ```
///
/// It reads the app's records and enqueues operations. The app sees them within a second while it
/// shows records, and sends them. The companion itself never sends or fetches anything, and holds
/// no session.
public final class SanguineCompanion: Sendable {
    // No mutable state itself: the reader guards its own state.
    private let reader: CompanionReader

    /// Opens the records of the app that uses the folder.
    ///
    /// Uses these properties of the configuration: `folder`, `schema`, `clock`, `delay`, `random`,
    /// `logger` and `durableWrites`.
    ///
    /// - Throws: ``SanguineError/notConfigured(_:)`` without a folder: another process cannot find
    ///   the app's own folder by its name.
    public init(_ configuration: SanguineClient.Configuration) throws(SanguineError) {
        guard let folder = configuration.folder, !configuration.isInMemory else {
            throw .notConfigured("'folder', which the app and its companion share")
        }
        reader = CompanionReader(configuration, UserFolders(folder))
    }

    deinit { close() }

    /// Closes the files.
    ///
    /// May be called more than once.
    public func close() { reader.close() }

    /// Performs a mutation: it applies here at once, and the app sends it.
    ///
    /// The operation is on disk when this returns.
    ///
    /// - Throws: The errors of ``SanguineClient/perform(_:)-(RecordMutation)``.
    public func perform(_ mutation: some RecordMutation) throws(SanguineError) {
        while true {
            let user = reader.user
            do throws(SanguineError) {
                _ = try user.recordMutations.perform(mutation)
                return
            } catch {
                // The app has switched to another user in the meantime: the mutation is theirs.
                guard error == .userChanged, reader.user.records !== user.records else {
                    throw error
                }
            }
        }
    }

    /// Returns the record with the user's own changes, at once; `nil` if there is none, or if it
    /// cannot be decoded as the type.
    public func record<R: SyncedRecord>(_ type: R.Type = R.self, _ id: RecordID) -> R? {
        let records = reader.user.records
        return records.value(RecordKey(R.collection.name, id))
            .flatMap { records.unreadable.record($0, id) }
    }

    /// Returns all records of a type, ordered by id.
    public func records<R: SyncedRecord>(_ type: R.Type = R.self) -> [R] { cached(.all(type)) }

    /// Returns the query's result for the current records, at once.
    public func cached<Value>(_ query: RecordQuery<Value>) -> Value {
        reader.user.records.reading(query.collections, query.read)
    }

    /// Returns the query's current result followed by every change, the app's within a second.
    public func updates<Value>(of query: RecordQuery<Value>) -> AsyncStream<Value> {
        reader.observers.updates(of: query)
    }
}

/// The app's current user: their records and operations.
private struct CompanionUser: Sendable {
    let outbox: OutboxEngine
    let records: UserRecords
    let recordMutations: RecordMutationDriver
    let folder: URL

    func end(_ reason: SanguineError) {
        let (tell, file) = outbox.end(reason)
        records.close(file)
        tell()
        outbox.file.close()
    }
}

/// Reads the folder of the app's current user, and follows the app to the next user.
///
/// Mutable state: `current`, protected by its mutex, which is held only while files are opened.
private final class CompanionReader: Sendable {
    let observers: RecordObservers
    private let configuration: SanguineClient.Configuration
    private let folders: UserFolders
    private let current: Mutex<CompanionUser?>
    private let isClosed = Mutex(false)

    init(_ configuration: SanguineClient.Configuration, _ folders: UserFolders) {
        self.configuration = configuration
        self.folders = folders
        observers = RecordObservers(mainActorBatch: MainActorBatch())
        current = Mutex(nil)
        observers.observe { [weak self] in self?.user.records }
    }

    /// The app's current user.
    var user: CompanionUser {
        let isOver = isClosed.withLock { $0 }
        let (user, former) = current.withLock { current -> (CompanionUser, CompanionUser?) in
            // Read under the lock, so that the last thread to read is the last to open.
            let readable = try? folders.current()
            if let current, readable == nil { return (current, nil) }
            // Without a readable name there is nothing to read; the next call looks again.
            let folder = readable ?? UserFolders.Folder(folders: folders, number: 0)
            if let current, isOver || current.folder.path == folder.url.path {
                return (current, nil)
            }
            let fresh = make(folder)
            defer { current = fresh }
            return (fresh, current)
        }
        if isOver { user.end(.closed) }
        if let former {
            former.end(.userChanged)
            observers.userChanged()
        }
        return user
    }

    func close() {
        isClosed.withLock { $0 = true }
        observers.close()
        current.withLock { $0 }?.end(.closed)
    }

    private func make(_ place: UserFolders.Folder) -> CompanionUser {
        let environment = OutboxEnvironment(
            configuration,
            folder: place.url,
            isCompanion: true,
            notifier: OutboxNotifier()
        ) { [logger = configuration.logger] reason, _ in
            logger.error(
                "The app's files could not be read or written.",
                metadata: ["reason": "\(reason)"]
            )
        }
        let outbox = OutboxEngine(environment, OutboxFile(place, isCompanion: true))
        let isMoved: @Sendable () -> Bool = { [weak self] in
            guard let self, !folders.isCurrent(place.url) else { return false }
            _ = user
            return true
        }
        let records = UserRecords(outbox, observers: observers, isMoved: isMoved)
        let recordMutations = RecordMutationDriver(records, nil)
        outbox.drive([.record: recordMutations])
        return CompanionUser(
            outbox: outbox,
            records: records,
            recordMutations: recordMutations,
            folder: place.url
        )
    }
}
