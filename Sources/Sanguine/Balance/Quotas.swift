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
}

extension SanguineClient {
    /// The user's quotas.
    public var quotas: Quotas { Quotas(users: users) }

    /// Consumes units of a quota, for work that the app does itself.
    ///
    /// ```swift
    /// try await client.consume("readings", id: reading.id)
    /// ```
    ///
    /// The units are visible as used at once, and as unused again if the server refuses. A request
    /// whose answer is lost is sent again under the same id, and counts once. Without a network the
    /// method throws.
    ///
    /// - Parameters:
    ///   - quota: The quota's name in the server's configuration.
    ///   - amount: The number of units, at least 1. Default: 1.
    ///   - id: The id of the work, 1 to 128 visible ASCII characters. Requests with the same id
    ///     count once: in this process, in a later one, and on the user's other devices, as long as
    ///     the server stores keys. Pass one if the work is repeated after a restart. Default: a new
    ///     id.
    /// - Returns: The quota afterwards.
    /// - Throws: ``SanguineError``: a problem with `quota_exhausted`, which says when the quota
    ///   resets and which plans lift it; `not_found` for an unknown quota;
    ///   ``SanguineError/outcomeUnknown(operation:)`` if every answer was lost: repeat it with the
    ///   error's id.
    @discardableResult
    public nonisolated(nonsending) func consume(
        _ quota: String,
        amount: Int64 = 1,
        id: String? = nil
    ) async throws(SanguineError) -> Quota {
        try await QuotaConsumer(users: users).consume(quota, amount: amount, id: id)
    }

    /// The quota's limit as a view shows it: the rest, the time of the reset, and what lifts it.
    ///
    /// All views of one quota share the object.
    @MainActor
    public func paywall(for quota: String) -> PaywallState {
        let key = QueryKey(name: "$paywall", parameters: [quota])
        return services.models.model(key) { PaywallState(quota, users) }
    }
}
