public import SanguineModel

/// The user's quotas: read at once, and consumed.
///
/// ```swift
/// if client.quotas["readings"]?.remaining != 0 { try await client.consume("readings") }
/// ```
///
/// For a view, use ``SanguineClient/paywall(for:)``, or the query ``ValueQuery/quotas`` with
/// ``SanguineClient/model(_:)-(ValueQuery<Value>)``.
public struct Quotas: Sendable {
    let users: UserSwitcher
    private var queries: QueryCache { users.services.queries }

    /// All quotas as they are now, without a request; empty before they were received.
    ///
    /// Calls and consumptions in progress are included, and nothing of a new day counts as used.
    public var current: [Quota] { queries.snapshot(of: .quotas).value ?? [] }

    /// The quota of that name as it is now; `nil` if it is not known.
    public subscript(name: String) -> Quota? { current.first { $0.name == name } }

    /// Returns all quotas, fetched unless they are fresh.
    ///
    /// - Throws: ``SanguineError``.
    public nonisolated(nonsending) func value() async throws(SanguineError) -> [Quota] {
        try await queries.value(of: .quotas)
    }

    /// The uses that counted on this device and were then refused by the authority: one element for
    /// each later refusal.
    ///
    /// It continues with the next user, and ends when the client is closed. A refused use is also
    /// in the tray of the ``Outbox``, where it can be retried or discarded, also after a restart.
    public var refusals: AsyncStream<QuotaRefusal> { users.services.quotaRefusals.stream() }
}
