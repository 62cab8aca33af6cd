import Foundation
import SanguineModel

/// All that belongs to one user: their session, cached values, records and operations.
///
/// A sign-out ends the scope and creates another one. A guest whose account becomes known keeps it.
/// Work for a user holds the scope; when the scope has ended, each part refuses late calls with the
/// reason.
final class UserScope: Sendable {
    // No mutable state of its own: each part guards its own.
    let place: UserFolders.Place?
    let store: ClientStore
    let session: SessionKeeper
    /// The session, or its substitute in tests.
    let authorizer: any Authorizer
    let zone: StoredZone
    let balance: BalanceKeeper
    let partition: Partition
    let outbox: OutboxEngine
    let records: UserRecords
    let feed: UserFeed
    let mutators: MutatorDriver
    let mutations: MutationDriver
    let functions: FunctionCaller
    private let device: Device
    /// Whether a user has signed out on this device, so that no guest is signed in until the app
    /// makes a request.
    private let isAfterSignOut: Bool

    /// Restores what an earlier process left in the user's folder; no work starts before
    /// ``start(isActive:)``.
    ///
    /// - Parameters:
    ///   - device: The services that outlive the user.
    ///   - place: The user's folder; `nil` keeps everything in memory.
    ///   - named: The user that the app has named; ignored if the client has a server with
    ///     sessions.
    ///   - floor: The sequence numbers of operations are larger than this one, in memory.
    ///   - stored: The session that the user begins with; stored before it is used.
    ///   - isAfterSignOut: Whether another user was signed in before. Default: the folder's number
    ///     decides.
    ///   - authorizer: Replaces the session in tests.
    /// - Throws: ``StoreError`` if not even a store in memory can be made.
    init(
        _ device: Device,
        _ place: UserFolders.Place?,
        named: Owner? = nil,
        floor: Int64 = 0,
        session stored: StoredSession? = nil,
        isAfterSignOut: Bool = false,
        authorizer: (any Authorizer)? = nil
    ) throws(StoreError) {
        let configuration = device.configuration
        self.device = device
        self.place = place
        store = try ClientStore(
            folder: place?.url,
            appVersion: configuration.appVersion,
            log: device.log
        )
        if let stored { SessionKeeper.write(stored, to: store, configuration.logger) }
        // Each user has a new folder, so a later folder means that a user has signed out before.
        self.isAfterSignOut = isAfterSignOut || (place?.number ?? 1) > 1
        let session = Self.session(device, store, named, isSignedOut: self.isAfterSignOut)
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
            zone: { [zone] in zone.current },
            account: self.authorizer.account
        )
        partition = Self.partition(device, store, call, [balance, QuotaSource(balance)])
        outbox = Self.outbox(device, place, floor)
        let carrier = FeedCarrier(balance: balance, partition: partition, queries: device.queries)
        records = UserRecords(outbox, observers: device.records, carry: carrier.take)
        let server = configuration.server == nil ? nil : call
        mutators = MutatorDriver(records, server) { () throws(SanguineError) in
            try session.deviceId()
        }
        mutations = MutationDriver(outbox, device, user: partition)
        feed = UserFeed(
            records,
            server,
            pollInterval: configuration.recordPolling
        )
        functions = FunctionCaller(call: call, balance: balance, configuration: configuration)
        outbox.drive([.mutator: mutators, .mutation: mutations])
        records.feed = feed
    }

    private static func session(
        _ device: Device,
        _ store: ClientStore,
        _ named: Owner?,
        isSignedOut: Bool
    ) -> SessionKeeper {
        let configuration = device.configuration
        return SessionKeeper(
            configuration: configuration,
            exchange: device.exchange,
            store: store,
            vault: device.vault,
            named: configuration.server == nil ? named : nil,
            isSignedOut: isSignedOut
        )
    }

    private static func partition(
        _ device: Device,
        _ store: ClientStore,
        _ call: ServerCall,
        _ sources: [any EntrySource]
    ) -> Partition {
        let backend = device.partition.attempts.backend.with(call)
        return Partition(
            store: store,
            attempts: ReadAttempts(backend, device.configuration),
            sources: sources,
            queue: device.configuration.queue(EntryWriter.label)
        )
    }

    private static func outbox(
        _ device: Device,
        _ place: UserFolders.Place?,
        _ floor: Int64
    ) -> OutboxEngine {
        let environment = OutboxEnvironment(
            device.configuration,
            folder: place?.url,
            news: device.outboxNews
        ) { [log = device.log] in log.failure($0, "\($1)") }
        let fault = device.configuration.plantedFault
        return OutboxEngine(environment, OutboxFile(place, floor: floor, fault: fault))
    }

    /// Continues the work that an earlier process, or the user's earlier stay, has left.
    ///
    /// - Parameter isActive: Whether records were in use before this user.
    func start(isActive: Bool = false) {
        device.setZone(zone.current)
        let queries = device.queries
        let shown = [balance.query, ValueQuery<[Quota]>.quotas.erased]
        balance.onChange(
            BalanceKeeper.Handlers(
                changed: { [weak queries, weak device] in
                    for query in shown { queries?.entries.sourceChanged(query) }
                    device?.applyNow(shown.map(\.key))
                },
                refresh: { [weak queries] query in
                    queries?.entries.invalidate(query)
                    let answer = await queries?.answer(to: query, refreshing: true, priority: nil)
                    if case .failure(let error) = answer { return error }
                    return nil
                }
            )
        )
        // These are operations that an earlier process performed after the sign-out.
        if outbox.file.isThere { authorizer.allowSignIn() }
        outbox.start()
        functions.start()
        resume(isActive: isActive)
    }

    /// Follows the feed live if an observer needs it, the user is known and the feed can be live.
    func follow() { if feed.canBeLive, isSomebody { feed.activate() } }

    /// Fetches observed values, without signing in a guest for it.
    private func resume(isActive: Bool) {
        let isLeft = outbox.file.isThere
        guard isSomebody || isLeft else { return }
        if isLeft || isActive || !device.records.isEmpty { feed.activate() }
        if device.queries.isObserved(anyOf: FeedCarrier.keys) { follow() }
    }

    private var isSomebody: Bool { authorizer.account != nil }

    /// The owner of the scope, once it is known.
    var owner: Owner? { authorizer.owner }

    /// Continues when the user has become known, or has signed in again.
    ///
    /// - Parameters:
    ///   - account: Their account; `nil` for a user of the app's own backend.
    ///   - isFirst: Whether the user was unknown before.
    func signedIn(_ account: Identifier?, isFirst: Bool) {
        if let account { balance.signedIn(account) }
        if isFirst { resume(isActive: false) }
        // Queries that were observed before have sent no request.
        if isFirst, isAfterSignOut { device.queries.userIsKnown() }
        outbox.signedIn(isFirst: isFirst)
        if isFirst { feed.signedIn() }
    }

    /// Sends all waiting operations, and fetches all changes of the server.
    func synchronize() async throws(SanguineError) {
        var failure: SanguineError?
        do throws(SanguineError) {
            try await outbox.sendAll(.mutation)
            try await mutations.settling.settleAll()
        } catch {
            failure = error
        }
        if device.configuration.server != nil || device.configuration.mutations.isEmpty {
            // A failure of one backend does not prevent the other's synchronization.
            do throws(SanguineError) {
                try await feed.synchronize()
            } catch {
                failure = failure ?? error
            }
        }
        if let failure { throw failure }
    }

    /// Ends all work for the user; nothing is stored, shown, sent or written afterwards.
    ///
    /// - Parameter reason: The error that waiting callers get.
    /// - Returns: The work to be done outside of locks.
    func end(_ reason: SanguineError) -> Ended {
        var ended = authorizer.end(reason)
        let (tell, file) = outbox.end(reason)
        let parts = [ended.tell, tell, feed.end(reason)]
        records.close(file)
        mutations.settling.end()
        partition.attempts.backend.authorizer.end(reason)
        balance.end(reason)
        functions.end(reason)
        ended.tell = { for tell in parts { tell() } }
        return ended
    }
}
