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
    var session: SessionKeeper { users.current.session }
    var balance: BalanceKeeper { users.current.balance }
}
