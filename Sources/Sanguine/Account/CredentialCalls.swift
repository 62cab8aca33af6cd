import Foundation
import SanguineModel

/// Sends the user's credentials, and continues with the sessions that the server issues for them.
///
/// Every request has an idempotency key, and is sent again under the same key if its answer is
/// lost.
struct CredentialCalls: Sendable {
    let users: UserSwitcher

    private var services: ClientServices { users.services }
    private var configuration: SanguineClient.Configuration { services.configuration }

    /// The way in which a request proves who sends it.
    enum Proof {
        /// The user's token; signs in a guest if there is no user.
        case token
        /// The token of a guest, who becomes a part of the account; otherwise none, as for a guest
        /// who was registered or merged on another device.
        case guestToken
        /// The token of a guest, without which the request is meaningless.
        case guest
        /// None.
        case nothing
    }

    /// Sends a request with a session as its answer, and continues with it.
    ///
    /// - Returns: The account.
    func signIn(
        _ path: String,
        _ body: some Encodable & Sendable,
        _ proof: Proof
    ) async throws(SanguineError) -> Account {
        let user = users.current
        let mayBeUpgraded = user.session.isGuest && proof == .token
        let response: TransportResponse
        do throws(SanguineError) {
            response = try await send("POST", path, body, proof, as: user)
        } catch {
            guard mayBeUpgraded, let account = try await upgraded(user, error) else {
                throw error
            }
            return account
        }
        let answer = try WireCoding.decode(SignedIn.self, from: response)
        let device = try user.session.deviceId()
        let wasGuest = user.session.isGuest
        var session = StoredSession(answer, device: device, at: configuration.clock.now())
        if configuration.plantedFault == .forgetsRegistration { session.isRegistered = nil }
        if session.mergedFrom == nil { session.mergedFrom = try await formerGuest(user, answer) }
        let former = try users.adopt(session, for: user)
        let analytics = services.metrics.analytics
        if answer.merged != nil {
            analytics.post(.merged)
        } else if wasGuest, answer.account.kind == .registered,
            answer.account.id == session.account, proof == .token
        {
            analytics.post(.upgraded)
        }
        let next = users.current
        if next.session.account == answer.account.id {
            services.queries.set(answer.account, for: .account, in: next.cacheScope)
            next.locale.received(answer.account)
        }
        if let former { await user.session.notifyServer(ofEnd: former) }
        await users.takeOverMergedGuests(for: next)
        return answer.account
    }

    /// Returns the guest of this device who has become a part of the answered account, but not by
    /// this request: on another device, or because this device has joined the account.
    ///
    /// Only the server's word counts. If the server cannot be asked, the sign-in fails and changes
    /// nothing, because the waiting operations must neither be lost nor sent as another account.
    private func formerGuest(
        _ user: UserScope,
        _ answer: SignedIn
    ) async throws(SanguineError) -> Identifier? {
        guard let guest = user.session.guest, guest != answer.account.id else { return nil }
        let token = answer.session.accessToken
        do throws(SanguineError) {
            let isPart = try await MergedGuests(services: services)
                .confirmed([guest], token: token).contains(guest)
            return isPart ? guest : nil
        } catch {
            let session = StoredSession(
                answer,
                device: nil,
                at: configuration.clock.now()
            )
            await user.session.notifyServer(ofEnd: session)
            throw error
        }
    }

    /// Returns the account if the guest was registered by a request whose answer was lost.
    ///
    /// The registration has ended the guest's session, and the secret of the device has opened the
    /// registered account. The repetition was then refused, because its code or token was used.
    private func upgraded(
        _ user: UserScope,
        _ error: SanguineError
    ) async throws(SanguineError) -> Account? {
        guard case .problem = error, !user.session.isGuest, users.current === user else {
            return nil
        }
        let response = try await send("GET", "/v1/account", as: user)
        let account = try WireCoding.decode(Account.self, from: response)
        guard account.kind == .registered, account.id == user.session.account else { return nil }
        services.metrics.analytics.post(.upgraded)
        services.queries.set(account, for: .account, in: user.cacheScope)
        return account
    }

    /// Sends a request, again under the same key if its answer is lost.
    ///
    /// - Returns: The response, with a status from 200 to 299.
    @discardableResult
    func send(
        _ method: String,
        _ path: String,
        _ body: (some Encodable & Sendable)? = nil as String?,
        _ proof: Proof = .token,
        as user: UserScope? = nil
    ) async throws(SanguineError) -> TransportResponse {
        if let refusal = configuration.refusal { throw refusal }
        let user = user ?? users.current
        var json: Data?
        if let body { json = try WireCoding.encode(body, as: "the body of \(path)") }
        var headers: [String: String] = [:]
        if method != "GET" {
            var random = configuration.random
            let key = Identifier(at: configuration.clock.now(), using: &random)
            headers["Idempotency-Key"] = key.description
        }
        let request = try TransportRequest(
            method: method,
            base: configuration.server,
            path: path,
            headers: headers,
            json: json,
            timeout: SessionLimits.requestTimeout
        )
        return try await send(request, proof, as: user)
    }

    private func send(
        _ request: TransportRequest,
        _ proof: Proof,
        as user: UserScope
    ) async throws(SanguineError) -> TransportResponse {
        let schedule = configuration.schedule(RetrySchedule(attempts: SessionLimits.attempts))
        if proof == .token { user.authorizer.allowSignIn() }
        var failures = 0
        while true {
            let isAuthorized =
                proof == .token || proof == .guest
                || proof == .guestToken && user.session.isGuest
            do throws(SanguineError) {
                guard isAuthorized else {
                    try user.authorizer.check()
                    return try await services.exchange.send(request)
                }
                return try await user.functions.call.send(request)
            } catch {
                // The guest belongs to a registered account, so its token is no longer valid.
                if isAuthorized, proof == .guestToken, user.session.isRegisteredElsewhere {
                    continue
                }
                failures += 1
                var random = configuration.random
                guard error.isTransport,
                    let delay = schedule.delay(afterFailures: failures, of: error, using: &random),
                    (try? await configuration.delay.sleep(for: delay)) != nil
                else { throw error }
            }
        }
    }
}

extension SanguineError {
    /// Whether there was no response, so that the request may be sent again under its key.
    fileprivate var isTransport: Bool {
        if case .transport = self { true } else { false }
    }
}
