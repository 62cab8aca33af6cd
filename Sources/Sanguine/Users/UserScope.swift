import Foundation
import SanguineModel

/// One user, whole: their session, their part of the cache, their records and operations.
///
/// A sign-out ends it, and another one takes its place. A guest whose account becomes known keeps
/// it. Whoever works for a user holds their scope, and what comes late finds that it has ended:
/// each part then refuses with the reason.
final class UserScope: Sendable {
    // No mutable state of its own: each part guards its own.
    let place: UserFolders.Place?
    let store: ClientStore
    let session: SessionKeeper
    /// The session, or what stands for it in tests.
    let authorizer: any Authorizer
    let zone: StoredZone
    let balance: BalanceKeeper
    let partition: Partition
    let outbox: OutboxFile
    let sync: SyncKeeper
    let mutations: MutationKeeper
    let functions: FunctionCaller
    private let device: Device

    /// Restores what an earlier process left in the user's folder; nothing is begun before
    /// ``start(isActive:)``.
    ///
    /// - Parameters:
    ///   - device: What outlives the user.
    ///   - place: The user's folder; `nil` keeps everything in memory.
    ///   - floor: What the sequence numbers of operations are larger than, in memory.
    ///   - stored: A session that the user begins with; stored before it is used.
    ///   - authorizer: Stands for the session in tests.
    /// - Throws: ``StoreError`` if not even a store in memory can be made.
    init(
        _ device: Device,
        _ place: UserFolders.Place?,
        floor: Int64 = 0,
        session stored: StoredSession? = nil,
        authorizer: (any Authorizer)? = nil
    ) throws(StoreError) {
        let configuration = device.configuration
        self.device = device
        self.place = place
        store = try ClientStore(folder: place?.url, log: device.log)
        if let stored { SessionKeeper.write(stored, to: store, configuration.logger) }
        let session = SessionKeeper(
            configuration: configuration,
            exchange: device.exchange,
            store: store,
            vault: device.vault
        )
        self.session = session
        self.authorizer = authorizer ?? session
        let call = ServerCall(
            server: configuration.server,
            exchange: device.exchange,
            authorizer: self.authorizer
        )
        zone = StoredZone(default: device.zone, store: store)
        balance = BalanceKeeper(
            configuration: configuration,
            store: store,
            account: self.authorizer.account
        )
        partition = Partition(
            store: store,
            attempts: ReadAttempts(
                device.partition.attempts.backend.with(call),
                configuration
            ),
            sources: [balance]
        )
        outbox = OutboxFile(place, floor: place == nil ? floor : nil)
        let carrier = FeedCarrier(
            balance: balance,
            partition: partition,
            queries: device.queries
        )
        sync = Self.sync(device, place, call, outbox, session, carrier)
        mutations = MutationKeeper(
            configuration: configuration,
            queries: device.queries,
            user: partition,
            outbox: outbox,
            news: device.outboxNews
        )
        functions = FunctionCaller(call: call, balance: balance, configuration: configuration)
    }

    private static func sync(
        _ device: Device,
        _ place: UserFolders.Place?,
        _ call: ServerCall,
        _ outbox: OutboxFile,
        _ session: SessionKeeper,
        _ carrier: FeedCarrier
    ) -> SyncKeeper {
        let (configuration, log) = (device.configuration, device.log)
        let network = SyncNetwork(call, configuration) { () throws(SanguineError) in
            try session.deviceId()
        }
        var environment = SyncEnvironment(
            configuration,
            folder: place?.url,
            news: device.outboxNews,
            restores: device.restores
        ) { log.failure($0) }
        environment.carry = { carrier.take($0, isReset: $1) }
        return SyncKeeper(
            environment: environment,
            outbox: outbox,
            observers: device.records,
            network: configuration.server == nil ? nil : network
        )
    }

    /// Goes on with what an earlier process, or an earlier stay, has left.
    ///
    /// - Parameter isActive: Whether records were used before the user was there.
    func start(isActive: Bool = false) {
        device.setZone(zone.current)
        let (queries, query) = (device.queries, balance.query)
        balance.onChange(
            BalanceKeeper.Handlers(
                changed: { [weak queries] in queries?.sourceChanged(query) },
                refresh: { [weak queries] in
                    queries?.invalidate(query)
                    let answer = await queries?.answer(to: query, refreshing: true, priority: nil)
                    if case .failure(let error) = answer { return error }
                    return nil
                }
            )
        )
        mutations.onShown { [weak device] in device?.applyNow($0) }
        mutations.start()
        sync.start()
        resume(isActive: isActive)
    }

    /// Follows the feed live, if that can be: somebody observes what it carries.
    func follow() { if sync.canBeLive, isSomebody { sync.activate() } }

    /// Asks for what somebody observes, and signs nobody in for that.
    private func resume(isActive: Bool) {
        guard isSomebody || outbox.isThere else { return }
        if isActive || !device.records.isEmpty { sync.activate() }
        if device.queries.isObserved(anyOf: FeedCarrier.keys) { follow() }
    }

    private var isSomebody: Bool { authorizer.account != nil }

    /// The account has become known, or the user has signed in again.
    func signedIn(_ account: Identifier, isFirst: Bool) {
        balance.signedIn(account)
        if isFirst { resume(isActive: false) }
        sync.signedIn(isFirst: isFirst)
        mutations.signedIn()
    }

    /// Ends all that is under way for the user; nothing is taken in, shown, sent or written from
    /// now on.
    ///
    /// - Parameter reason: What those get who wait.
    /// - Returns: What is left to be done.
    func end(_ reason: SanguineError) -> Ended {
        var ended = authorizer.end(reason)
        let parts = [ended.tell, mutations.end(reason), sync.end(reason)]
        balance.end(reason)
        ended.tell = { for tell in parts { tell() } }
        return ended
    }
}
