import Foundation
import SanguineModel
import Synchronization

/// What outlives users: the ways to the network, what the device keeps, and who observes.
///
/// The table of entries is here, too: they share one memory, and whoever observes goes on with the
/// next user. What the table holds of a user is that user's ``Partition``.
final class Device: Sendable {
    // No mutable state of its own: each part guards its own.
    let configuration: SanguineClient.Configuration
    let metrics: ClientMetrics
    let log: StoreLog
    let exchange: Exchange
    let vault: any IdentityVault
    /// One folder for each user; `nil` keeps everything in memory.
    let folders: UserFolders?
    /// Who is there, for requests that are nobody's.
    let present = PresentUser()
    let queries: QueryCache
    let records: RecordObservers
    let outboxNews: OutboxNews
    let turn = MainTurn()
    let models: ModelTable
    let events: EventKeeper
    /// The zone of the days of a user who has set none.
    let zone: TimeZone
    private let ownTransport: URLSessionTransport?

    /// - Throws: ``StoreError`` if not even a store in memory can be made.
    init(_ configuration: SanguineClient.Configuration) throws(StoreError) {
        self.configuration = configuration
        let models = ModelTable(delay: configuration.delay)
        self.models = models
        outboxNews = OutboxNews {
            guard MainTurn.isNow else { return }
            MainActor.assumeIsolated { models.applyNewest([OutboxModel.key]) }
        }
        let metrics = ClientMetrics(
            clock: configuration.delay,
            observer: configuration.observer,
            logger: configuration.logger
        )
        self.metrics = metrics
        log = StoreLog(logger: configuration.logger) { metrics.note(.storeDegraded) }
        let ownTransport =
            configuration.transport == nil ? URLSessionTransport(clock: configuration.delay) : nil
        self.ownTransport = ownTransport
        exchange = Exchange(
            transport: configuration.transport ?? ownTransport ?? URLSessionTransport(),
            clock: configuration.clock
        )
        vault = configuration.identityVault(reportingTo: log)
        folders = configuration.storeFolder.map { UserFolders($0) }
        let call = ServerCall(
            server: configuration.server,
            exchange: exchange,
            authorizer: present
        )
        let partition = Partition(
            store: try ClientStore(
                folder: configuration.storeFolder,
                appVersion: configuration.appVersion,
                log: log
            ),
            attempts: ReadAttempts(
                QueryRequest.Backend(call: call, configuration: configuration),
                configuration
            ),
            queue: configuration.queue(EntryWriter.label)
        )
        zone = StoredZone.zone(configuration.timeZone) ?? .gmt
        queries = QueryCache(
            device: partition,
            clock: configuration.clock,
            zone: zone,
            memoryBytes: configuration.memoryBytes,
            metrics: metrics,
            polling: configuration.polling,
            registry: QueryRegistry(declared: configuration.declaredQueries)
        )
        records = RecordObservers(turn: turn)
        events = EventKeeper(configuration: configuration, zone: zone)
        connectEvents()
    }

    /// What the device keeps, whoever is there.
    var partition: Partition { queries.entries.device }

    /// Ends the device's partition: its files are about to be removed.
    func endPartition() {
        let partition = partition
        partition.writer.end()
        partition.store.close()
    }

    /// A partition to take its place.
    ///
    /// - Throws: ``StoreError`` if not even a store in memory can be made.
    func freshPartition() throws(StoreError) -> Partition {
        Partition(
            store: try ClientStore(
                folder: configuration.storeFolder,
                appVersion: configuration.appVersion,
                log: log
            ),
            attempts: partition.attempts,
            queue: configuration.queue(EntryWriter.label)
        )
    }

    /// Puts another user's values in the place of the present one's.
    ///
    /// - Parameters:
    ///   - user: The other user's.
    ///   - device: What takes the place of the device's partition. Default: that stays.
    /// - Returns: What is to be done under no lock: who waited is answered, who observes is told.
    func change(to user: Partition, device: Partition? = nil) -> @Sendable () -> Void {
        queries.change(to: user, device: device)
    }

    /// Has the models of those keys follow before this returns, if the main actor calls.
    ///
    /// So that an animation around a call of `perform` animates what it changes.
    func applyNow(_ keys: [QueryKey]) {
        guard MainTurn.isNow, !keys.isEmpty else { return }
        MainActor.assumeIsolated { models.applyNewest(keys) }
    }

    /// Has all models follow the present user, before this returns if the main actor calls.
    ///
    /// So that nobody who comes back from a sign-out finds the former user in a model.
    func userChanged() {
        guard MainTurn.isNow else {
            return turn.schedule({ [models] in models.userChanged() }, for: turn.newOwner())
        }
        MainActor.assumeIsolated { models.userChanged() }
        records.applyNow()
    }

    /// Has models of temporary ids go on with the real ones, in the main actor's next turn.
    func idsReplaced() {
        turn.schedule({ [models] in models.applyNewest() }, for: turn.newOwner())
    }

    /// Has the zone that counts now kept to.
    func setZone(_ zone: TimeZone) {
        queries.entries.zone = zone
        events.zoneIs(zone)
    }

    /// Ends all that is under way.
    func close() {
        queries.close()
        records.close()
        outboxNews.finish()
        ownTransport?.close()
        partition.attempts.backend.spool.end()
        partition.store.close()
    }

    /// Fetches again what events make stale.
    private func connectEvents() {
        events.start { [weak queries] actions in
            if !actions.events.isEmpty {
                queries?.sweep()
                queries?.invalidate(event: actions.events)
            }
            for polled in actions.polls { queries?.refetch(polled) }
        }
        queries.entries.observation.onFollowed { [weak events] key, policy, isObserved in
            let (polling, followsDays) = (policy.polling, policy.followsDays)
            guard polling != nil || followsDays else { return }
            if isObserved {
                events?.observed(key, polling: polling, followsDays: followsDays)
            } else {
                events?.unobserved(key, polling: polling, followsDays: followsDays)
            }
        }
    }
}

/// Whoever is there when a call begins: for what is asked for in nobody's name.
///
/// Mutable state: `user`, by its mutex.
final class PresentUser: Authorizer {
    private let user = Mutex<(any Authorizer)?>(nil)

    /// That user is there now.
    func set(_ user: any Authorizer) { self.user.withLock { $0 = user } }

    func bound() -> any Authorizer { user.withLock { $0 } ?? self }

    var account: Identifier? { user.withLock { $0 }?.account }

    var owner: Owner? { user.withLock { $0 }?.owner }

    var maySignIn: Bool { user.withLock { $0 }?.maySignIn ?? true }

    func allowSignIn() { user.withLock { $0 }?.allowSignIn() }

    func accessToken() async throws(SanguineError) -> String {
        guard let user = user.withLock({ $0 }) else { throw .closed }
        return try await user.accessToken()
    }

    func rejected(_ token: String) async throws(SanguineError) -> String {
        guard let user = user.withLock({ $0 }) else { throw .closed }
        return try await user.rejected(token)
    }

    // What is asked for in nobody's name may go out whoever is there.
    func check() throws(SanguineError) {}

    func end(_ reason: SanguineError) -> Ended { Ended() }
}

extension SanguineClient.Configuration {
    /// How often what is observed is fetched, if its policy says nothing of it.
    fileprivate var polling: [QueryKey: Duration] {
        balancePolling.map { [ValueQuery<Balance>.balance.key: $0] } ?? [:]
    }
}

extension Policy {
    /// Whether values cease to be fresh when the user's day ends.
    var followsDays: Bool { freshness == .untilMidnight || refetchEvents.contains(.midnight) }
}
