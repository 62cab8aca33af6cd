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

    // No mutable state of its own: each part guards its own.
    let device: Device
    let users: Users
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
    ///   that they are for.
    public convenience init(_ configuration: Configuration) throws(SanguineError) {
        try self.init(configuration, authorizers: nil)
    }

    /// Creates a client whose users are authorized by something else than sessions, as in tests.
    init(
        _ configuration: Configuration,
        authorizers: (any AuthorizerSource)?
    ) throws(SanguineError) {
        try configuration.check()
        do throws(StoreError) {
            device = try Device(configuration)
            queries = device.queries
            users = try Users(device, authorizers: authorizers)
        } catch {
            throw .store(error)
        }
    }

    deinit { close() }

    var configuration: Configuration { device.configuration }

    /// The client's own measurements.
    public var metrics: ClientMetrics { device.metrics }

    /// The state of the store on disk.
    ///
    /// Opens files that are not open yet, to include their state.
    public var storeReport: StoreReport {
        // The report contains the failures.
        for store in [device.partition.store, users.present.store] { try? store.open() }
        var report = device.log.report
        report.unreadableRecords = users.present.records.unreadable.count
        return report
    }

    /// Ends all work, and closes connections and files.
    ///
    /// Waiting calls throw ``SanguineError/closed``. May be called more than once.
    public func close() {
        device.events.close()
        users.close()
    }
}

// MARK: - The current user's parts

extension SanguineClient {
    var session: SessionKeeper { users.present.session }
    var balance: BalanceKeeper { users.present.balance }
}
