import Foundation
@_exported public import SanguineModel

/// An app's data: cached reads return at once, and writes are visible at once.
///
/// ```swift
/// let client = try SanguineClient(.init(server: url))
///
/// let balance = client.cached(.balance)
/// let profile = try await client.value(of: .profile("42"))
/// ```
///
/// Create one client for the whole app and keep it. It restores its state when it is created, and
/// may be used from any thread.
public final class SanguineClient: Sendable {
    /// The version of the library.
    package static let version = "0.1.0"

    // No mutable state itself: each part guards its own state.
    let services: ClientServices
    let users: UserSwitcher
    // Also stored here, because each read uses it, and one more indirection costs as much.
    let queries: QueryCache

    /// Creates a client and restores its state.
    ///
    /// A disk that cannot be used does not throw: the client then works in memory and reports it in
    /// ``storeReport``.
    ///
    /// - Throws: ``SanguineError/store(_:)`` if not even a store in memory can be made;
    ///   ``SanguineError/invalidDeclaration(_:)`` if two registered types have the same name;
    ///   ``SanguineError/notConfigured(_:)`` if the configuration has credentials, but no address
    ///   to send them to.
    public convenience init(_ configuration: Configuration) throws(SanguineError) {
        try self.init(configuration, authorizers: nil)
    }

    /// Creates a client whose users are not authorized by sessions, for example in tests.
    init(
        _ configuration: Configuration,
        authorizers: (any AuthorizerSource)?
    ) throws(SanguineError) {
        try configuration.check()
        do throws(StoreError) {
            services = try ClientServices(configuration)
            queries = services.queries
            users = try UserSwitcher(services, authorizers: authorizers)
        } catch {
            throw .store(error)
        }
        services.metrics.count { [weak users] in
            users.map { Images(users: $0).statistics } ?? ImageStatistics()
        }
    }

    deinit { close() }

    var configuration: Configuration { services.configuration }

    /// The client's own measurements.
    public var metrics: ClientMetrics { services.metrics }

    /// Events for the app's analytics, with nothing personal.
    public var analytics: ClientAnalytics { services.metrics.analytics }

    /// The state of the store on disk.
    ///
    /// Opens files that are not open yet, to include their state.
    public var storeReport: StoreReport {
        // The report contains the failures.
        for store in [services.cacheScope.store, users.current.store] { try? store.open() }
        var report = services.log.report
        report.unreadableRecords = users.current.records.unreadable.count
        return report
    }

    /// Ends all work, and closes connections and files.
    ///
    /// Waiting calls throw ``SanguineError/closed``. May be called more than once.
    public func close() {
        services.events.close()
        users.close()
    }
}

// MARK: - The current user's parts

extension SanguineClient {
    /// The user's account.
    public var account: UserAccount { UserAccount(users: users) }

    /// The user's quotas.
    public var quotas: Quotas { Quotas(users: users) }

    /// Purchases in a store, which the server verifies and credits.
    public var purchases: Purchases { Purchases(users: users) }

    /// The last 10 different balances from the server, the newest last, with their times.
    ///
    /// They survive a restart, but not a sign-out.
    public var balanceHistory: [RecordedBalance] { balance.history }

    var session: SessionKeeper { users.current.session }
    var balance: BalanceKeeper { users.current.balance }
}

// MARK: - Days

extension SanguineClient {
    /// The time zone of the user's days, an IANA name: `Europe/Berlin`.
    ///
    /// The zone that ``setTimeZone(_:)`` last set for this user, in this process or an earlier one;
    /// otherwise the device's, or that of ``Configuration/timeZone`` if it was set.
    public var timeZone: String { users.current.zone.current.identifier }

    /// Sets the time zone of the user's days, and keeps it until they sign out.
    ///
    /// If it is another day there, values that are fresh until midnight become stale at once, and
    /// observed ones are fetched.
    ///
    /// The days no longer follow the device's zone then, until
    /// ``UserAccount/followDeviceTimeZone()`` is called. The account's zone, in which the server
    /// counts days, is not changed: use ``UserAccount/update(_:)`` for both.
    ///
    /// - Throws: ``SanguineError/problem(_:)`` with `invalid_content` if there is no zone of that
    ///   name; ``SanguineError/userChanged`` if the user has changed in the meantime. Nothing
    ///   changes then.
    public func setTimeZone(_ name: String) throws(SanguineError) {
        let user = users.current
        try user.zone.set(name)
        // If two threads set a zone at once, neither leaves an old one.
        var zone: TimeZone
        repeat {
            zone = users.current.zone.current
            services.setZone(zone)
        } while zone != users.current.zone.current
    }
}

// MARK: - Diagnosis

extension SanguineClient {
    /// The client's own queries for a Sanguine server.
    public static let builtInQueries: [QueryDeclaration] = [
        ValueQuery<Balance>.balance.declaration, ValueQuery<[Quota]>.quotas.declaration,
        ValueQuery<Account>.account.declaration,
    ]

    /// Returns where everything is stored: the queries of ``Configuration/queries``, the functions
    /// of ``Configuration/functions``, the registered collections, the client's own queries, and
    /// all others that were used since the client was created.
    ///
    /// `sanguine matrix --config` prints the same rows for a server's functions and collections.
    ///
    /// ```swift
    /// print(client.matrix())
    /// ```
    ///
    /// Parts that a switch of the server replaces are shown as they apply, and marked.
    public func matrix() -> StorageMatrix {
        queries.entries.registry.matrix(services.switches.current.switches)
    }

    /// Returns the client's state, for a bug report.
    ///
    /// ```swift
    /// logger.notice("\(client.debugReport())")
    /// ```
    ///
    /// It begins with the figures that <doc:What-Is-Wrong> explains, and covers the user and the
    /// session, the network, requests, the cache, the outbox, the feed, the balance, the files on
    /// disk, failures, switches and metrics. Each part is read at its own moment. The text has at
    /// most ``MetricsLimits/reportBytes``, and each list at most ``MetricsLimits/reportRows`` lines
    /// and the number of the others.
    ///
    /// It contains names of queries and mutations, numbers, codes of errors, and the ends of ids.
    /// It never contains tokens, values, parameters of queries, arguments of operations, names of
    /// lanes, or the id of a user that the app has named.
    ///
    /// Like ``storeReport``, it opens files that are not open yet.
    ///
    /// - Returns: The report, which is text, or JSON for an app's telemetry.
    public func debugReport() -> DebugReport { ReportComposer(of: self).result }

    /// Measures one of the app's operations: how often it runs, how often it fails, and how long it
    /// takes.
    ///
    /// ```swift
    /// let chart = client.measure("draw chart") { Chart(points) }
    /// ```
    ///
    /// It is listed in the summary's operations under this name, which must not contain personal
    /// data.
    ///
    /// - Returns: The result of the operation.
    /// - Throws: The error of the operation.
    public func measure<Result, Failure: Error>(
        _ name: String,
        _ operation: () throws(Failure) -> Result
    ) throws(Failure) -> Result {
        try metrics.operation(name).measure(operation)
    }

    /// Measures one of the app's asynchronous operations, from its call to its return.
    ///
    /// ```swift
    /// let image = try await client.measure("resize") { try await resizer.resize(photo) }
    /// ```
    ///
    /// - Returns: The result of the operation.
    /// - Throws: The error of the operation.
    nonisolated(nonsending)
        public func measure<Result, Failure: Error>(
            _ name: String,
            _ operation: () async throws(Failure) -> Result
        ) async throws(Failure) -> Result
    {
        try await metrics.operation(name).measure(operation)
    }

    /// Descriptions of the client's work in progress; empty if there is none.
    ///
    /// Tests use this to wait for its end. Work that waits for a clock is not included, nor are a
    /// live connection and calls that a caller awaits.
    package var underWay: [String] {
        let (entries, user) = (queries.entries, users.current)
        var work = entries.fetching.map { "a fetch of \($0.text)" }
        let lists = queries.lists.isUnderWay || queries.ranges.isUnderWay
        let parts: [(Bool, String)] = [
            (lists, "a part of a list or range"),
            (user.outbox.isSending, "operations"),
            (user.functions.isSending, "a call without a waiting caller"),
            (user.mutations.settling.isFetching, "a refetch of what operations changed"),
            (user.feed.isPulling, "a pull of the feed"),
            (user.threads.index.isRunning, "the index of messages"),
            (user.feed.isWaitingForEcho, "operations whose changes the live feed has not sent"),
            (entries.isTelling, "notifications of observers"),
            (entries.isWriting, "writes to disk"),
            (services.images.inFlight > 0, "images"),
        ]
        work += parts.filter(\.0).map(\.1)
        return work
    }
}

// MARK: - Previews

extension SanguineClient {
    /// The behavior of the network for a preview client.
    ///
    /// See ``SanguineClient/preview(_:network:_:)``.
    public enum PreviewNetwork: Sendable, Hashable {
        /// No response arrives: values that were not set are fetched forever.
        case silent
        /// The network is unreachable: values that were not set have failed, and those that were
        /// set are marked as old.
        case offline
    }

    /// Creates a client with fixed values, in memory and without a network, for previews and
    /// screenshots.
    ///
    /// ```swift
    /// let client = SanguineClient.preview { shown in
    ///     shown.set(profile, for: .profile("42"))
    /// }
    /// ```
    ///
    /// Nothing leaves the process or survives it, regardless of the configuration: its transport,
    /// folder, clock for waits, lifecycle and connectivity are not used, and no request times out.
    /// Mutations in a preview are visible at once and never sent.
    ///
    /// - Parameters:
    ///   - configuration: The app's registrations and coders. Default: none.
    ///   - network: The result of fetching values that were not set. Default: they never arrive.
    ///   - fill: Sets the values. If it throws, the client has no values and refuses all reads and
    ///     writes with the reason, so that the preview shows it and does not crash.
    /// - Returns: The client. Keep it for as long as the preview is shown.
    public static func preview(
        _ configuration: Configuration = Configuration(),
        network: PreviewNetwork = .silent,
        _ fill: (PreviewValues) throws -> Void = { _ in }
    ) -> SanguineClient {
        do {
            let client = try SanguineClient(configuration.preview(network))
            try fill(PreviewValues(client: client))
            return client
        } catch {
            return .refusing(
                .invalidDeclaration(
                    "The client for a preview could not be created. \(SanguineError(error))"
                )
            )
        }
    }

    /// Creates a client without values that refuses all reads and writes with a reason.
    ///
    /// It replaces a client that could not be created, and reports why.
    package static func refusing(_ reason: SanguineError) -> SanguineClient {
        var configuration = Configuration().preview(.offline)
        configuration.refusal = reason
        do throws(SanguineError) {
            return try SanguineClient(configuration)
        } catch {
            preconditionFailure("A client without declarations could not be created: \(error)")
        }
    }
}
