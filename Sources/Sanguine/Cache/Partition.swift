import SanguineModel

/// A part of the cache with files of its own: what outlives users, or one user's.
///
/// A user who leaves takes theirs along: what is under way for it ends, and what comes late finds
/// that the entry is another partition's by now.
final class Partition: Sendable {
    let store: ClientStore
    let writer: EntryWriter
    /// Fetches in the name of the user, or of whoever is there.
    let attempts: ReadAttempts
    /// What brings values that no app's closure brings, by their keys.
    let sources: [QueryKey: any EntrySource]

    init(
        store: ClientStore,
        attempts: ReadAttempts,
        sources: [any EntrySource] = [],
        queue: any SerialQueue
    ) {
        self.store = store
        self.attempts = attempts
        self.sources = Dictionary(sources.map { ($0.query.key, $0) }) { first, _ in first }
        writer = EntryWriter(store: store, delay: attempts.delay, queue: queue)
    }

    /// What the simulation has planted; `nil` in an app.
    var fault: PlantedFault? { attempts.backend.fault }

    /// Whether somebody is known in whose name to fetch what is observed.
    var isSomebodys: Bool { attempts.backend.call.authorizer.owner != nil }

    /// Allows a fetch to sign the user in: the app asks for a value, and does not only observe.
    func allowSignIn() { attempts.backend.call.authorizer.allowSignIn() }
}

/// Where an entry's value comes from, if not from an app's closure alone.
protocol EntrySource: Sendable {
    /// The entry's query.
    var query: ErasedQuery { get }

    /// What there is now; called under no lock of the cache.
    func present() -> SourcedValue

    /// Applies changes that only time has made, before the value is read; under no lock of the
    /// cache.
    func comeDue()

    /// Brings what is newer, with as many attempts as it takes.
    func fetch(_ request: QueryRequest) async throws(SanguineError)
}

extension EntrySource {
    /// Time alone changes nothing.
    func comeDue() {}

    /// What there is after a fetch.
    func fetched(by request: QueryRequest) async -> Result<ValueBox, SanguineError> {
        do throws(SanguineError) {
            try await fetch(request)
        } catch {
            return .failure(Task.isCancelled ? .cancelled : error)
        }
        return present().box.map { .success($0) } ?? .failure(.balanceUnsettled)
    }
}

/// What a source has at one moment.
struct SourcedValue: Sendable {
    /// Rises with each change.
    var revision: UInt64
    var box: ValueBox?
    /// When the base of it arrived.
    var asOf: Timestamp?
    /// Whether only a fetch can bring the base up to date.
    var isOutdated = false
}
