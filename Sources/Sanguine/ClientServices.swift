import Foundation
import SanguineModel
import Synchronization

/// The services that outlive users: the network, the device's data, and the observers.
///
/// It includes the table of entries, because they share one memory, and observers continue with the
/// next user. The table's values of a user are that user's ``CacheScope``.
final class ClientServices: Sendable {
    // No mutable state itself: each part guards its own state.
    let configuration: SanguineClient.Configuration
    let metrics: ClientMetrics
    let log: StoreLog
    let exchange: Exchange
    let vault: any IdentityVault
    /// The folders, one for each user; `nil` keeps everything in memory.
    let folders: UserFolders?
    /// The current user, for requests that belong to no user in particular.
    let currentUser = CurrentUserAuthorizer()
    let queries: QueryCache
    let records: RecordObservers
    let outboxNotifier: OutboxNotifier
    let quotaRefusals = EventStreams<QuotaRefusal>()
    let mainActorBatch = MainActorBatch()
    let models: ModelTable
    let events: EventKeeper
    let switches: SwitchBoard
    let images: ImageEngine
    /// The images that all users share.
    let sharedImages: ImageEngine.Scope
    let imageModels = ImageModelTable()
    private let memoryWarnings: MemoryWarnings
    /// The zone of the days, for users who have not set one.
    let zone: TimeZone
    private let ownTransport: URLSessionTransport?

    /// - Throws: ``StoreError`` if not even a store in memory can be made.
    init(_ configuration: SanguineClient.Configuration) throws(StoreError) {
        self.configuration = configuration
        let models = ModelTable(delay: configuration.delay)
        self.models = models
        outboxNotifier = OutboxNotifier {
            guard MainActorBatch.isNow else { return }
            MainActor.assumeIsolated { models.applyNewest([OutboxModel.key, AccountModel.key]) }
        }
        let metrics = ClientMetrics(
            clock: configuration.delay,
            observer: configuration.observer,
            logger: configuration.logger
        )
        self.metrics = metrics
        log = StoreLog(logger: configuration.logger) { metrics.notifyObserver(.storeDegraded) }
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
            authorizer: currentUser
        )
        let store = try Self.deviceStore(configuration, log)
        let registry = QueryRegistry(configuration)
        switches = Self.switchBoard(configuration, store, metrics, registry)
        let cacheScope = CacheScope(
            store: store,
            attempts: ReadAttempts(
                QueryRequest.Backend(call: call, configuration: configuration),
                configuration,
                switches,
                metrics.steps
            ),
            queue: configuration.queue(EntryWriter.label)
        )
        let images = ImageEngine(configuration.images, clock: configuration.clock)
        self.images = images
        sharedImages = images.scope(
            0,
            configuration,
            folder: configuration.storeFolder,
            cacheScope.attempts
        )
        memoryWarnings = MemoryWarnings { [weak images] in images?.trim() }
        zone = StoredZone.zone(configuration.currentTimeZone) ?? .gmt
        queries = QueryCache(
            device: cacheScope,
            clock: configuration.clock,
            zone: zone,
            memoryBytes: configuration.memoryBytes,
            metrics: metrics,
            polling: configuration.polling,
            registry: registry
        )
        records = RecordObservers(mainActorBatch: mainActorBatch)
        events = EventKeeper(configuration: configuration, zone: zone)
        connectEvents()
        queries.entries.setSwitches { [switches] in switches.current.switches }
        switches.onChange { [weak queries, switches] in
            queries?.entries.setSwitches { switches.current.switches }
        }
    }

    private static func deviceStore(
        _ configuration: SanguineClient.Configuration,
        _ log: StoreLog
    ) throws(StoreError) -> ClientStore {
        try ClientStore(
            folder: configuration.storeFolder,
            appVersion: configuration.appVersion,
            log: log
        )
    }

    private static func switchBoard(
        _ configuration: SanguineClient.Configuration,
        _ store: ClientStore,
        _ metrics: ClientMetrics,
        _ registry: QueryRegistry
    ) -> SwitchBoard {
        SwitchBoard(store: store, metrics: metrics, logger: configuration.logger) { switches in
            configuration.unknownNames(in: switches, registry)
        }
    }

    /// The device's part of the cache, which is the same for all users.
    var cacheScope: CacheScope { queries.entries.device }

    /// Ends the device's cache scope, because its files will be removed.
    func endCacheScope() {
        let cacheScope = cacheScope
        cacheScope.writer.end()
        cacheScope.store.close()
        images.removeShared()
        sharedImages.disk.removeAll()
    }

    /// Creates a cache scope that replaces it.
    ///
    /// - Throws: ``StoreError`` if not even a store in memory can be made.
    func freshCacheScope() throws(StoreError) -> CacheScope {
        let store = try Self.deviceStore(configuration, log)
        switches.move(to: store)
        return CacheScope(
            store: store,
            attempts: cacheScope.attempts,
            queue: configuration.queue(EntryWriter.label)
        )
    }

    /// Replaces the current user's values with another user's.
    ///
    /// - Parameters:
    ///   - user: The other user's cache scope.
    ///   - device: The new cache scope of the device. Default: `nil`, which keeps the current one.
    /// - Returns: The work to be done outside of locks: it resumes waiting callers and notifies
    ///   observers.
    func switchUser(to user: CacheScope, device: CacheScope? = nil) -> @Sendable () -> Void {
        queries.switchUser(to: user, device: device)
    }

    /// Updates the models of these keys before it returns, if called on the main actor.
    ///
    /// This way, an animation around a call of `perform` animates its changes.
    func applyNow(_ keys: [QueryKey]) {
        guard MainActorBatch.isNow, !keys.isEmpty else { return }
        MainActor.assumeIsolated { models.applyNewest(keys) }
    }

    /// Updates all models for the current user, before it returns if called on the main actor.
    ///
    /// This way, no model shows the former user after a sign-out has returned.
    func userChanged() {
        guard MainActorBatch.isNow else {
            return mainActorBatch.schedule(
                { [models, imageModels] in
                    models.userChanged()
                    imageModels.userChanged()
                },
                for: mainActorBatch.newOwner()
            )
        }
        MainActor.assumeIsolated {
            models.userChanged()
            imageModels.userChanged()
        }
        records.applyNow()
    }

    /// Updates models of temporary ids with the real ones, in the main actor's next turn.
    func idsReplaced() {
        mainActorBatch.schedule(
            { [models] in models.applyNewest() },
            for: mainActorBatch.newOwner()
        )
    }

    /// Applies the current time zone.
    func setZone(_ zone: TimeZone) {
        queries.entries.zone = zone
        events.zoneIs(zone)
    }

    /// Ends all work.
    func close() {
        queries.close()
        records.close()
        outboxNotifier.finish()
        ownTransport?.close()
        cacheScope.attempts.backend.spool.end()
        images.end(0, .closed)
        sharedImages.disk.end()
        cacheScope.store.close()
    }

    /// Fetches values that events make stale.
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

/// The user at the beginning of a call, for anonymous requests.
///
/// Mutable state: `user`, protected by its mutex.
final class CurrentUserAuthorizer: Authorizer {
    private let user = Mutex<(any Authorizer)?>(nil)

    /// Sets the current user.
    func set(_ user: any Authorizer) { self.user.withLock { $0 = user } }

    func bound() -> any Authorizer { user.withLock { $0 } ?? self }

    var account: Identifier? { user.withLock { $0 }?.account }

    var owner: AccountKey? { user.withLock { $0 }?.owner }

    var maySignIn: Bool { user.withLock { $0 }?.maySignIn ?? true }

    var needsSignIn: Bool { user.withLock { $0 }?.needsSignIn ?? false }

    func allowSignIn() { user.withLock { $0 }?.allowSignIn() }

    func accessToken() async throws(SanguineError) -> String {
        guard let user = user.withLock({ $0 }) else { throw .closed }
        return try await user.accessToken()
    }

    func rejected(_ token: String) async throws(SanguineError) -> String {
        guard let user = user.withLock({ $0 }) else { throw .closed }
        return try await user.rejected(token)
    }

    // Anonymous requests are sent whether or not a user is signed in.
    func check() throws(SanguineError) {}

    func end(_ reason: SanguineError) -> Ended { Ended() }
}

extension SanguineClient.Configuration {
    /// The polling intervals of observed queries whose policies set none.
    fileprivate var polling: [QueryKey: Duration] {
        balancePolling.map { [ValueQuery<Balance>.balance.key: $0] } ?? [:]
    }
}

extension SanguineClient.Configuration {
    /// Returns the names of mutations that are not registered and, if the app declares its queries
    /// or functions, of those that are neither declared nor in use.
    ///
    /// A switch of such a query or function takes effect if it is used later.
    fileprivate func unknownNames(in switches: Switches, _ registry: QueryRegistry) -> [String] {
        let own = Set(mutations.map { $0.name })
        let names = switches.mutations.keys.filter { name in
            !own.contains(name) && schema.mutation(name) == nil
        }
        let used = Set(registry.matrix().rows.map(\.name))
        let unused = [
            queries.isEmpty ? [] : Array(switches.queries.keys),
            functions.isEmpty ? [] : Array(switches.functions.keys),
        ]
        return names.sorted() + unused.flatMap { $0.filter { !used.contains($0) }.sorted() }
    }
}

extension Policy {
    /// Whether values become stale when the user's day ends.
    var followsDays: Bool { freshness == .untilMidnight || refetchEvents.contains(.midnight) }
}
