import Foundation
import Logging
import SanguineModel
import Synchronization

/// Keeps the user signed in: makes a guest at the first need, refreshes, signs out.
///
/// Any number of callers at once cause one request and get one session. The request runs in a task
/// of its own, so a caller who gives up disturbs nobody.
///
/// Sign-out ends the session and removes what is the user's. The device's identity stays: whoever
/// calls next is signed in as this device's guest again, the same account with the same balance. A
/// guest has nothing else to come back with, and a new account per sign-out would be a new grant.
///
/// Mutable state: `guarded`, by its mutex, never held over I/O or code from outside; and the stored
/// session, by `storing`, which orders a flight's write and a sign-out's removal. Changes of the
/// epoch are told one after the other, each to all parts of the client, by `changing`: what is done
/// in a user's name is theirs before they can sign out. It is held over the parts, which neither
/// wait for the network nor come back here.
///
/// A class with locks and not an actor, because ``epoch`` must answer at once.
final class SessionKeeper: Authorizer {
    static let stateName = "session"
    /// Logged when the epoch is a new one, before any part of the client is told.
    static let changes: Logger.Message = "The session changes."

    private struct Flight {
        let outcome: OneShot<String>
        var task: Task<Void, Never>?
    }

    private struct Guarded {
        var state: SessionState
        var flights: [Int: Flight] = [:]
        var observers: [@Sendable (SessionEpoch) -> Void] = []
        /// Ends the waiting of those who want a token before the present epoch was told.
        var telling: OneShot<Void>?
        var isClosed = false
    }

    private enum Step {
        case use(String)
        case wait(OneShot<String>)
        case start(SessionState.Request, Int, OneShot<String>)
        case hold(OneShot<Void>)
    }

    private let guarded: Mutex<Guarded>
    private let storing = Mutex(())
    private let changing = Mutex(())
    private let configuration: SanguineClient.Configuration
    private let exchange: Exchange
    private let store: ClientStore
    private let vault: any IdentityVault
    private let schedule: RetrySchedule

    /// Restores the session that an earlier process left.
    init(
        configuration: SanguineClient.Configuration,
        exchange: Exchange,
        store: ClientStore,
        vault: any IdentityVault
    ) {
        self.configuration = configuration
        schedule = configuration.schedule(RetrySchedule(attempts: SessionLimits.attempts))
        self.exchange = exchange
        self.store = store
        self.vault = vault
        let stored = try? store.state(Self.stateName).flatMap {
            try WireCoding.decode(StoredSession.self, from: $0)
        }
        guarded = Mutex(Guarded(state: SessionState(restoring: stored)))
    }

    var epoch: SessionEpoch { guarded.withLock { $0.state.epoch } }

    /// The account in whose epoch all parts of the client are; `nil` while that changes, too.
    var settledAccount: Identifier? {
        guarded.withLock { $0.state.isTold ? $0.state.epoch.account : nil }
    }

    /// Calls the observer with every epoch from now on: another account, a sign-out, an account
    /// that became known.
    ///
    /// Before anyone is given that epoch's token, or the sign-out returns: whoever asks for a token
    /// meanwhile waits until all observers have returned.
    func onChange(_ observer: @escaping @Sendable (SessionEpoch) -> Void) {
        guarded.withLock { $0.observers.append(observer) }
    }

    func accessToken(for epoch: SessionEpoch) async throws(SanguineError) -> String {
        let now = configuration.clock.now()
        return try await token(for: epoch) { $0.need(at: now) }
    }

    func rejected(
        _ token: String,
        for epoch: SessionEpoch
    ) async throws(SanguineError) -> String {
        let now = configuration.clock.now()
        return try await self.token(for: epoch) { $0.rejected(token, at: now) }
    }

    /// The id by which the server knows this device.
    func deviceId() throws(SanguineError) -> String {
        if let deviceId = configuration.deviceId { return deviceId }
        return try vault.identity().deviceId
    }

    /// Signs the user out.
    ///
    /// Everything local is done before this suspends; then the server is told, once.
    nonisolated(nonsending) func signOut() async {
        let ended = changing.withLock { _ in
            let (ended, flight, epoch) = guarded.withLock { guarded in
                let (ended, overtaken) = guarded.state.signedOut()
                let flight = overtaken.flatMap { guarded.flights.removeValue(forKey: $0) }
                return (ended, flight, guarded.state.epoch)
            }
            configuration.logger.debug(Self.changes, metadata: ["to": "nobody"])
            flight?.task?.cancel()
            flight?.outcome.resolve(.failure(.userChanged))
            storing.withLock { _ in forget(before: epoch.number) }
            tell(epoch)
            return ended
        }
        if let ended { await end(ended) }
    }

    /// Ends all waiting with ``SanguineError/closed``.
    ///
    /// The session stays stored.
    func close() {
        let (flights, telling) = guarded.withLock { guarded in
            guarded.isClosed = true
            guarded.observers = []  // They hold the caches, and the caches hold this object.
            defer { (guarded.flights, guarded.telling) = ([:], nil) }
            return (guarded.flights.values, guarded.telling)
        }
        telling?.resolve(.failure(.closed))
        for flight in flights {
            flight.task?.cancel()
            flight.outcome.resolve(.failure(.closed))
        }
    }

    /// How many callers wait for a session.
    var waiting: Int {
        let (flights, telling) = guarded.withLock { ($0.flights.values.map(\.outcome), $0.telling) }
        return flights.reduce(telling?.waiting ?? 0) { $0 + $1.waiting }
    }
}

// MARK: - Flights

extension SessionKeeper {
    private func token(
        for epoch: SessionEpoch,
        _ event: (inout SessionState) -> SessionState.Need
    ) async throws(SanguineError) -> String {
        guard configuration.server != nil else {
            throw .notConfigured("'server', which calls of the Sanguine server need")
        }
        while true {
            switch try step(for: epoch, event) {
            case .use(let token):
                return token
            case .wait(let outcome):
                return try await outcome.value()
            case .start(let request, let flight, let outcome):
                let task = Task { await fly(request, flight) }
                guarded.withLock { $0.flights[flight]?.task = task }
                return try await outcome.value()
            case .hold(let telling):
                try await telling.value()
            }
        }
    }

    private func step(
        for epoch: SessionEpoch,
        _ event: (inout SessionState) -> SessionState.Need
    ) throws(SanguineError) -> Step {
        try guarded.withLock { guarded throws(SanguineError) -> Step in
            guard !guarded.isClosed else { throw .closed }
            // Under the lock: no sign-out comes between this and a flight that signs in.
            guard guarded.state.epoch.number == epoch.number else { throw .userChanged }
            switch event(&guarded.state) {
            case .use(let token):
                return .use(token)
            case .wait(let flight):
                guard let outcome = guarded.flights[flight]?.outcome else { throw .userChanged }
                return .wait(outcome)
            case .start(let request, let flight):
                let outcome = OneShot<String>()
                guarded.flights[flight] = Flight(outcome: outcome)
                return .start(request, flight, outcome)
            case .hold:
                let telling = guarded.telling ?? OneShot<Void>()
                guarded.telling = telling
                return .hold(telling)
            }
        }
    }

    private func fly(_ first: SessionState.Request, _ flight: Int) async {
        var request = first
        var failures = 0
        // A sign-out that came before the task was known could not cancel it.
        while guarded.withLock({ $0.state.isCurrent(flight) }) {
            do throws(SanguineError) {
                land(try await perform(request, flight), flight)
                return
            } catch {
                failures += 1
                var random = configuration.random
                if let delay = schedule.delay(afterFailures: failures, of: error, using: &random) {
                    // A refresh whose answer was lost is sent again with the same token, and the
                    // server gives the same successor.
                    if (try? await configuration.delay.sleep(for: delay)) != nil { continue }
                }
                guard let next = failed(error, flight) else { return }
                request = next
                failures = 0
            }
        }
    }

    /// Makes one request, and stores the session that it brings.
    private func perform(
        _ request: SessionState.Request,
        _ flight: Int
    ) async throws(SanguineError) -> StoredSession {
        let new: StoredSession
        switch request {
        case .guest:
            // Kept before the server hears of it: a kill from here on comes back to this account.
            let device = try vault.identity()
            let body = GuestRequest(
                deviceId: configuration.deviceId ?? device.deviceId,
                deviceSecret: device.deviceSecret,
                timeZone: configuration.timeZone,
                language: configuration.language
            )
            let answer = try await post("/v1/accounts/guest", body, as: SignedIn.self)
            new = StoredSession(
                answer.session,
                account: answer.account.id,
                at: configuration.clock.now()
            )
        case .refresh(let token):
            let body = RefreshRequest(refreshToken: token)
            let answer = try await post("/v1/sessions/refresh", body, as: Refreshed.self)
            guard let account = epoch.account else { throw .userChanged }
            new = StoredSession(answer.session, account: account, at: configuration.clock.now())
        }
        storing.withLock { _ in
            // A sign-out comes wholly before, then nothing is written, or its removal comes after.
            let (isCurrent, before) = guarded.withLock { guarded in
                (guarded.state.isCurrent(flight), guarded.state.epoch)
            }
            guard isCurrent else { return }
            // Another user without a sign-out between them: nothing of the first may stay.
            if let account = before.account, account != new.account {
                forget(before: before.number + 1)
            }
            write(new)
        }
        return new
    }

    private func land(_ session: StoredSession, _ flight: Int) {
        let outcome = changing.withLock { _ -> OneShot<String>? in
            let (landing, epoch) = guarded.withLock { guarded in
                (guarded.state.landed(session, flight: flight), guarded.state.epoch)
            }
            guard landing != .overtaken else { return nil }
            configuration.logger.debug(Self.changes, metadata: ["to": "the session's account"])
            tell(epoch)
            return guarded.withLock { $0.flights.removeValue(forKey: flight)?.outcome }
        }
        // Only now: whoever gets the token finds the caches in the token's epoch.
        outcome?.resolve(.success(session.accessToken))
    }

    /// Returns the request to fly on with, or `nil` if the flight is over.
    private func failed(_ error: SanguineError, _ flight: Int) -> SessionState.Request? {
        var code: ProblemCode?
        if case .problem(let problem) = error { code = problem.code }
        let now = configuration.clock.now()
        let (landing, alive, outcome) = guarded.withLock { guarded in
            let landing = guarded.state.failed(code, flight: flight)
            // Refreshed ahead of time and in vain: until it expires the old token is good.
            let alive = guarded.state.session.flatMap {
                $0.isRejected || $0.isExpired(at: now) ? nil : $0.accessToken
            }
            let isOver = landing == .failed
            let outcome = isOver ? guarded.flights.removeValue(forKey: flight)?.outcome : nil
            return (landing, alive, outcome)
        }
        if case .goOn(let next) = landing { return next }
        outcome?.resolve(alive.map { .success($0) } ?? .failure(error))
        return nil
    }
}

// MARK: - Effects

extension SessionKeeper {
    private func post<Answer: Decodable>(
        _ path: String,
        _ body: some Encodable,
        as type: Answer.Type
    ) async throws(SanguineError) -> Answer {
        guard let json = try? WireCoding.encode(body) else {
            throw .decoding("the body of \(path) cannot be encoded")
        }
        let request = try TransportRequest(
            method: "POST",
            base: configuration.server,
            path: path,
            json: json,
            timeout: SessionLimits.requestTimeout
        )
        return try WireCoding.decode(type, from: try await exchange.send(request).body)
    }

    /// Tells the server of a sign-out.
    ///
    /// If it cannot be told, the session ends there by age.
    private nonisolated(nonsending) func end(_ session: StoredSession) async {
        do throws(SanguineError) {
            let request = try TransportRequest(
                method: "DELETE",
                base: configuration.server,
                path: "/v1/sessions/current",
                headers: ["Authorization": "Bearer \(session.accessToken)"],
                timeout: SessionLimits.signOutTimeout
            )
            _ = try await exchange.send(request)
        } catch {
            configuration.logger.info(
                "The server could not be told of a sign-out.",
                metadata: ["reason": "\(error.code)"]
            )
        }
    }

    private func forget(before epoch: UInt64) {
        do {
            try store.forgetUser(before: epoch)
        } catch {
            configuration.logger.error(
                "The signed-out user is still on disk, unread. It is tried again.",
                metadata: ["reason": "\(error)"]
            )
        }
    }

    private func write(_ session: StoredSession) {
        do {
            try store.setState(Self.stateName, try WireCoding.encode(session))
        } catch {
            // The session works on in memory. After a restart the device's secret makes another.
            configuration.logger.error(
                "The session could not be stored.",
                metadata: ["reason": "\(error)"]
            )
        }
    }

    private func tell(_ epoch: SessionEpoch) {
        for observer in guarded.withLock({ $0.observers }) { observer(epoch) }
        let telling = guarded.withLock { guarded in
            guarded.state.told(epoch)
            return guarded.state.isTold ? guarded.telling.take() : nil
        }
        telling?.resolve(.success(()))
    }
}
