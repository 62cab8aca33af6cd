import Foundation
import SanguineModel
import Synchronization

/// Asks the server which former guests of this device have become a part of the account.
///
/// A guest can be merged into an account on another device. This device may learn it much later,
/// and may have operations of the guest that were not sent. They are sent as the account only after
/// the server has confirmed, to a session of this account, that the guest is a part of it.
///
/// Mutable state: `asked`, protected by its mutex, which is never held during a call.
final class MergedGuests: Sendable {
    /// A question that the server has answered since the app came to the foreground.
    private struct Question: Hashable {
        let account: Identifier
        let guests: Set<Identifier>
    }

    /// The largest number of guests in one request.
    static let limit = 20

    private let services: ClientServices
    private let asked = Mutex<Set<Question>>([])

    init(services: ClientServices) { self.services = services }

    private var configuration: SanguineClient.Configuration { services.configuration }

    /// Asks again what the server has answered, because a guest may have been merged since.
    func askAgain() { asked.withLock { $0 = [] } }

    /// Returns those of the guests that are parts of the account of an access token.
    ///
    /// - Returns: None if the server does not know the request.
    /// - Throws: ``SanguineError`` if the server cannot be asked.
    func confirmed(
        _ guests: [Identifier],
        token: String
    ) async throws(SanguineError) -> Set<Identifier> {
        try await confirmed(guests) { request async throws(SanguineError) in
            var request = request
            request.headers.setHeader("Authorization", "Bearer \(token)")
            return try await services.exchange.send(request)
        }
    }

    /// Returns those of the guests that are parts of the user's account.
    ///
    /// - Returns: `nil` if the server has answered this already, or cannot be asked now.
    func newlyConfirmed(_ guests: Set<Identifier>, for user: UserScope) async -> Set<Identifier>? {
        guard configuration.server != nil, !guests.isEmpty,
            let account = user.authorizer.account, !user.authorizer.needsSignIn
        else { return nil }
        let question = Question(account: account, guests: guests)
        guard asked.withLock({ $0.insert(question).inserted }) else { return nil }
        do throws(SanguineError) {
            let confirmed = try await confirmed(guests.sorted()) {
                request async throws(SanguineError) in
                try await user.functions.call.send(request)
            }
            // The answers are about the account of the question.
            return user.authorizer.account == account ? confirmed : nil
        } catch {
            asked.withLock { _ = $0.remove(question) }
            return nil
        }
    }

    /// Returns those of the guests that are parts of an account, in as many requests as it takes.
    private func confirmed(
        _ guests: [Identifier],
        _ send: (TransportRequest) async throws(SanguineError) -> TransportResponse
    ) async throws(SanguineError) -> Set<Identifier> {
        var confirmed: Set<Identifier> = []
        for start in stride(from: 0, to: guests.count, by: Self.limit) {
            let request = try request(guests.dropFirst(start).prefix(Self.limit))
            confirmed.formUnion(
                try await answer { () async throws(SanguineError) in try await send(request) }
            )
        }
        return confirmed
    }

    private func request(_ ids: ArraySlice<Identifier>) throws(SanguineError) -> TransportRequest {
        let ids = ids.map(\.description).joined(separator: ",")
        return try TransportRequest(
            base: configuration.server,
            path: "/v1/account/guests",
            query: [URLQueryItem(name: "ids", value: ids)],
            timeout: SessionLimits.requestTimeout
        )
    }

    private func answer(
        _ send: () async throws(SanguineError) -> TransportResponse
    ) async throws(SanguineError) -> Set<Identifier> {
        let schedule = configuration.schedule(RetrySchedule(attempts: SessionLimits.attempts))
        var failures = 0
        while true {
            do throws(SanguineError) {
                let guests = try WireCoding.decode(Items<FormerGuest>.self, from: try await send())
                return Set(guests.items.map(\.id))
            } catch {
                // An older server has no such endpoint, and no guests whose devices wait.
                if case .problem(let problem) = error, [404, 405].contains(problem.status) {
                    return []
                }
                failures += 1
                var random = configuration.random
                let delay = schedule.delay(afterFailures: failures, of: error, using: &random)
                guard let delay, (try? await configuration.delay.sleep(for: delay)) != nil else {
                    throw error
                }
            }
        }
    }
}
