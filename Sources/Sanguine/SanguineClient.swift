import Foundation
import SanguineModel

/// An app's data: reads that are there at once, writes that are visible at once.
///
/// ```swift
/// let client = try SanguineClient(.init(server: url))
///
/// let balance = client.cached(.balance)
/// let profile = try await client.value(of: .profile("42"))
/// ```
///
/// Create one for the whole app and keep it. It restores its state when it is created. It may be
/// used from any thread.
public final class SanguineClient: Sendable {
    // No mutable state of its own: each part guards its own.
    let configuration: Configuration
    /// What the client measures of itself.
    public let metrics: ClientMetrics
    let store: ClientStore
    let exchange: Exchange
    let call: ServerCall
    let derived: DerivedQueries
    let queries: QueryCache
    let pages = PagesRegistry()
    let ranges: RangeKeepers
    let session: SessionKeeper
    let balance: BalanceKeeper
    let functions: FunctionCaller
    let sync: SyncKeeper
    let mutations: MutationKeeper
    let turn = MainTurn()
    let models = ModelTable()
    let zone: StoredZone
    let events: EventKeeper
    private let ownTransport: URLSessionTransport?

    /// Creates a client and restores its state.
    ///
    /// A disk that cannot be used is no error: the client then works in memory and says so in
    /// ``storeReport``.
    ///
    /// - Throws: ``SanguineError/store(_:)`` if not even a store in memory can be made.
    public convenience init(_ configuration: Configuration) throws(SanguineError) {
        try self.init(configuration, authorizer: nil)
    }

    /// Creates a client whose user is proven by something else than its own session, as in tests.
    init(_ configuration: Configuration, authorizer: (any Authorizer)?) throws(SanguineError) {
        self.configuration = configuration
        let metrics = ClientMetrics(
            clock: configuration.delay,
            observer: configuration.observer,
            logger: configuration.logger
        )
        self.metrics = metrics
        store = try Self.store(configuration, metrics)
        let ownTransport =
            configuration.transport == nil ? URLSessionTransport(clock: configuration.delay) : nil
        self.ownTransport = ownTransport
        exchange = Exchange(
            transport: configuration.transport ?? ownTransport ?? URLSessionTransport(),
            clock: configuration.clock
        )
        session = SessionKeeper(
            configuration: configuration,
            exchange: exchange,
            store: store,
            vault: configuration.identityVault(reportingTo: store)
        )
        let authorizer = authorizer ?? session
        call = ServerCall(server: configuration.server, exchange: exchange, authorizer: authorizer)
        let epoch = authorizer.epoch
        zone = StoredZone(default: configuration.timeZone, store: store, epoch: epoch)
        queries = QueryCache(
            store: store,
            attempts: ReadAttempts(call: call, configuration: configuration),
            authorizer: authorizer,
            clock: configuration.clock,
            zone: zone.current,
            memoryBytes: configuration.memoryBytes,
            metrics: metrics,
            registry: QueryRegistry(declared: configuration.declaredQueries)
        )
        ranges = RangeKeepers(queries: queries)
        balance = BalanceKeeper(
            configuration: configuration,
            call: call,
            store: store,
            retries: queries.attempts.backend.retries,
            epoch: epoch
        )
        sync = Self.keeper(configuration, call, session, store, turn)
        mutations = MutationKeeper(
            configuration: configuration,
            queries: queries,
            registry: pages,
            outbox: sync.outbox,
            epoch: epoch
        )
        functions = FunctionCaller(call: call, balance: balance, configuration: configuration)
        var derived = DerivedQueries()
        derived.serve(.balance, from: balance)
        self.derived = derived
        events = EventKeeper(configuration: configuration, zone: zone.current)
        connectParts()
    }

    private static func store(
        _ configuration: Configuration,
        _ metrics: ClientMetrics
    ) throws(SanguineError) -> ClientStore {
        do throws(StoreError) {
            return try ClientStore(
                folder: configuration.storeFolder,
                logger: configuration.logger
            ) { metrics.note(.storeDegraded) }
        } catch {
            throw .store(error)
        }
    }

    deinit { close() }

    /// How the store on disk is doing.
    public var storeReport: StoreReport {
        var report = store.report
        report.unreadableRecords = sync.unreadable.count
        return report
    }

    /// Ends everything that is under way, and gives connections and files back.
    ///
    /// Calls that wait throw ``SanguineError/closed``. May be called more than once.
    public func close() {
        events.close()
        session.close()
        mutations.close()
        sync.close()
        balance.close()
        pages.close()
        ranges.close()
        queries.close()
        ownTransport?.close()
        store.close()
    }
}
