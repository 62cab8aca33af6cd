import Foundation
import Logging
import OrderedCollections
import SanguineModel
import Synchronization

/// One user's mutations put to work: takes them in, has the cache show them, sends them, and
/// settles them.
///
/// ``OutboxState`` decides what is sent when, the cache what is shown; this performs it.
///
/// Invariants:
///
/// 1. A mutation is durable before it is visible, visible before it is sent, and marked as sent
///    before it leaves.
/// 2. After ``end(_:)`` nothing is taken in, shown, sent or written.
/// 3. The cache knows that a mutation was sent before it leaves, and that it is done before
///    anything is fetched for it.
///
/// Mutable state: `guarded`, by its mutex, never held over `await`, over the cache or over code of
/// the app. The outbox may be written under it.
final class MutationKeeper: Sendable {
    struct Guarded {
        var state = OutboxState(
            limit: RecordLimits.operations,
            batch: 1,
            parallel: RecordLimits.mutationFlights
        )
        var rows: [Int64: OutboxFile.Row] = [:]
        var mutations: [Int64: any Mutation] = [:]
        var receipts: [Int64: OneShot<Receipt.Outcome>] = [:]
        /// Those that are on disk, and on their way to being shown.
        var reserved = 0
        var flights: [UInt64: Task<Void, Never>] = [:]
        /// Waits for the next try of a lane.
        var waking: [String: Task<Void, Never>] = [:]
        /// Fetches of what was done, under way and waiting for their next try.
        var settling: [UInt64: Task<Void, Never>] = [:]
        var waitingToSettle: [UInt64: Task<Void, Never>] = [:]
        /// How often what an operation has changed was fetched without showing that.
        var settlingTries: [Int64: Int] = [:]
        var runs: UInt64 = 0
        /// Which ids stand for temporary ones that somebody may still name.
        var replaced: OrderedDictionary<String, String> = [:]
        /// What the last sending of each that waits has failed with.
        var failures: [Int64: SanguineError] = [:]
        var followings: [SignalFollowing] = []
        var isLoaded = false
        /// Why nothing is done any more.
        var ending: SanguineError?
        /// Is told which values an operation that was just performed has changed.
        var shown: (@Sendable ([QueryKey]) -> Void)?
    }

    let guarded: Mutex<Guarded>
    let news: OutboxNews
    let queries: QueryCache
    /// The user's part of the cache.
    let user: Partition
    let outbox: OutboxFile
    let configuration: SanguineClient.Configuration
    let types: [String: any Mutation.Type]

    init(
        configuration: SanguineClient.Configuration,
        queries: QueryCache,
        user: Partition,
        outbox: OutboxFile,
        news: OutboxNews
    ) {
        self.configuration = configuration
        self.queries = queries
        self.user = user
        self.outbox = outbox
        self.news = news
        types = Dictionary(configuration.mutations.map { ($0.name, $0) }) { first, _ in first }
        guarded = Mutex(Guarded())
    }

    var clock: any WallClock { configuration.clock }

    // MARK: - Life

    /// Has the hook told which values an operation has changed, on the thread that performed it.
    func onShown(_ hook: @escaping @Sendable ([QueryKey]) -> Void) {
        guarded.withLock { $0.shown = hook }
    }

    /// Goes on with what an earlier process left.
    func start() {
        guard !types.isEmpty || outbox.isThere else { return }
        let (lifecycle, connectivity) = (configuration.lifecycle, configuration.connectivity)
        guarded.withLock { guarded in
            guarded.followings = [
                lifecycle.isForeground.follow { [weak self] in self?.signalsChanged() },
                connectivity.isOnline.follow { [weak self] in self?.signalsChanged() },
            ]
        }
        load()
        signalsChanged()
    }

    /// Ends all that is under way; operations stay on disk.
    ///
    /// - Returns: What tells those who wait.
    func end(_ reason: SanguineError) -> @Sendable () -> Void {
        let (tasks, receipts) = guarded.withLock { guarded in
            guarded.ending = guarded.ending ?? reason
            guarded.followings = []
            return guarded.takeRuns()
        }
        for task in tasks { task.cancel() }
        return { for receipt in receipts { receipt.resolve(.failure(reason)) } }
    }

    /// There is a token again, or operations of an earlier stay have come.
    func signedIn() {
        guarded.withLock { $0.state.set(.signIn, false) }
        loadMore()
        signalsChanged()
    }

    typealias Shot = OneShot<Receipt.Outcome>

    // MARK: - Loading

    /// Reads the user's operations, and shows them.
    private func load() {
        let isNeeded = guarded.withLock { guarded in
            defer { guarded.isLoaded = true }
            return !guarded.isLoaded && guarded.ending == nil
        }
        guard isNeeded else { return }
        do {
            for row in try outbox.rows(.mutation) { take(row) }
        } catch {
            guarded.withLock { $0.isLoaded = false }
            report(error)
        }
        refetchSettling()
        news.changed()
    }

    /// What an earlier stay of the same user has left.
    private func loadMore() {
        let (isLoaded, known) = guarded.withLock { ($0.isLoaded, $0.rows) }
        guard isLoaded else { return }
        do {
            for row in try outbox.rows(.mutation) where known[row.sequence] == nil { take(row) }
        } catch {
            report(error)
        }
        news.changed()
    }

    private func take(_ row: OutboxFile.Row) {
        let mutation = mutation(of: row)
        var item = OutboxState.Item(
            id: row.id,
            sequence: row.sequence,
            lane: row.lane,
            phase: row.phase
        )
        item.mayBeDone = row.mayBeDone
        if mutation == nil, !item.isRefused {
            // On disk it waits for a version of the app that knows it.
            item.phase = .refused(.unknownMutation)
        }
        if let mutation, !item.isRefused {
            var effects = effects(of: mutation, row.sequence)
            for place in effects.indices {
                if row.mayBeDone { effects[place].sentAt = 0 }
                if case .acknowledged = row.phase { effects[place].acknowledgedAt = 0 }
            }
            queries.setEffects(effects, of: row.sequence, for: user)
        }
        guarded.withLock { guarded in
            guard guarded.ending == nil else { return }
            guarded.rows[row.sequence] = row
            guarded.mutations[row.sequence] = mutation
            guarded.state.add(item)
        }
    }

    /// Makes sure that all that is on disk is known.
    func open() throws(SanguineError) {
        if !guarded.withLock({ $0.isLoaded }) { load() }
        let (isLoaded, ending) = guarded.withLock { ($0.isLoaded, $0.ending) }
        if let ending { throw ending }
        if !isLoaded { throw .store(.readFailed("the outbox")) }
    }

    func mutation(of row: OutboxFile.Row) -> (any Mutation)? {
        guard let type = types[row.name] else { return nil }
        return try? JSONDecoder().decode(type, from: row.arguments)
    }

    func effects(of mutation: any Mutation, _ sequence: Int64) -> [Effect] {
        var view = MutationEffects(cache: queries)
        mutation.effects(on: &view)
        return view.effects(of: sequence)
    }

    func report(_ error: any Error) {
        guard guarded.withLock({ $0.ending }) == nil else { return }
        user.store.log.failure("\(error)", "The outbox failed.")
    }

    // MARK: - Signals

    private func signalsChanged() {
        // Read under the lock, so that the last one to read is the last one to write.
        let isOnline = guarded.withLock { guarded in
            let isOnline = configuration.connectivity.isOnline.value
            guarded.state.set(.offline, !isOnline)
            return isOnline
        }
        wake()
        if isOnline { refetchSettling() }
    }
}

extension MutationKeeper.Guarded {
    fileprivate mutating func takeRuns() -> ([Task<Void, Never>], [MutationKeeper.Shot]) {
        defer {
            (flights, waking, settling, waitingToSettle) = ([:], [:], [:], [:])
            (receipts, settlingTries) = ([:], [:])
        }
        let tasks = [flights.values, settling.values, waitingToSettle.values].flatMap { $0 }
        return (tasks + waking.values, Array(receipts.values))
    }
}

extension Problem {
    static let unknownMutation = Problem(
        .mutatorUnknown,
        "Name the mutation in the configuration, as it was when it was performed."
    )
}
