import Foundation
import SanguineModel

@testable import Sanguine

// What the fake server answers.
extension FakeAuthority.State {
    mutating func serve(_ request: TransportRequest) -> TransportResponse {
        let path = request.url.path()
        switch path {
        case "/v1/accounts/guest": return guest(request)
        case "/v1/sessions/refresh": return refresh(request)
        default: break
        }
        let token = request.headers["Authorization"]?.replacingOccurrences(of: "Bearer ", with: "")
        guard let token, valid.contains(token) else {
            return Self.problem(.tokenExpired)
        }
        switch path {
        case "/v1/sessions/current":
            valid.remove(token)
            return TransportResponse(status: 204)
        case "/v1/balance":
            let items = URLComponents(string: request.url.absoluteString)?.queryItems ?? []
            let names = items.first { $0.name == "operations" }?.value
            let keys = names?.split(separator: ",").map(String.init) ?? []
            return Self.json(ledger.balance(naming: keys))
        default:
            return path.hasPrefix("/v1/functions/") ? begin(request) : Self.problem(.notFound)
        }
    }

    private mutating func guest(_ request: TransportRequest) -> TransportResponse {
        guard let body = try? WireCoding.decode(GuestRequest.self, from: request.body ?? Data())
        else { return Self.problem(.malformedBody) }
        if let known = devices[body.deviceId], known.secret != body.deviceSecret {
            return Self.problem(.deviceSecretMismatch)
        }
        let isNew = devices[body.deviceId] == nil
        let now = Timestamp(millisecondsSince1970: 1_700_000_000_000)
        let id = devices[body.deviceId]?.account ?? Identifier(at: now)
        devices[body.deviceId] = (body.deviceSecret, id)
        let account = Account(id: id, kind: .guest, timeZone: "UTC", language: "en", createdAt: now)
        let answer = SignedIn(account: account, session: makeSession(id))
        return Self.json(answer, status: isNew ? 201 : 200)
    }

    private mutating func refresh(_ request: TransportRequest) -> TransportResponse {
        guard let body = try? WireCoding.decode(RefreshRequest.self, from: request.body ?? Data()),
            let known = refreshes[body.refreshToken]
        else { return Self.problem(.refreshInvalid) }
        if let successor = known.successor {
            guard refreshes[successor.refreshToken]?.successor == nil else {
                return Self.problem(.refreshReused)
            }
            return Self.json(Refreshed(session: successor))
        }
        let successor = makeSession(known.account)
        refreshes[body.refreshToken]?.successor = successor
        return Self.json(Refreshed(session: successor))
    }

    private mutating func makeSession(_ account: Identifier) -> Session {
        sessionsMade += 1
        let session = Session(
            accessToken: "access-\(sessionsMade)",
            expiresIn: 900,
            refreshToken: "refresh-\(sessionsMade)"
        )
        valid.insert(session.accessToken)
        refreshes[session.refreshToken] = (account, nil)
        return session
    }

    /// Takes a call's hold.
    ///
    /// Status 102 tells ``FakeAuthority`` that there is work to do.
    private mutating func begin(_ request: TransportRequest) -> TransportResponse {
        guard let key = request.headers["Idempotency-Key"] else {
            return Self.problem(.idempotencyKeyMissing)
        }
        if let known = ledger.operations[key] {
            return known.end == nil ? Self.problem(.operationInProgress) : answer(key)
        }
        guard ledger.available >= hold else { return Self.problem(.insufficientTokens) }
        ledger.hold(key, hold, cost: cost, fails: upstreamFails)
        return TransportResponse(status: 102)
    }

    mutating func settle(_ request: TransportRequest) -> TransportResponse {
        let key = request.headers["Idempotency-Key"] ?? ""
        ledger.settle(key)
        return answer(key)
    }

    private func answer(_ key: String) -> TransportResponse {
        guard let operation = ledger.operations[key], let answer = operation.answer else {
            return Self.problem(.internalFault)
        }
        let head = ["Sanguine-Head": "\(answer.head)"]
        if operation.fails { return Self.problem(.upstreamFailed, headers: head) }
        let result = FunctionResult(
            output: "an answer",
            charged: answer.charged,
            tokensRemaining: answer.available,
            held: answer.held,
            head: answer.head,
            cached: answer.cached,
            operation: Identifier(at: Timestamp(millisecondsSince1970: answer.head))
        )
        return Self.json(result, headers: head)
    }

    private static func json(
        _ value: some Encodable,
        status: Int = 200,
        headers: [String: String] = [:]
    ) -> TransportResponse {
        let body = (try? WireCoding.encode(value)) ?? Data()
        return TransportResponse(status: status, headers: headers, body: body)
    }

    private static func problem(
        _ code: ProblemCode,
        headers: [String: String] = [:]
    ) -> TransportResponse {
        let problem = Problem(code, "A test's refusal.")
        return json(problem, status: problem.status, headers: headers)
    }
}
