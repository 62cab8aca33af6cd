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
    /// It continues with the next user, and ends when the client is closed. A refused use is also in
    /// the tray of the ``Outbox``, where it can be retried or discarded, also after a restart.
    public var refusals: AsyncStream<QuotaRefusal> { users.services.quotaRefusals.stream() }
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
    /// method throws: the authority decides before the work begins. For work that must not wait, use
    /// ``consumeOptimistically(_:amount:id:)``.
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

    /// Consumes units of a quota at once, also without a network.
    ///
    /// ```swift
    /// let use = try client.consumeOptimistically("readings", id: reading.id)
    /// ```
    ///
    /// The use is stored on disk and counts as used when this returns. The ``Outbox`` sends it, now
    /// or when the network returns, also in a later process and after the guest has become a part
    /// of an account; it takes effect once. If the authority refuses it, because another device has
    /// used the units, it counts as unused again, and is reported by ``Quotas/refusals``. It uses a
    /// unit of the period in which the authority receives it.
    ///
    /// A use beyond the rest that this device knows is refused at once. While no quota was ever
    /// received, none is refused.
    ///
    /// - Parameters:
    ///   - quota: The quota's name in the server's configuration.
    ///   - amount: The number of units, at least 1. Default: 1.
    ///   - id: The id of the work, 1 to 128 visible ASCII characters; see
    ///     ``consume(_:amount:id:)``. A use that waits under the same id is not added again.
    ///     Default: a new id.
    /// - Returns: The use, with the quota as it is now.
    /// - Throws: ``SanguineError``, and nothing is used then: a problem with `quota_exhausted`,
    ///   which says when the quota resets and which plans lift it; `outboxFull`, `store` if the
    ///   disk failed, ``SanguineError/notConfigured(_:)`` without a server.
    @discardableResult
    public func consumeOptimistically(
        _ quota: String,
        amount: Int64 = 1,
        id: String? = nil
    ) throws(SanguineError) -> QuotaUse {
        guard services.configuration.server != nil else { throw .notConfigured("'server'") }
        return try users.perform { user throws(SanguineError) in
            let now = services.configuration.clock.now()
            let key = id ?? user.outbox.environment.newId().description
            let use = QuotaConsumption(quota: quota, amount: amount, key: key)
            try use.check()
            user.authorizer.allowSignIn()
            if let waiting = try user.outbox.receipt(of: QuotaConsumption.name, in: use.lane) {
                return QuotaUse(id: key, quota: quotas[quota], receipt: waiting)
            }
            if let known = quotas[quota], !known.allows(amount) {
                throw .problem(.exhausted(known, at: now))
            }
            let receipt = try user.mutations.perform(use)
            return QuotaUse(id: key, quota: quotas[quota], receipt: receipt)
        }
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
