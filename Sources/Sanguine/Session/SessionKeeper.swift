import Logging
import SanguineModel
import Synchronization

/// Keeps one user signed in: creates a guest when one is needed, refreshes the session, and ends
/// with the user.
///
/// Concurrent callers share one request and get one session. The request runs in its own task, so a
/// cancelled caller does not affect the others.
///
/// The device's identity outlives the user: an app that calls after a sign-out is signed in as this
/// device's guest again, with the same account and the same balance. A guest has no other
/// credentials, and a new account at each sign-out would mean a new grant. After the sign-out of a
/// registered user, the device becomes another guest, without a grant.
///
/// Mutable state: `guarded`, protected by its mutex, which is never held during I/O or calls of
/// other code.
///
/// A class with a lock instead of an actor, because ``account`` and ``check()`` return at once.
final class SessionKeeper: Authorizer {
    static let stateName = "session"

    /// The callbacks for changes of the session, called with no lock held.
    struct Handlers: Sendable {
        /// The account has become known, or the user has signed in again; called before the token
        /// is returned to callers.
        var signedIn: @Sendable (_ account: Identifier, _ isFirst: Bool) -> Void
        /// The server knows the device as another account, either of another user or, if a guest's
        /// device identity was lost, of the same user.
        var replaced: @Sendable (_ session: StoredSession, _ isSameGuest: Bool) -> Void
        /// The guest has become a part of another account, which continues with everything.
        var merged: @Sendable (_ session: StoredSession) -> Void = { _ in }
        /// The account was deleted on another device, or by an administrator.
        var deleted: @Sendable () -> Void = {}
        /// The server has sent the account with a session that is not stored yet.
        var answered: @Sendable (Account) -> Void = { _ in }
    }

    private struct RunningRequest {
        let outcome: OneShot<String>
        var task: Task<Void, Never>?
    }

    private struct Guarded {
        var state: SessionState
        var requests: [Int: RunningRequest] = [:]
        var handlers: Handlers?
        /// The user that the app has named, if there is no server.
        var named: AccountKey?
        /// The device identity of the user's sessions if they are a guest.
        var guestDevice: String?
        /// The wait before the next request for a guest, if the server has named one.
        var pause: GuestPause?
        /// The reason why no more tokens are returned.
        var ending: SanguineError?
        /// Whether the server has answered that the account was deleted.
        var accountIsDeleted = false
    }

    private enum Step {
        case use(String)
        case wait(OneShot<String>)
        case start(SessionState.Request, Int, OneShot<String>)
    }

    private let guarded: Mutex<Guarded>
    private let configuration: SanguineClient.Configuration
    private let exchange: Exchange
    private let store: ClientStore
    private let vault: any IdentityVault
    private let analytics: ClientAnalytics?
    private let schedule: RetrySchedule
    private let attestation: AttestationKeeper

    /// Restores the session that an earlier process left in the user's store; without a server, the
    /// user is the one that the app has named.
    init(
        configuration: SanguineClient.Configuration,
        exchange: Exchange,
        store: ClientStore,
        vault: any IdentityVault,
        analytics: ClientAnalytics? = nil,
        named: AccountKey? = nil,
        isSignedOut: Bool = false
    ) {
        self.configuration = configuration
        schedule = configuration.schedule(RetrySchedule(attempts: SessionLimits.attempts))
        self.exchange = exchange
        self.store = store
        self.vault = vault
        self.analytics = analytics
        attestation = AttestationKeeper(configuration, exchange, store)
        let stored = try? store.state(Self.stateName).flatMap {
            try WireCoding.decode(StoredSession.self, from: $0)
        }
        guarded = Mutex(
            Guarded(
                state: SessionState(restoring: stored, isSignedOut: isSignedOut),
                named: named,
                guestDevice: stored?.guestDevice
            )
        )
    }

    /// The user's account, once it is known; `nil` after the user has left.
    var account: Identifier? {
        guarded.withLock { $0.ending == .userChanged ? nil : $0.state.account }
    }

    var owner: AccountKey? {
        guarded.withLock { guarded in
            guard guarded.ending != .userChanged else { return nil }
            return guarded.state.account.map { AccountKey($0) } ?? guarded.named
        }
    }

    var maySignIn: Bool { guarded.withLock { $0.state.maySignIn } }

    func allowSignIn() { guarded.withLock { $0.state.allowSignIn() } }

    /// Sets the user that the app has named.
    ///
    /// - Throws: The reason if the user has already ended.
    func name(_ owner: AccountKey) throws(SanguineError) {
        try guarded.withLock { guarded throws(SanguineError) in
            if let ending = guarded.ending { throw ending }
            guarded.named = owner
        }
    }

    /// Sets the handlers.
    func onChange(_ handlers: Handlers) { guarded.withLock { $0.handlers = handlers } }

    func accessToken() async throws(SanguineError) -> String {
        let now = configuration.clock.now()
        return try await token { $0.need(at: now) }
    }

    func rejected(_ token: String) async throws(SanguineError) -> String {
        let now = configuration.clock.now()
        return try await self.token { $0.rejected(token, at: now) }
    }

    func check() throws(SanguineError) {
        if let ending = guarded.withLock({ $0.ending }) { throw ending }
    }

    /// Returns the id by which the server knows this device.
    func deviceId() throws(SanguineError) -> String {
        if let deviceId = configuration.deviceId { return deviceId }
        return try vault.identity().deviceId
    }

    /// Whether the user is a guest of this device, whose tokens prove that a merge is meant.
    var isGuest: Bool { guest != nil && !isRegisteredElsewhere }

    /// The guest of this device that the user is, or was until another device has registered or
    /// merged the guest; `nil` for a registered or unknown user.
    var guest: Identifier? {
        guarded.withLock { $0.guestDevice == nil ? nil : $0.state.account }
    }

    /// Whether the guest was registered or merged on another device, so that the user must sign in.
    var isRegisteredElsewhere: Bool { guarded.withLock { $0.state.isRegisteredElsewhere } }

    var needsSignIn: Bool { guarded.withLock { $0.state.needsSignIn } }

    /// Whether the user has ended, or is about to end, because the account was deleted.
    var accountIsDeleted: Bool { guarded.withLock { $0.accountIsDeleted } }

    /// The newest refresh token, which proves that the user's own device asks.
    var refreshToken: String? { guarded.withLock { $0.state.session?.refreshToken } }

    /// The identity of the device, created if there is none yet.
    func device() throws(SanguineError) -> DeviceIdentity {
        let identity = try vault.identity()
        return DeviceIdentity(
            deviceId: configuration.deviceId ?? identity.deviceId,
            deviceSecret: identity.deviceSecret
        )
    }

    /// Continues with a session that the server has issued for the user's credentials.
    ///
    /// It is stored before it is used. Callers that wait for a token get the new one.
    ///
    /// - Throws: The reason if the user has ended.
    func adopt(_ session: StoredSession) throws(SanguineError) {
        try check()
        Self.write(session, to: store, configuration.logger)
        let requests = try guarded.withLock {
            guarded throws(SanguineError) -> [RunningRequest] in
            if let ending = guarded.ending { throw ending }
            guarded.state.adopt(session)
            guarded.guestDevice = session.guestDevice
            defer { guarded.requests = [:] }
            return Array(guarded.requests.values)
        }
        for request in requests {
            request.task?.cancel()
            request.outcome.resolve(.success(session.accessToken))
        }
    }

    func end(_ reason: SanguineError) -> Ended {
        let (session, requests) = guarded.withLock { guarded in
            guarded.ending = guarded.ending ?? reason
            guarded.handlers = nil  // They hold the scope, which holds this object.
            defer { guarded.requests = [:] }
            return (guarded.state.end(), Array(guarded.requests.values))
        }
        for request in requests { request.task?.cancel() }
        return Ended(session: session) {
            for request in requests { request.outcome.resolve(.failure(reason)) }
        }
    }

    /// The session at one moment, for a report: without tokens and secrets.
    struct Survey: Sendable {
        let isGuest: Bool
        /// Whether no guest is created, because a user has signed out.
        let isSignedOut: Bool
        /// The id by which the server knows this device, if it is known without creating one.
        let device: String?
        /// The time at which the access token expires; `nil` without a session.
        let expiry: Timestamp?
        /// Whether the server has rejected the access token.
        let isRejected: Bool
    }

    /// The session at one moment, for a report.
    func survey() -> Survey {
        guarded.withLock { guarded in
            let session = guarded.state.session
            return Survey(
                isGuest: guarded.guestDevice != nil,
                isSignedOut: !guarded.state.maySignIn,
                device: configuration.deviceId ?? guarded.guestDevice,
                expiry: session.map { $0.receivedAt + .seconds($0.expiresIn) },
                isRejected: session?.isRejected ?? false
            )
        }
    }

    /// The number of callers that wait for a session.
    var waiting: Int {
        let requests = guarded.withLock { $0.requests.values.map(\.outcome) }
        return requests.reduce(0) { $0 + $1.waiting }
    }
}

// MARK: - Requests

extension SessionKeeper {
    private func token(
        _ event: (inout SessionState) -> SessionState.Need
    ) async throws(SanguineError) -> String {
        guard configuration.server != nil else {
            throw .notConfigured("'server', which calls of the Sanguine server need")
        }
        switch try step(event) {
        case .use(let token):
            return token
        case .wait(let outcome):
            return try await outcome.value()
        case .start(let request, let requestNumber, let outcome):
            let task = Task { await runRequest(request, requestNumber) }
            guarded.withLock { $0.requests[requestNumber]?.task = task }
            return try await outcome.value()
        }
    }

    private func step(
        _ event: (inout SessionState) -> SessionState.Need
    ) throws(SanguineError) -> Step {
        try guarded.withLock { guarded throws(SanguineError) -> Step in
            // Under the lock, so that no sign-out comes between this check and a request that signs
            // in.
            if let ending = guarded.ending { throw ending }
            if guarded.state.mayCreateGuest,
                let problem = guarded.pause?.problem(at: configuration.clock.now())
            {
                throw .problem(problem)
            }
            switch event(&guarded.state) {
            case .refuse: throw .userChanged
            case .ended:
                let isGuest = guarded.state.isRegisteredElsewhere
                throw .problem(isGuest ? .guestRegistered : .signInNeeded)
            case .use(let token):
                return .use(token)
            case .wait(let requestNumber):
                guard let outcome = guarded.requests[requestNumber]?.outcome else {
                    throw .userChanged
                }
                return .wait(outcome)
            case .start(let request, let requestNumber):
                let outcome = OneShot<String>()
                guarded.requests[requestNumber] = RunningRequest(outcome: outcome)
                return .start(request, requestNumber, outcome)
            }
        }
    }

    private func runRequest(_ first: SessionState.Request, _ requestNumber: Int) async {
        var request = first
        var failures = 0
        // If the user ended before the task was stored, the task could not be cancelled.
        while guarded.withLock({ $0.state.isCurrent(requestNumber) }) {
            do throws(SanguineError) {
                complete(try await perform(request), requestNumber)
                return
            } catch {
                failures += 1
                var random = configuration.random
                if let delay = schedule.delay(afterFailures: failures, of: error, using: &random) {
                    // A refresh whose response was lost is sent again with the same token, and the
                    // server returns the same successor.
                    if (try? await configuration.delay.sleep(for: delay)) != nil { continue }
                }
                guard let next = failed(error, requestNumber) else { return }
                request = next
                failures = 0
            }
        }
    }

    /// Sends one request for a session.
    private func perform(
        _ request: SessionState.Request
    ) async throws(SanguineError) -> StoredSession {
        switch request {
        case .guest:
            // Stored before the server sees it, so that a killed process returns to this account.
            let device = try device()
            let body = GuestRequest(
                deviceId: device.deviceId,
                deviceSecret: device.deviceSecret,
                timeZone: configuration.currentTimeZone,
                language: configuration.language,
                guest: guest
            )
            let answer = try await guest(body)
            guarded.withLock { $0.handlers }?.answered(answer.account)
            let now = configuration.clock.now()
            var session = StoredSession(answer, device: body.deviceId, at: now)
            session.mergedFrom =
                answer.account.kind == .guest ? nil : mergedGuest(answer, body.deviceId)
            return session
        case .refresh(let token):
            let body = RefreshRequest(refreshToken: token, account: self.account)
            let response = try await attestation.send(body) { body throws(SanguineError) in
                try await post("/v1/sessions/refresh", body)
            }
            let answer = try WireCoding.decode(Refreshed.self, from: response.body)
            guard let account else { throw .userChanged }
            var session = StoredSession(
                answer.session,
                account: account,
                at: configuration.clock.now()
            )
            guarded.withLock { guarded in
                session.guestDevice = guarded.guestDevice
                session.isRegistered = guarded.state.session?.isRegistered
            }
            return session
        }
    }

    /// The user of this session, if they are a guest who has become a part of the answered account.
    ///
    /// The answer to the merge itself may have been lost. The same device then finds the account
    /// that it belongs to now.
    private func mergedGuest(_ answer: SignedIn, _ device: String) -> Identifier? {
        let (account, former) = guarded.withLock { ($0.state.account, $0.guestDevice) }
        guard let account, account != answer.account.id else { return nil }
        return answer.merged?.from == account || former == device ? account : nil
    }

    private func complete(_ session: StoredSession, _ requestNumber: Int) {
        // Stored before it is used. After the user has left, the store accepts nothing.
        let mayStore = guarded.withLock { guarded in
            guarded.state.isCurrent(requestNumber)
                && [nil, session.account].contains(guarded.state.account)
        }
        if mayStore { Self.write(session, to: store, configuration.logger) }
        let (completion, handlers, isSameGuest) = guarded.withLock { guarded in
            let completion = guarded.state.completed(session, requestNumber: requestNumber)
            // A restored backup contains the guest's files without the device's identity.
            let former = guarded.guestDevice
            let isSameGuest =
                former != nil && session.guestDevice != nil && former != session.guestDevice
            if case .signedIn = completion { guarded.guestDevice = session.guestDevice }
            return (completion, guarded.handlers, isSameGuest)
        }
        switch completion {
        case .signedIn(let isFirst):
            handlers?.signedIn(session.account, isFirst)
            let outcome = guarded.withLock {
                $0.requests.removeValue(forKey: requestNumber)?.outcome
            }
            outcome?.resolve(.success(session.accessToken))
        case .otherAccount:
            if session.mergedFrom != nil {
                handlers?.merged(session)
            } else {
                handlers?.replaced(session, isSameGuest)
            }
        case .overtaken, .failed, .accountDeleted, .goOn: break
        }
    }

    /// Handles a failure; returns the next request, or `nil` if there is none.
    private func failed(_ error: SanguineError, _ requestNumber: Int) -> SessionState.Request? {
        var code: ProblemCode?
        if case .problem(let problem) = error { code = problem.code }
        let now = configuration.clock.now()
        let (completion, alive, outcome, handlers) = guarded.withLock { guarded in
            if guarded.state.isCurrent(requestNumber), guarded.state.isCreatingGuest {
                guarded.pause = GuestPause(error, at: now)
            }
            let completion = guarded.state.failed(code, requestNumber: requestNumber)
            // If an early refresh has failed, the old token is valid until it expires.
            let alive = guarded.state.session.flatMap {
                $0.isRejected || $0.isExpired(at: now) ? nil : $0.accessToken
            }
            if completion == .accountDeleted { guarded.accountIsDeleted = true }
            let isOver = [.failed, .accountDeleted].contains(completion)
            let outcome =
                isOver ? guarded.requests.removeValue(forKey: requestNumber)?.outcome : nil
            return (completion, alive, outcome, guarded.handlers)
        }
        if case .goOn(let next) = completion { return next }
        if completion == .accountDeleted {
            outcome?.resolve(.failure(error))
            handlers?.deleted()
            return nil
        }
        outcome?.resolve(alive.map { .success($0) } ?? .failure(error))
        return nil
    }
}

// MARK: - Actions

extension SessionKeeper {
    /// Requests the account of the device: its guest, or the account that it has become.
    private func guest(_ body: GuestRequest) async throws(SanguineError) -> SignedIn {
        let response = try await postGuest(body)
        let answer = try WireCoding.decode(SignedIn.self, from: response.body)
        if response.status == 201 { analytics?.post(.guestCreated) }
        return answer
    }

    /// Requests a guest, with the proof of the store if there is one that the server accepts.
    private func postGuest(
        _ body: GuestRequest
    ) async throws(SanguineError) -> TransportResponse {
        guard let proof = await configuration.appTransactionProof() else {
            return try await postAttested(body)
        }
        var proven = body
        proven.signedAppTransaction = proof.signedAppTransaction
        proven.deviceVerificationId = proof.deviceVerificationId
        do throws(SanguineError) {
            return try await postAttested(proven)
        } catch {
            guard error.refusesProof else { throw error }
            configuration.logger.warning(
                "The server has refused the app transaction.",
                metadata: ["reason": "\(error.code)"]
            )
            return try await postAttested(body)
        }
    }

    private func postAttested(
        _ body: GuestRequest
    ) async throws(SanguineError) -> TransportResponse {
        try await attestation.send(body) { body throws(SanguineError) in
            try await postEndingFormer(body)
        }
    }

    /// Sends a request for a guest, and again if it has found the account of a former user.
    ///
    /// A sign-out may not have reached the server, for which the device is still signed in to the
    /// former user's account. Then that session is ended first, so that the next user is a guest.
    /// The server accepts the same attestation for both requests.
    private func postEndingFormer(
        _ body: GuestRequest
    ) async throws(SanguineError) -> TransportResponse {
        let path = "/v1/accounts/guest"
        let response = try await post(path, body)
        let answer = try WireCoding.decode(SignedIn.self, from: response.body)
        guard answer.account.kind == .registered, guarded.withLock({ $0.state.hasNoUserYet }) else {
            return response
        }
        try await endSession(answer.session.accessToken)
        return try await post(path, body)
    }

    private func post(
        _ path: String,
        _ body: some Encodable
    ) async throws(SanguineError) -> TransportResponse {
        let json = try WireCoding.encode(body, as: "the body of \(path)")
        let request = try TransportRequest(
            method: "POST",
            base: configuration.server,
            path: path,
            json: json,
            timeout: SessionLimits.requestTimeout
        )
        return try await exchange.send(request)
    }

    /// Ends the session on the server after a sign-out.
    ///
    /// If the server cannot be reached, the session is ended before the device's next guest is
    /// created, or expires there.
    nonisolated(nonsending) func notifyServer(ofEnd session: StoredSession) async {
        do throws(SanguineError) {
            try await endSession(session.accessToken)
        } catch {
            configuration.logger.info(
                "The server could not be notified of a sign-out.",
                metadata: ["reason": "\(error.code)"]
            )
        }
    }

    private nonisolated(nonsending) func endSession(
        _ accessToken: String
    ) async throws(SanguineError) {
        let request = try TransportRequest(
            method: "DELETE",
            base: configuration.server,
            path: "/v1/sessions/current",
            headers: ["Authorization": "Bearer \(accessToken)"],
            timeout: SessionLimits.signOutTimeout
        )
        _ = try await exchange.send(request)
    }

    /// Stores a session for the next process.
    static func write(_ session: StoredSession, to store: ClientStore, _ logger: Logger) {
        do {
            try store.setState(stateName, try WireCoding.encode(session))
        } catch {
            // The session works in memory. After a restart, the device's secret creates another
            // one.
            logger.error("The session could not be stored.", metadata: ["reason": "\(error)"])
        }
    }
}
