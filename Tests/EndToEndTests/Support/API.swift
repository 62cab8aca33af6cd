import AsyncHTTPClient
import Foundation
import NIOCore
import NIOHTTP1
import SanguineModel
import SanguineTesting

/// The wire protocol, used without any help from the tested client.
struct API: Sendable {
    /// A response, regardless of its status.
    struct Answer: Sendable {
        let status: Int
        let headers: HTTPHeaders
        let body: Data

        var text: String { String(decoding: body, as: UTF8.self) }
        var isReplayed: Bool { header("Idempotency-Replayed") == "true" }
        var code: ProblemCode? { (try? decode(Problem.self))?.code }

        func header(_ name: String) -> String? { headers.first(name: name) }

        func decode<Value: Decodable>(_ type: Value.Type = Value.self) throws -> Value {
            do {
                return try JSONDecoder().decode(type, from: body)
            } catch {
                throw Unexpected("\(status) with a body that is not a \(type): \(text)")
            }
        }
    }

    /// A signed-in guest.
    struct Guest: Sendable {
        let account: Identifier
        let session: Session
        var token: String { session.accessToken }
    }

    /// A client for the whole process that does not retry.
    private static let shared = HTTPClient(
        eventLoopGroupProvider: .singleton,
        configuration: configuration(connections: 128)
    )

    static func configuration(connections: Int) -> HTTPClient.Configuration {
        var configuration = HTTPClient.Configuration()
        configuration.connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = connections
        configuration.connectionPool.retryConnectionEstablishment = false
        return configuration
    }

    /// Runs the body with its own client and shuts the client down even if the body throws.
    ///
    /// Without the shutdown, the process would end.
    static func withClient(
        connections: Int,
        _ body: (HTTPClient) async throws -> Void
    ) async throws {
        let http = HTTPClient(
            eventLoopGroupProvider: .singleton,
            configuration: configuration(connections: connections)
        )
        do {
            try await body(http)
        } catch {
            try? await http.shutdown()
            throw error
        }
        try await http.shutdown()
    }

    let base: String
    let http: HTTPClient

    init(port: Int, http: HTTPClient? = nil) {
        base = "http://127.0.0.1:\(port)"
        self.http = http ?? Self.shared
    }

    func send(
        _ method: HTTPMethod,
        _ path: String,
        token: String? = nil,
        key: String? = nil,
        headers: [(String, String)] = [],
        json: (any Encodable & Sendable)? = nil
    ) async throws -> Answer {
        var request = HTTPClientRequest(url: base + path)
        request.method = method
        for (name, value) in headers { request.headers.add(name: name, value: value) }
        if let token { request.headers.add(name: "Authorization", value: "Bearer \(token)") }
        if let key { request.headers.add(name: "Idempotency-Key", value: key) }
        if let json {
            request.headers.add(name: "Content-Type", value: "application/json")
            request.body = .bytes(ByteBuffer(bytes: try JSONEncoder().encode(json)))
        }
        let response = try await http.execute(request, timeout: .patient(30))
        let body = try await response.body.collect(upTo: 8 << 20)
        return Answer(
            status: Int(response.status.code),
            headers: response.headers,
            body: Data(body.readableBytesView)
        )
    }
}

// The calls, by name.
extension API {
    func signIn(_ device: String) async throws -> Answer {
        let body = GuestRequest(deviceId: device, deviceSecret: String(repeating: "A", count: 43))
        return try await send(.POST, "/v1/accounts/guest", json: body)
    }

    func guest(_ device: String = "a-device-of-a-guest") async throws -> Guest {
        let signedIn = try await signIn(device).decode(SignedIn.self)
        return Guest(account: signedIn.account.id, session: signedIn.session)
    }

    func refresh(_ refreshToken: String) async throws -> Answer {
        let body = RefreshRequest(refreshToken: refreshToken)
        return try await send(.POST, "/v1/sessions/refresh", json: body)
    }

    func balance(of guest: Guest) async throws -> Balance {
        try await send(.GET, "/v1/balance", token: guest.token).decode()
    }

    /// Returns the whole ledger, page by page, oldest entry first.
    func ledger(of guest: Guest, page: Int = 100) async throws -> [LedgerEntry] {
        var entries: [LedgerEntry] = []
        var cursor: String?
        repeat {
            let place = cursor.map { "&cursor=\($0)" } ?? ""
            let answer = try await send(
                .GET,
                "/v1/ledger?limit=\(page)\(place)",
                token: guest.token
            )
            let found = try answer.decode(ListPage<LedgerEntry>.self)
            entries += found.items
            cursor = found.nextCursor
        } while cursor != nil
        return entries.reversed()
    }

    func spend(
        _ amount: Int64,
        _ reason: String,
        key: String,
        as guest: Guest
    ) async throws -> Answer {
        let body = SpendRequest(amount: amount, reason: reason)
        return try await send(.POST, "/v1/spend", token: guest.token, key: key, json: body)
    }

    func ask(_ question: String, key: String, as guest: Guest) async throws -> Answer {
        let body = FunctionRequest(input: Ask.Input(question: question))
        return try await send(.POST, "/v1/functions/ask", token: guest.token, key: key, json: body)
    }

    func echo(
        _ text: String,
        delayMs: Int? = nil,
        key: String,
        as guest: Guest
    ) async throws -> Answer {
        let body = FunctionRequest(input: Echo.Input(text: text, delayMs: delayMs))
        return try await send(.POST, "/v1/functions/echo", token: guest.token, key: key, json: body)
    }

    /// Repeats the call until it is no longer in progress.
    func end(
        fileID: String = #fileID,
        line: Int = #line,
        of call: @Sendable () async throws -> Answer
    ) async throws -> Answer {
        var answer = try await call()
        try await eventually(
            "the end of a call",
            within: TestingLimits.longestWait,
            fileID: fileID,
            line: line
        ) {
            guard answer.code == .operationInProgress else { return true }
            answer = try await call()
            return answer.code != .operationInProgress
        }
        return answer
    }
}
