import Foundation
import Logging
import OrderedCollections
import SanguineModel
import Synchronization

/// Mutations put to work: takes them in, has the cache show them, sends them, and settles them.
///
/// ``OutboxState`` decides what is sent when, the cache what is shown; this performs it.
///
/// Invariants:
///
/// 1. A mutation is durable before it is visible, visible before it is sent, and marked as sent
///    before it leaves.
/// 2. What was sent in an epoch is answered in that epoch alone.
/// 3. The cache knows that a mutation was sent before it leaves, and that it is done before
///    anything is fetched for it.
///
/// Mutable state: `guarded`, by its mutex, never held over `await`, over the cache or over code of
/// the app. The outbox may be written under it.
final class MutationKeeper: Sendable {
    struct Guarded {
        var epoch: SessionEpoch
        var owner: String
        var state = MutationKeeper.freshState
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
        var isClosed = false
    }

    let guarded: Mutex<Guarded>
    let followers = Followers<Outbox.Summary>()
    let queries: QueryCache
    let outbox: OutboxFile
    let configuration: SanguineClient.Configuration
    let types: [String: any Mutation.Type]
    let registry: PagesRegistry

    init(
        configuration: SanguineClient.Configuration,
        queries: QueryCache,
        registry: PagesRegistry,
        outbox: OutboxFile,
        epoch: SessionEpoch
    ) {
        self.configuration = configuration
        self.queries = queries
        self.registry = registry
        self.outbox = outbox
        types = Dictionary(configuration.mutations.map { ($0.name, $0) }) { first, _ in first }
        guarded = Mutex(Guarded(epoch: epoch, owner: epoch.owner))
    }

    static var freshState: OutboxState {
        OutboxState(
            limit: RecordLimits.operations,
            batch: 1,
            parallel: RecordLimits.mutationFlights
        )
    }

    var clock: any WallClock { configuration.clock }

    // MARK: - Life

    /// Goes on with what an earlier process left.
    func start() {
        guard !types.isEmpty || outbox.isThere else { return }
        queries.onSettled { [weak self] in self?.settled($0) }
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
    func close() {
        let (tasks, receipts) = guarded.withLock { guarded in
            guarded.isClosed = true
            guarded.followings = []
            return guarded.takeRuns()
        }
        followers.finish()
        for task in tasks { task.cancel() }
        for receipt in receipts { receipt.resolve(.failure(.closed)) }
    }

    /// Begins an epoch, after the cache has: of another user nothing is sent, nor shown.
    ///
    /// What was not sent stays on disk for its owner's return. An epoch that is there already
    /// changes nothing but what waited for its account or its token.
    func adopt(_ epoch: SessionEpoch) {
        var hasJoined = false
        let hasBegun = guarded.withLock { guarded -> ([Task<Void, Never>], [Shot])? in
            guard !guarded.isClosed, epoch.number >= guarded.epoch.number else { return nil }
            guard epoch.number > guarded.epoch.number else {
                hasJoined = guarded.epoch.account == nil && epoch.account != nil
                goOn(as: epoch, &guarded)
                return nil
            }
            strand(before: epoch, guarded)
            let ended = guarded.takeRuns()
            guarded.epoch = epoch
            guarded.owner = epoch.owner
            guarded.state = Self.freshState
            guarded.rows = [:]
            guarded.mutations = [:]
            guarded.replaced = [:]
            guarded.failures = [:]
            guarded.reserved = 0
            guarded.isLoaded = false
            return ended
        }
        if let (tasks, receipts) = hasBegun {
            for task in tasks { task.cancel() }
            for receipt in receipts { receipt.resolve(.failure(.userChanged)) }
            load()
        } else if hasJoined {
            loadMore()
        }
        signalsChanged()
    }

    typealias Shot = OneShot<Receipt.Outcome>

    private func goOn(as epoch: SessionEpoch, _ guarded: inout Guarded) {
        guarded.state.set(.signIn, false)
        guard guarded.epoch.account == nil, epoch.account != nil else { return }
        guarded.epoch = epoch
        guarded.owner = epoch.owner
        do { try outbox.takeOver(by: epoch.owner) } catch { report(error) }
    }

    /// What nobody did is no other user's.
    ///
    /// With a Sanguine server a guest who signs out stays this device's guest.
    private func strand(before epoch: SessionEpoch, _ guarded: borrowing Guarded) {
        guard guarded.isLoaded, guarded.owner == OutboxFile.nobody else { return }
        guard epoch.account != nil || configuration.server == nil else { return }
        do { try outbox.strand() } catch { report(error) }
    }

    // MARK: - Loading

    /// Reads the present owner's operations, and shows them.
    private func load() {
        let (epoch, owner, isNeeded) = guarded.withLock { guarded in
            defer { guarded.isLoaded = true }
            return (guarded.epoch, guarded.owner, !guarded.isLoaded && !guarded.isClosed)
        }
        guard isNeeded else { return }
        do {
            for row in try outbox.rows(of: owner, .mutation) { take(row, epoch) }
        } catch {
            guarded.withLock { $0.isLoaded = false }
            report(error)
        }
        refetchSettling()
        tellOutbox()
    }

    /// What an earlier stay of the same user has left.
    func loadMore() {
        let (epoch, owner, known) = guarded.withLock { ($0.epoch, $0.owner, $0.rows) }
        do {
            for row in try outbox.rows(of: owner, .mutation) where known[row.sequence] == nil {
                take(row, epoch)
            }
        } catch {
            report(error)
        }
        tellOutbox()
    }

    private func take(_ row: OutboxFile.Row, _ epoch: SessionEpoch) {
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
            queries.setEffects(effects, of: row.sequence, epoch: epoch.number)
        }
        guarded.withLock { guarded in
            guard guarded.epoch.number == epoch.number else { return }
            guarded.rows[row.sequence] = row
            guarded.mutations[row.sequence] = mutation
            guarded.state.add(item)
        }
    }

    /// Makes sure that all that is on disk is known.
    func open() throws(SanguineError) {
        if !guarded.withLock({ $0.isLoaded }) { load() }
        let (isLoaded, isClosed) = guarded.withLock { ($0.isLoaded, $0.isClosed) }
        if isClosed { throw .closed }
        if !isLoaded { throw .store(.readFailed("the outbox")) }
    }

    func mutation(of row: OutboxFile.Row) -> (any Mutation)? {
        guard let type = types[row.name] else { return nil }
        return try? JSONDecoder().decode(type, from: row.arguments)
    }

    func effects(of mutation: any Mutation, _ sequence: Int64) -> [Effect] {
        var view = MutationEffects(registry: registry, cache: queries)
        mutation.effects(on: &view)
        return view.effects(of: sequence)
    }

    func report(_ error: any Error) {
        configuration.logger.error("The outbox failed.", metadata: ["reason": "\(error)"])
        queries.store.report(failure: "\(error)")
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
