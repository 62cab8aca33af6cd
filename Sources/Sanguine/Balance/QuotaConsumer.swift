import Foundation
import SanguineModel

/// Consumes units of a quota, which are visible while the request is in progress.
struct QuotaConsumer: Sendable {
    let users: UserSwitcher
    private var configuration: SanguineClient.Configuration { users.services.configuration }

    func consume(
        _ quota: String,
        amount: Int64,
        id: String?
    ) async throws(SanguineError) -> Quota {
        if let refusal = configuration.refusal { throw refusal }
        let user = users.current
        var random = configuration.random
        let now = configuration.clock.now()
        let key = id ?? Identifier(at: now, using: &random).description
        let request = try TransportRequest(
            method: "POST",
            base: configuration.server,
            path: "/v1/quotas/\(quota)/consume",
            headers: ["Idempotency-Key": key],
            json: try WireCoding.encode(ConsumeRequest(amount: amount), as: "the consumption")
        )
        user.authorizer.allowSignIn()
        user.balance.consumes(quota, amount, key)
        do throws(SanguineError) {
            let response = try await send(request, as: user)
            let left = try WireCoding.decode(Quota.self, from: response)
            user.balance.consumed(key, left, response)
            return left
        } catch {
            guard !error.leavesUnknown else {
                user.balance.consumptionLost(key)
                throw .outcomeUnknown(operation: key)
            }
            user.balance.notConsumed(key)
            if case .problem = error { users.services.queries.invalidate(.quotas) }
            throw error
        }
    }

    private func send(
        _ request: TransportRequest,
        as user: UserScope
    ) async throws(SanguineError) -> TransportResponse {
        let schedule = configuration.schedule(RetrySchedule(attempts: SessionLimits.attempts))
        var failures = 0
        var last: SanguineError?
        while true {
            do throws(SanguineError) {
                return try await user.functions.call.send(request)
            } catch {
                failures += 1
                // After a lost answer, a missing network says nothing about the first request.
                if error.leavesUnknown { last = error }
                var random = configuration.random
                guard last != nil,
                    let delay = schedule.delay(afterFailures: failures, of: error, using: &random),
                    (try? await configuration.delay.sleep(for: delay)) != nil
                else { throw last ?? error }
            }
        }
    }
}

extension SanguineError {
    /// Whether the server may have received the consumption.
    fileprivate var leavesUnknown: Bool {
        switch self {
        case .transport(.offline): false
        case .problem(let problem): problem.code == .operationInProgress || problem.status >= 500
        case .transport, .decoding, .timedOut, .cancelled: true
        default: false
        }
    }
}

extension BalanceKeeper {
    /// Shows the units of a consumption that begins.
    func consumes(_ quota: String, _ amount: Int64, _ key: String) {
        ended { $0.consumes(quota, amount, key, at: now) }
    }

    /// Records the quota after a consumption.
    func consumed(_ key: String, _ quota: Quota, _ response: TransportResponse) {
        let head = response.header("sanguine-head").flatMap { Int64($0) }
        ended { $0.consumed(key, quota, head: head, epoch: response.epoch, at: now) }
    }

    /// Records that a consumption has not happened.
    func notConsumed(_ key: String) { ended { $0.notConsumed(key) } }

    /// Records that the answer to a consumption was lost: the next list of quotas contains it, if
    /// it has happened.
    func consumptionLost(_ key: String) { ended { $0.consumptionLost(key) } }
}
