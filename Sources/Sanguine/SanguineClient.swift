import Foundation
@_exported public import SanguineModel

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
    let device: Device
    let users: Users
    // The device's, and here as well: each read goes through it, and a step more costs as much.
    let queries: QueryCache

    /// Creates a client and restores its state.
    ///
    /// A disk that cannot be used is no error: the client then works in memory and says so in
    /// ``storeReport``.
    ///
    /// - Throws: ``SanguineError/store(_:)`` if not even a store in memory can be made;
    ///   ``SanguineError/invalidDeclaration(_:)`` if two registered types have one name;
    ///   ``SanguineError/notConfigured(_:)`` if the configuration says who asks, and no address
    ///   that is to know it.
    public convenience init(_ configuration: Configuration) throws(SanguineError) {
        try self.init(configuration, authorizers: nil)
    }

    /// Creates a client whose users are proven by something else than their sessions, as in tests.
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

    /// What the client measures of itself.
    public var metrics: ClientMetrics { device.metrics }

    /// How the store on disk is doing.
    ///
    /// Opens what is not open yet, to find out.
    public var storeReport: StoreReport {
        // What fails is in the report.
        for store in [device.partition.store, users.present.store] { try? store.open() }
        var report = device.log.report
        report.unreadableRecords = users.present.records.unreadable.count
        return report
    }

    /// Ends everything that is under way, and gives connections and files back.
    ///
    /// Calls that wait throw ``SanguineError/closed``. May be called more than once.
    public func close() {
        device.events.close()
        users.close()
    }
}

// MARK: - The present user's parts

extension SanguineClient {
    var session: SessionKeeper { users.present.session }
    var balance: BalanceKeeper { users.present.balance }
}
