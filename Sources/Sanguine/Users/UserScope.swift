import Foundation
import SanguineModel

/// Everything that belongs to one user: their session, cached values, records and operations.
///
/// A sign-out ends the scope and creates another one. A guest whose account becomes known keeps it.
/// Work for a user holds the scope; when the scope has ended, each part refuses late calls with the
/// reason.
final class UserScope: Sendable {
    // No mutable state itself: each part guards its own state.
    let folder: UserFolders.Folder?
    let store: ClientStore
    let session: SessionKeeper
    /// The session, or its substitute in tests.
    let authorizer: any Authorizer
    let zone: StoredZone
    let locale: LocaleFollower
    let balance: BalanceKeeper
    let cacheScope: CacheScope
    let outbox: OutboxEngine
    let records: UserRecords
    let feed: UserFeed
    let feedUpdater: FeedCacheUpdater
    let purchaseAnswers = PurchaseAnswers()
    let threads: UserThreads
    let recordMutations: RecordMutationDriver
    let mutations: RemoteMutationDriver
    let uses: QuotaUses
    let functions: FunctionCaller
    let images: UserImages
    let uploads: FileUploadDriver
    let services: ClientServices
    /// Whether a user has signed out on this device, so that no guest is signed in until the app
    /// makes a request.
    private let isAfterSignOut: Bool

    /// Restores what an earlier process left in the user's folder; no work starts before
    /// ``start(isActive:)``.
    ///
    /// - Parameters:
    ///   - services: The services that outlive the user.
    ///   - folder: The user's folder; `nil` keeps everything in memory.
    ///   - named: The user that the app has named; ignored if the client has a server with
    ///     sessions.
    ///   - floor: The sequence numbers of operations are larger than this one, in memory.
    ///   - stored: The session that the user begins with; stored before it is used.
    ///   - isAfterSignOut: Whether another user was signed in before. Default: the folder's number
    ///     decides.
    ///   - authorizer: Replaces the session in tests.
    /// - Throws: ``StoreError`` if not even a store in memory can be made.
    init(
        _ services: ClientServices,
        _ folder: UserFolders.Folder?,
        named: AccountKey? = nil,
        floor: Int64 = 0,
        session stored: StoredSession? = nil,
        isAfterSignOut: Bool = false,
        authorizer: (any Authorizer)? = nil
    ) throws(StoreError) {
        let configuration = services.configuration
        (self.services, self.folder) = (services, folder)
        store = try Self.store(services, folder)
        if let stored { SessionKeeper.write(stored, to: store, configuration.logger) }
        // Each user has a new folder, so a later folder means that a user has signed out before.
        self.isAfterSignOut = isAfterSignOut || (folder?.number ?? 1) > 1
        let session = Self.session(services, store, named, isSignedOut: self.isAfterSignOut)
        self.session = session
        self.authorizer = authorizer ?? session
        let call = ServerCall(
            server: configuration.server,
            exchange: services.exchange,
            authorizer: self.authorizer
        )
        zone = StoredZone(default: services.zone, store: store)
        locale = LocaleFollower(store: store)
        balance = Self.balance(services, store, zone, self.authorizer.account)
        cacheScope = Self.cacheScope(services, store, call, [balance, QuotaSource(balance)])
        outbox = Self.outbox(services, folder, floor)
        feedUpdater = Self.feedUpdater(services, balance, cacheScope)
        threads = Self.threads(services, folder, store, balance)
        records = UserRecords(
            outbox,
            observers: services.records,
            threads: threads,
            carry: feedUpdater.apply,
            changedOnServer: feedUpdater.invalidateLists(of:)
        )
        let server = configuration.server == nil ? nil : call
        recordMutations = RecordMutationDriver(records, server) { () throws(SanguineError) in
            try session.deviceId()
        }
        uses = QuotaUses(balance, services)
        mutations = RemoteMutationDriver(outbox, services, user: cacheScope, uses: uses)
        let (polling, lists) = (configuration.recordPolling, feedUpdater.publishedLists)
        feed = UserFeed(records, server, pollInterval: polling, lists: lists) {
            [switches = services.switches] in switches.current.revision
        }
        functions = FunctionCaller(
            call: call,
            balance: balance,
            services: services,
            messages: threads.pending
        )
        let local = LocalImages(outbox)
        images = UserImages(services, folder?.url, cacheScope.attempts, local: local)
        uploads = FileUploadDriver(outbox, functions, images)
        connect()
    }

    /// Connects the parts that are created one after the other.
    private func connect() {
        mutations.onRefusedDeviceChange { [locale] in locale.refused($0) }
        mutations.onAccountChange { [feedUpdater] in feedUpdater.changedAccount(at: $0) }
        mutations.onPurchase { [weak self] in self?.purchased($0, $1) }
        outbox.drive([.record: recordMutations, .remote: mutations, .upload: uploads])
        records.feed = feed
    }

    private static func store(
        _ services: ClientServices,
        _ folder: UserFolders.Folder?
    ) throws(StoreError) -> ClientStore {
        try ClientStore(
            folder: folder?.url,
            appVersion: services.configuration.appVersion,
            log: services.log
        )
    }

    private static func balance(
        _ services: ClientServices,
        _ store: ClientStore,
        _ zone: StoredZone,
        _ account: Identifier?
    ) -> BalanceKeeper {
        BalanceKeeper(
            configuration: services.configuration,
            metrics: services.metrics,
            store: store,
            zone: { zone.current },
            account: account
        )
    }

    private static func session(
        _ services: ClientServices,
        _ store: ClientStore,
        _ named: AccountKey?,
        isSignedOut: Bool
    ) -> SessionKeeper {
        let configuration = services.configuration
        return SessionKeeper(
            configuration: configuration,
            exchange: services.exchange,
            store: store,
            vault: services.vault,
            analytics: services.metrics.analytics,
            named: configuration.server == nil ? named : nil,
            isSignedOut: isSignedOut
        )
    }

    private static func cacheScope(
        _ services: ClientServices,
        _ store: ClientStore,
        _ call: ServerCall,
        _ sources: [any EntrySource]
    ) -> CacheScope {
        let backend = services.cacheScope.attempts.backend.with(call)
        return CacheScope(
            store: store,
            attempts: ReadAttempts(
                backend,
                services.configuration,
                services.switches,
                services.metrics.steps
            ),
            sources: sources,
            queue: services.configuration.queue(EntryWriter.label)
        )
    }

    private static func feedUpdater(
        _ services: ClientServices,
        _ balance: BalanceKeeper,
        _ cacheScope: CacheScope
    ) -> FeedCacheUpdater {
        FeedCacheUpdater(
            balance: balance,
            cacheScope: cacheScope,
            queries: services.queries,
            schema: services.configuration.schema,
            switches: services.switches
        )
    }

    private static func threads(
        _ services: ClientServices,
        _ folder: UserFolders.Folder?,
        _ store: ClientStore,
        _ balance: BalanceKeeper
    ) -> UserThreads {
        let pending = PendingMessages(
            store: store,
            balance: balance,
            configuration: services.configuration
        )
        let index = MessageIndex(folder: folder?.url) { [log = services.log] reason in
            log.failure(reason)
        }
        return UserThreads(pending, index)
    }

    private static func outbox(
        _ services: ClientServices,
        _ folder: UserFolders.Folder?,
        _ floor: Int64
    ) -> OutboxEngine {
        let environment = OutboxEnvironment(
            services.configuration,
            folder: folder?.url,
            notifier: services.outboxNotifier,
            metrics: services.metrics
        ) { [log = services.log] in log.failure($0, "\($1)") }
        let fault = services.configuration.plantedFault
        return OutboxEngine(environment, OutboxFile(folder, floor: floor, fault: fault))
    }

    /// Continues the work that an earlier process, or the user's earlier stay, has left.
    ///
    /// - Parameter isActive: Whether records were in use before this user.
    func start(isActive: Bool = false) {
        services.setZone(zone.current)
        switched()
        let queries = services.queries
        let shown = [balance.query, ValueQuery<[Quota]>.quotas.erased]
        balance.onChange(
            BalanceKeeper.Handlers(
                changed: { [weak queries, weak services, weak threads] in
                    threads?.pending.balanceChanged()
                    for query in shown { queries?.entries.sourceChanged(query) }
                    services?.applyNow(shown.map(\.key))
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
        uses.forgetAll(except: outbox.read { Array($0.rows.values) })
        functions.start()
        resume(isActive: isActive)
        followDevice()
    }

    /// Applies the current switches to the user's records.
    func switched() {
        records.withhold { [services] in services.switches.current.switches.withheldMutations }
    }

    /// Follows the feed live if an observer needs it, the user is known and the feed can be live.
    func follow() {
        guard feed.canBeLive, hasUser else { return }
        feed.activate()
        feed.followLists()
    }

    /// Fetches observed values, without signing in a guest for it.
    private func resume(isActive: Bool) {
        let isLeft = outbox.file.isThere
        guard hasUser || isLeft else { return }
        if isLeft || isActive || !services.records.isEmpty { feed.activate() }
        if services.queries.isObserved(anyOf: FeedCacheUpdater.keys)
            || !services.queries.observedCollections.isEmpty
        {
            follow()
        }
    }

    private var hasUser: Bool { authorizer.account != nil }

    /// The owner of the scope, once it is known.
    var owner: AccountKey? { authorizer.owner }

    /// Returns the newest refresh token of a guest, which proves to the server that the guest's own
    /// device asks for a merge; `nil` for another user, and if the token cannot be refreshed now.
    func guestToken() async -> String? {
        guard session.isGuest else { return nil }
        // Refreshed before the request, which would otherwise rotate the token that it repeats.
        _ = try? await authorizer.accessToken()
        return session.isGuest ? session.refreshToken : nil
    }

    /// Continues when the user has become known, or has signed in again.
    ///
    /// - Parameters:
    ///   - account: Their account; `nil` for a user of the app's own backend.
    ///   - isFirst: Whether the user was unknown before.
    func signedIn(_ account: Identifier?, isFirst: Bool) {
        if let account { balance.signedIn(account) }
        if isFirst { resume(isActive: false) }
        // Queries that were observed before have sent no request.
        if isFirst, isAfterSignOut { services.queries.userIsKnown() }
        outbox.signedIn(isFirst: isFirst)
        functions.signedIn()
        if isFirst {
            feed.signedIn()
            followDevice()
        }
    }

    /// Receives a change of the balance, a quota or the account, as the feed does.
    func carry(_ change: RecordChange) { feedUpdater.apply(change) }

    /// Prepares for another account, of which this guest becomes a part, or completes the change.
    ///
    /// Called before the session changes, so that a process that ends in between does not continue
    /// with the guest's numbers, and again afterwards, because the feed may have moved in between.
    ///
    /// - Throws: ``SanguineError/store(_:)`` if this cannot be stored.
    func leaveFeed(of former: Identifier) throws(SanguineError) {
        try records.leave(for: .former(former))
        feedUpdater.forgetNumbers()
    }

    /// Continues with another account, of which this guest has become a part.
    func moved(to account: Identifier, from former: Identifier) {
        balance.moved(to: account, from: former)
        services.queries.invalidate(.everything)
        outbox.signedIn(isFirst: true)
        functions.signedIn()
        feed.signedIn()
        if feed.isActive { feed.pull() }
        followDevice()
    }

    /// Sends all waiting operations, and fetches all changes of the server.
    func synchronize() async throws(SanguineError) {
        var failure: SanguineError?
        do throws(SanguineError) {
            // Other operations may need the files.
            if uploads.canSend { try await outbox.sendAll(.upload) }
        } catch {
            failure = error
        }
        do throws(SanguineError) {
            try await outbox.sendAll(.remote)
            try await mutations.settling.settleAll()
        } catch {
            failure = failure ?? error
        }
        if services.configuration.server != nil || services.configuration.mutations.isEmpty {
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
        cacheScope.attempts.backend.authorizer.end(reason)
        balance.end(reason)
        functions.end(reason)
        threads.end()
        images.end(reason)
        ended.tell = { for tell in parts { tell() } }
        return ended
    }
}
