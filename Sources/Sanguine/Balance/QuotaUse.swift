import Foundation
public import SanguineModel

/// A use of a quota that counts at once, also without a network; see
/// ``SanguineClient/consumeOptimistically(_:amount:id:)``.
public struct QuotaUse: Sendable {
    /// The id of the work, and the idempotency key of its requests.
    public let id: String
    /// The quota as it is now, with this use; `nil` if it was never received.
    public let quota: Quota?
    /// The receipt for the authority's decision.
    public let receipt: Receipt
}

/// A use of a quota that counted on this device, and that the authority has refused.
///
/// Its units are unused again when the app receives this.
public struct QuotaRefusal: Hashable, Sendable {
    /// The id of the work.
    public let id: String
    /// The quota's name in the server's configuration.
    public let quota: String
    /// The number of units.
    public let amount: Int64
    /// The reason: for `quota_exhausted`, with the time of the reset and the plans that lift it.
    public let problem: Problem
}

/// Uses units of a quota: the operation of ``SanguineClient/consumeOptimistically(_:amount:id:)``.
struct QuotaConsumption: RemoteMutation {
    static let name = "$quota.consume"

    let quota: String
    let amount: Int64
    /// The idempotency key of its requests, also after a retry from the tray.
    let key: String

    /// Each use has its own lane, so that none waits for another one.
    var lane: String { "$quota \(quota) \(key)" }

    // The book of quotas shows it, because it knows which of the server's numbers contain it.
    func effects(on view: inout MutationEffects) {}

    func send(_ request: MutationContext) async throws {
        do throws(SanguineError) {
            let response = try await request.serverResponse(
                "/v1/quotas/\(quota)/consume",
                method: "POST",
                headers: ["Idempotency-Key": key],
                json: try WireCoding.encode(ConsumeRequest(amount: amount), as: "the consumption")
            )
            request.consumed(try WireCoding.decode(Quota.self, from: response), response)
        } catch {
            // The units were used, and the server has forgotten its answer.
            guard case .problem(let problem) = error, problem.code == .idempotencyExpired else {
                throw error
            }
        }
    }
}

extension QuotaConsumption {
    /// Refuses what the server would refuse in any state.
    func check() throws(SanguineError) {
        guard (1...WireLimits.amount).contains(amount) else {
            throw .problem(
                Problem(.invalidContent, "Consume an amount from 1 to \(WireLimits.amount).")
            )
        }
        guard WireLimits.idempotencyKeyCharacters.contains(key.utf8.count),
            key.utf8.allSatisfy({ (0x21...0x7E).contains($0) })
        else {
            throw .problem(
                Problem(.idempotencyKeyInvalid, "Set 'id' to 1 to 128 visible ASCII characters.")
            )
        }
    }
}

/// The quota after a use of it.
struct ConsumedQuota: Sendable {
    let quota: Quota
    let response: TransportResponse
}

/// Shows a user's optimistic uses of quotas, from the outbox's operations.
///
/// No mutable state: the outbox has the operations, and the balance's state has the units.
final class QuotaUses: Sendable {
    private let balance: BalanceKeeper
    private let services: ClientServices

    init(_ balance: BalanceKeeper, _ services: ClientServices) {
        (self.balance, self.services) = (balance, services)
    }

    private func use(_ row: OutboxFile.Row) -> QuotaConsumption? {
        guard row.name == QuotaConsumption.name else { return nil }
        return try? StoredForm.arguments.decode(QuotaConsumption.self, from: row.arguments)
    }

    /// Shows the units of an operation that is queued, by this process or an earlier one.
    func shows(_ row: OutboxFile.Row) {
        guard let use = use(row) else { return }
        if case .acknowledged = row.phase { return }
        let (now, isUnknown) = (balance.now, row.outcomeUnknown)
        balance.ended {
            $0.queuesUse(of: use.quota, use.amount, use.key, outcomeUnknown: isUnknown, at: now)
        }
    }

    /// Hides the units of operations that are not sent.
    func hides(_ rows: [OutboxFile.Row]) {
        for use in rows.compactMap(use) { balance.ended { $0.withdrawsUse(use.key) } }
    }

    /// Records that an operation is about to be sent.
    func sends(_ row: OutboxFile.Row) {
        guard let use = use(row) else { return }
        balance.ended { $0.sendsUse(use.key) }
    }

    /// Records that an operation has not been sent after all.
    func notSent(_ row: OutboxFile.Row) {
        guard let use = use(row) else { return }
        let now = balance.now
        balance.ended {
            $0.queuesUse(of: use.quota, use.amount, use.key, outcomeUnknown: false, at: now)
        }
    }

    /// Records the answer to an operation; `nil` if the server has forgotten it.
    func applied(_ row: OutboxFile.Row, _ answer: ConsumedQuota?) {
        guard let use = use(row) else { return }
        guard let answer else { return balance.consumptionLost(use.key) }
        balance.consumed(use.key, answer.quota, answer.response)
    }

    /// Takes the units of a refused operation back, and reports it.
    func refused(_ row: OutboxFile.Row, _ problem: Problem) {
        guard let use = use(row) else { return }
        balance.ended { $0.withdrawsUse(use.key) }
        services.queries.invalidate(.quotas)
        services.quotaRefusals.post(
            QuotaRefusal(id: use.key, quota: use.quota, amount: use.amount, problem: problem)
        )
    }

    /// Forgets uses without an operation: their process ended between the two writes.
    func forgetAll(except rows: [OutboxFile.Row]) {
        guard balance.hasWaitingUnits else { return }
        let keys = Set(rows.compactMap(use).map(\.key))
        balance.ended { $0.forgetUses(except: keys) }
    }
}
