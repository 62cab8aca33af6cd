import Foundation
public import Sanguine
import SanguineModel
import Synchronization

// What travels.
extension InMemoryAuthority {
    /// Answers a request, whatever its status.
    public func send(
        _ request: TransportRequest
    ) async throws(TransportError) -> TransportResponse {
        guard !Task.isCancelled else { throw .cancelled }
        return answer(request)
    }

    /// Opens a live connection; any other answer is a stream that has ended.
    public func stream(
        _ request: TransportRequest
    ) async throws(TransportError) -> TransportStream {
        guard !Task.isCancelled else { throw .cancelled }
        if request.path == "/v1/live", request.method == "GET" {
            do throws(Problem) {
                return try live(request)
            } catch {
                return Self.ended(.problem(error))
            }
        }
        return Self.ended(answer(request))
    }

    /// Answers a request at once: for a ``ScriptedTransport``, say.
    public func answer(_ request: TransportRequest) -> TransportResponse {
        do throws(Problem) {
            try failIfAsked(request)
            switch (request.method, request.path) {
            case ("POST", "/v1/accounts/guest"): return try guest(request)
            case ("POST", "/v1/sessions/refresh"): return try refresh(request)
            case ("DELETE", "/v1/sessions/current"): return try signOut(request)
            case ("GET", "/v1/account"): return try profile(request)
            case ("GET", "/v1/balance"): return try balance(request)
            case ("POST", "/v1/sync/push"): return try push(request)
            case ("GET", "/v1/sync/pull"): return try pull(request)
            case ("GET", "/v1/live"):
                throw Problem(.malformedRequest, "Open it as a stream.")
            default:
                throw Problem(.notFound, "InMemoryAuthority does not serve this path.")
            }
        } catch {
            return .problem(error)
        }
    }

    private func failIfAsked(_ request: TransportRequest) throws(Problem) {
        let problem = state.withLock { state -> Problem? in
            guard state.failures[request.path]?.isEmpty == false else { return nil }
            return state.failures[request.path]?.removeFirst()
        }
        if let problem { throw problem }
    }

    // MARK: - Sessions

    private func guest(_ request: TransportRequest) throws(Problem) -> TransportResponse {
        let body = try request.decoded(GuestRequest.self)
        guard WireLimits.deviceIdCharacters.contains(body.deviceId.count) else {
            throw Problem(.invalidContent, "Set 'deviceId' to 16 to 128 characters.")
        }
        let now = clock.now()
        let answer = state.withLock { state -> Result<(SignedIn, Bool), Problem> in
            guard state.sessions.accepts(body.deviceSecret, of: body.deviceId) else {
                return .failure(Problem(.deviceSecretMismatch, "Use the device's own secret."))
            }
            let known = state.sessions.devices[body.deviceId]?.account
            guard let id = known ?? newcomer(&state, at: now), let account = state.accounts[id]
            else {
                return .failure(Problem(.overloaded, "Use an authority with fewer accounts."))
            }
            let session = state.sessions.signIn(body, to: id, at: now)
            return .success((SignedIn(account: account, session: session), known == nil))
        }
        let (signedIn, isNew) = try answer.get()
        return .json(signedIn, status: isNew ? 201 : 200)
    }

    /// The account of a device that was never here.
    private func newcomer(_ state: inout State, at now: Timestamp) -> Identifier? {
        if mode == .one || state.sessions.devices.isEmpty { return user }
        guard state.accounts.count < TestingLimits.accounts else { return nil }
        return state.addAccount(at: now)
    }

    private func refresh(_ request: TransportRequest) throws(Problem) -> TransportResponse {
        let body = try request.decoded(RefreshRequest.self)
        let now = clock.now()
        let session = state.withLock { $0.sessions.refresh(body.refreshToken, at: now) }
        return .json(Refreshed(session: try session.get()))
    }

    private func signOut(_ request: TransportRequest) throws(Problem) -> TransportResponse {
        _ = try account(of: request)
        if let token = request.token { state.withLock { $0.sessions.end(token) } }
        return TransportResponse(status: 204)
    }

    /// Whose request it is.
    private func account(of request: TransportRequest) throws(Problem) -> Identifier {
        let now = clock.now()
        let token = request.token ?? ""
        switch state.withLock({ $0.sessions.verdict(on: token, at: now) }) {
        case .expired: throw Problem(.tokenExpired, "Refresh the session.")
        case .unknown where token.isEmpty: throw Problem(.unauthenticated, "Sign in.")
        case .unknown: throw Problem(.sessionEnded, "Sign in again.")
        case .valid(let account):
            let claimed = request.header("X-User-Id")
            guard claimed == nil || claimed == account.description else {
                throw Problem(.identityMismatch, "Send the id of the token's own account.")
            }
            return account
        }
    }

    // MARK: - Account and balance

    private func profile(_ request: TransportRequest) throws(Problem) -> TransportResponse {
        let id = try account(of: request)
        guard let account = state.withLock({ $0.accounts[id] }) else {
            throw Problem(.notFound, "Sign in: there is no such account.")
        }
        return .json(account)
    }

    private func balance(_ request: TransportRequest) throws(Problem) -> TransportResponse {
        let account = try account(of: request)
        let asked = request.query["operations"]?.split(separator: ",").map(String.init)
        let now = clock.now()
        let balance = state.withLock { state in
            Balance(
                unit: "tokens",
                available: state.balances[account] ?? 0,
                held: 0,
                head: state.ledgers[account]?.head ?? 0,
                asOf: now,
                operations: asked.map { keys in
                    Dictionary(keys.map { ($0, OperationState(.unknown)) }) { first, _ in first }
                }
            )
        }
        return .json(balance)
    }

    // MARK: - Records

    private func push(_ request: TransportRequest) throws(Problem) -> TransportResponse {
        let body = try request.decoded(PushRequest.self)
        let account = try account(of: request)
        guard WireLimits.deviceIdCharacters.contains(body.device.count),
            body.operations.count <= WireLimits.pushedOperations,
            Set(body.operations.map(\.id)).count == body.operations.count
        else {
            throw Problem(.invalidContent, "Push at most 100 operations, each of its own id.")
        }
        guard body.operations.allSatisfy({ $0.lane.isPlainText(of: WireLimits.laneCharacters) })
        else { throw .badLane }
        let (judge, poison) = state.withLock { ($0.judge, $0.poison) }
        guard poison.isDisjoint(with: body.operations.map(\.id)) else {
            throw Problem(.malformedBody, "Send no operation that is poison.")
        }
        // The judge is the test's code, and asked under no lock.
        let refusals = body.operations.map { judge?($0) }
        var answer: PushAnswer?
        change { state in
            let others = state.visible(to: account, schema)
            // Taken out while it changes: two that hold it would copy it for each operation.
            var ledger = state.ledgers.removeValue(forKey: account) ?? AccountLedger()
            defer { state.ledgers[account] = ledger }
            guard !ledger.isFull else { return account }
            let inOrder = zip(body.operations, refusals).sorted { $0.0.sequence < $1.0.sequence }
            var results: [Identifier: PushResult] = [:]
            for (operation, refusal) in inOrder {
                results[operation.id] = ledger.perform(
                    operation,
                    schema: schema,
                    others: others,
                    refusal: refusal
                )
            }
            let ordered = body.operations.compactMap { results[$0.id] }
            answer = PushAnswer(results: ordered, head: ledger.head)
            return account
        }
        guard let answer else {
            throw Problem(.overloaded, "Use a new authority: this one remembers no more.")
        }
        return .json(answer, headers: ["Sanguine-Head": "\(answer.head)"])
    }

    private func pull(_ request: TransportRequest) throws(Problem) -> TransportResponse {
        let account = try account(of: request)
        let query = request.query
        let limit = query["limit"].flatMap { Int($0) } ?? WireLimits.defaultPull
        let asked = query["operations"]?.split(separator: ",").compactMap { Identifier($0) }
        guard asked?.count ?? 0 <= WireLimits.operationsAsked else {
            throw Problem(.malformedRequest, "Ask about at most 100 operations.")
        }
        let question = AccountLedger.Question(
            since: query["since"].flatMap { Int64($0) } ?? 0,
            limit: min(max(1, limit), WireLimits.largestPull),
            horizon: query["horizon"].flatMap { Int64($0) },
            operations: asked
        )
        let ledger = state.withLock { $0.ledgers[account] ?? AccountLedger() }
        return .json(ledger.page(question))
    }

    // MARK: - Live

    private func live(_ request: TransportRequest) throws(Problem) -> TransportStream {
        try failIfAsked(request)
        let account = try account(of: request)
        let since = request.header("Last-Event-ID") ?? request.query["since"]
        let position = since.flatMap { Int64($0) } ?? 0
        let stream = state.withLock { state -> TransportStream? in
            guard state.streams.count < TestingLimits.streams else { return nil }
            let number = state.random.next()
            let stream = TransportStream(
                response: TransportResponse(
                    status: 200,
                    headers: ["content-type": "text/event-stream"]
                ),
                onCancel: { [weak self] in self?.state.withLock { $0.streams.remove(number) } }
            )
            let ledger = state.ledgers[account] ?? AccountLedger()
            state.streams.add(number, stream, of: account, since: position, ledger)
            return stream
        }
        guard let stream else {
            throw Problem(.overloaded, "End live connections first.", retryAfter: 30)
        }
        tell()
        return stream
    }

    /// Changes an account, and tells its live connections.
    func change(_ body: (inout State) -> Identifier) {
        state.withLock { state in
            let account = body(&state)
            state.streams.changed(account, state.ledgers[account] ?? AccountLedger())
        }
        tell()
    }

    /// Writes what is to be written in its order; whoever comes meanwhile leaves it to this.
    func tell() {
        guard state.withLock({ $0.streams.begin() }) else { return }
        while let delivery = state.withLock({ $0.streams.next() }) {
            delivery.stream.receive(delivery.bytes)
        }
    }

    private static func ended(_ response: TransportResponse) -> TransportStream {
        var head = response
        head.body = Data()
        let stream = TransportStream(response: head, onCancel: {})
        stream.receive(response.body)
        stream.finish()
        return stream
    }
}

extension TransportRequest {
    var path: String { url.path() }

    /// The parameters by name; of several with one name the last one counts.
    fileprivate var query: [String: String] {
        let items = URLComponents(url: url, resolvingAgainstBaseURL: false)?.queryItems ?? []
        return Dictionary(items.map { ($0.name, $0.value ?? "") }) { $1 }
    }

    fileprivate func header(_ name: String) -> String? {
        headers.first { $0.key.lowercased() == name.lowercased() }?.value
    }

    fileprivate var token: String? {
        guard let value = header("Authorization"), value.hasPrefix("Bearer ") else { return nil }
        return String(value.dropFirst("Bearer ".count))
    }

    fileprivate func decoded<Value: Decodable>(_ type: Value.Type) throws(Problem) -> Value {
        let body = body ?? Data()
        guard body.count <= WireLimits.bodyBytes else {
            throw Problem(.bodyTooLarge, "Send at most 1 MiB.")
        }
        guard let value = try? JSONDecoder().decode(type, from: body) else {
            throw Problem(.malformedBody, "Send the JSON that the protocol names.")
        }
        return value
    }
}

extension TransportResponse {
    fileprivate static func json(
        _ value: some Encodable,
        status: Int = 200,
        type: String = "application/json",
        headers: [String: String] = [:]
    ) -> TransportResponse {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        guard let body = try? encoder.encode(value) else {
            return TransportResponse(status: 500)
        }
        var headers = headers
        headers["content-type"] = type
        return TransportResponse(status: status, headers: headers, body: body)
    }

    fileprivate static func problem(_ problem: Problem) -> TransportResponse {
        let after = problem.retryAfter.map { ["Retry-After": "\($0)"] } ?? [:]
        return .json(
            problem,
            status: problem.status,
            type: "application/problem+json",
            headers: after
        )
    }
}
