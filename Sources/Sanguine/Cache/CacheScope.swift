import SanguineModel

/// A part of the cache with its own files: the data that outlives users, or one user's data.
///
/// A user who signs out takes their cache scope along: its fetches end, and a late response finds
/// that the entry now belongs to another cache scope.
final class CacheScope: Sendable {
    let store: ClientStore
    let writer: EntryWriter
    /// Fetches on behalf of the current user, if any.
    let attempts: ReadAttempts
    /// The sources of values that no closure of the app fetches, by key.
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

    /// The fault that a simulation has planted; `nil` in an app.
    var fault: PlantedFault? { attempts.backend.fault }

    /// Whether the user of the fetches is known.
    var hasUser: Bool { attempts.backend.call.authorizer.owner != nil }

    /// Allows a fetch to sign the user in, because the app requests a value and does not only
    /// observe one.
    func allowSignIn() { attempts.backend.call.authorizer.allowSignIn() }
}

/// The source of an entry's value, if it is more than a closure of the app.
protocol EntrySource: Sendable {
    /// The entry's query.
    var query: ErasedQuery { get }

    /// Returns the current value; called without holding a lock of the cache.
    func currentValue() -> SourcedValue

    /// Applies changes that only depend on time, before the value is read; called without holding a
    /// lock of the cache.
    func applyDueChanges()

    /// Fetches a newer value, with retries.
    func fetch(_ request: QueryRequest) async throws(SanguineError)
}

extension EntrySource {
    /// Does nothing: the value does not depend on time.
    func applyDueChanges() {}

    /// Returns the value after a fetch.
    func fetched(by request: QueryRequest) async -> Result<ValueBox, SanguineError> {
        do throws(SanguineError) {
            try await fetch(request)
        } catch {
            return .failure(Task.isCancelled ? .cancelled : error)
        }
        return currentValue().box.map { .success($0) } ?? .failure(.balanceUnsettled)
    }
}

/// The value of a source at one moment.
struct SourcedValue: Sendable {
    /// Increases with each change.
    var revision: UInt64
    var box: ValueBox?
    /// The time at which the value's base arrived.
    var asOf: Timestamp?
    /// Whether the base can only be brought up to date by a fetch.
    var isOutdated = false
}
