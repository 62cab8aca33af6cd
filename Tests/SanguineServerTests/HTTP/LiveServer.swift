import AsyncHTTPClient
import Foundation
import Logging
import NIOCore
import NIOHTTP1
import SanguineAuthority
import SanguineModel
import SanguineTesting
import ServiceLifecycle
import Synchronization

@testable import SanguineServer

/// A real server on free loopback ports, with manual clocks, that runs for the time of a test.
struct LiveServer: Sendable {
    /// Settings that a test may change before the server starts.
    struct Setup: Sendable {
        var settings = ServerSettings()
        var functions: [ServerFunction] = []
        var mail: (any MailSender)?
        var storage: any Storage = MemoryStorage()
        var keys = SigningKeys()
        var adminToken = AdminToken()
        var adminTokens: [AdminToken] = []
        var isWithoutAdminToken = false
        var registry = OpenMetricsRegistry()
        var log: LogQueue?
        var logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        let wall = ManualWallClock()
        let delay = ManualClock()

        init(requestsPerMinute: Int? = nil) {
            settings.http.port = 0
            settings.http.adminPort = 0
            if let requestsPerMinute { settings.limits.requestsPerMinute = requestsPerMinute }
        }

        func server(
            onListening: @escaping @Sendable (SanguineServer.Ports) async -> Void = { _ in }
        ) async throws -> SanguineServer {
            try await SanguineServer(
                storage: storage,
                keys: keys,
                adminToken: isWithoutAdminToken ? nil : adminToken,
                adminTokens: adminTokens,
                settings: settings,
                functions: functions,
                mail: mail,
                registry: registry,
                log: log,
                logger: logger,
                clock: wall,
                delay: delay,
                onListening: onListening
            )
        }
    }

    let setup: Setup
    let ports: SanguineServer.Ports
    /// The server's authority.
    let authority: Authority
    /// The pool of response bytes that wait to be read.
    let answers: SharedPool
    /// The pool of file bytes that are being received.
    let files: SharedPool
    let group: ServiceGroup

    /// Starts a server, runs the body, and stops the server gracefully.
    static func with(
        _ change: (inout Setup) -> Void = { _ in },
        _ body: (LiveServer) async throws -> Void
    ) async throws {
        var setup = Setup()
        change(&setup)
        try await with(setup, body)
    }

    static func with(_ setup: Setup, _ body: (LiveServer) async throws -> Void) async throws {
        let (listening, announcement) = AsyncStream.makeStream(of: SanguineServer.Ports.self)
        let server = try await setup.server { announcement.yield($0) }
        let logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
        let group = ServiceGroup(configuration: .init(services: [server], logger: logger))
        try await withThrowingTaskGroup(of: Void.self) { tasks in
            tasks.addTask {
                defer { announcement.finish() }
                try await group.run()
            }
            var iterator = listening.makeAsyncIterator()
            if let ports = await iterator.next() {
                try await body(
                    LiveServer(
                        setup: setup,
                        ports: ports,
                        authority: server.authority,
                        answers: server.answers,
                        files: server.files,
                        group: group
                    )
                )
            }
            await group.triggerGracefulShutdown()
            try await tasks.waitForAll()
        }
    }

    /// Sends a request, to the admin port with its token unless a header replaces it.
    func send(
        _ method: String,
        _ path: String,
        _ body: String? = nil,
        headers: [String: String] = [:],
        toAdmin: Bool = false
    ) async throws -> Reply {
        let port = toAdmin ? ports.admin : ports.http
        var request = HTTPClientRequest(url: "http://127.0.0.1:\(port)\(path)")
        request.method = HTTPMethod(rawValue: method)
        if let body {
            request.headers.add(name: "Content-Type", value: "application/json")
            request.body = .bytes(ByteBuffer(string: body))
        }
        if toAdmin {
            // A value in `headers` replaces this one.
            let authorization = "Bearer \(setup.adminToken.reveal())"
            request.headers.add(name: "Authorization", value: authorization)
        }
        for (name, value) in headers { request.headers.replaceOrAdd(name: name, value: value) }
        return try await send(request)
    }

    /// Sends a request to the admin port without its token.
    func sendToAdmin(_ path: String, headers: HTTPHeaders) async throws -> Reply {
        var request = HTTPClientRequest(url: "http://127.0.0.1:\(ports.admin)\(path)")
        request.headers = headers
        return try await send(request)
    }

    /// A client without compression, unlike the shared one, that returns responses as sent.
    private static let client = HTTPClient(eventLoopGroupProvider: .singleton)

    func send(
        _ request: HTTPClientRequest,
        through client: HTTPClient? = nil
    ) async throws -> Reply {
        let response = try await (client ?? Self.client).execute(request, timeout: .patient(30))
        let body = try await response.body.collect(upTo: 4 << 20)
        return Reply(
            status: Int(response.status.code),
            version: response.version,
            headers: response.headers,
            bytes: Array(body.readableBytesView)
        )
    }

    /// Signs in a device, by default a new one.
    func guest(
        device: String = "device-\(UUID().uuidString)",
        secret: String = Guest.secret(7),
        extra: String = ""
    ) async throws -> Guest {
        let body = #"{"deviceId":"\#(device)","deviceSecret":"\#(secret)"\#(extra)}"#
        let reply = try await send("POST", "/v1/accounts/guest", body)
        let signedIn = try reply.decode(SignedIn.self)
        return Guest(
            server: self,
            device: device,
            secret: secret,
            account: signedIn.account,
            session: signedIn.session
        )
    }
}

/// A signed-in device.
struct Guest: Sendable {
    let server: LiveServer
    let device: String
    let secret: String
    let account: Account
    let session: Session

    /// Returns 32 equal bytes in base64url.
    static func secret(_ byte: UInt8) -> String {
        Data(repeating: byte, count: 32).base64EncodedString()
            .replacing("+", with: "-").replacing("/", with: "_").replacing("=", with: "")
    }

    func get(_ path: String, headers: [String: String] = [:]) async throws -> Reply {
        try await send("GET", path, headers: headers)
    }

    func post(
        _ path: String,
        _ body: String? = "{}",
        key: String? = UUID().uuidString,
        headers: [String: String] = [:]
    ) async throws -> Reply {
        var headers = headers
        if let key { headers["Idempotency-Key"] = key }
        return try await send("POST", path, body, headers: headers)
    }

    func send(
        _ method: String,
        _ path: String,
        _ body: String? = nil,
        headers: [String: String] = [:]
    ) async throws -> Reply {
        let authorization = ["Authorization": "Bearer \(session.accessToken)"]
        return try await server.send(
            method,
            path,
            body,
            headers: authorization.merging(headers) { _, own in own }
        )
    }

    func balance() async throws -> Balance { try await get("/v1/balance").decode(Balance.self) }

    func spend(_ amount: Int, key: String = UUID().uuidString) async throws -> Reply {
        try await post("/v1/spend", #"{"amount":\#(amount),"reason":"test"}"#, key: key)
    }

    /// Spends until only the given amount is left.
    func spend(downTo rest: Int64) async throws {
        let amount = try await balance().available - rest
        _ = try await spend(Int(amount)).decode(BalanceAnswer.self)
    }

    func ask(_ question: String, key: String = UUID().uuidString) async throws -> Reply {
        try await post("/v1/functions/ask", #"{"input":{"question":"\#(question)"}}"#, key: key)
    }

    func echo(
        _ text: String,
        key: String = UUID().uuidString,
        delayMs: Int = 0
    ) async throws -> Reply {
        let body = #"{"input":{"text":"\#(text)","delayMs":\#(delayMs)}}"#
        return try await post("/v1/functions/echo", body, key: key)
    }
}

/// A response with its whole body.
struct Reply: Sendable {
    let status: Int
    let version: HTTPVersion
    let headers: HTTPHeaders
    let bytes: [UInt8]

    var body: String { String(decoding: bytes, as: UTF8.self) }

    subscript(_ header: String) -> String? { headers.first(name: header) }

    /// The code, if the response is a well-formed problem.
    var code: String? {
        guard self["Content-Type"] == "application/problem+json",
            let problem = try? JSONDecoder().decode(Problem.self, from: Data(body.utf8)),
            problem.status == status
        else { return nil }
        return problem.code.rawValue
    }

    var json: JSONValue {
        get throws { try JSONDecoder().decode(JSONValue.self, from: Data(body.utf8)) }
    }

    /// Decodes the body of a successful response.
    func decode<Body: Decodable>(_ type: Body.Type) throws -> Body {
        guard status < 300 else { throw Unexpected(reply: "\(status) \(body)") }
        return try JSONDecoder().decode(type, from: Data(body.utf8))
    }

    /// The feed number in the header.
    var head: Int64? { self["Sanguine-Head"].flatMap { Int64($0) } }

    struct Unexpected: Error {
        let reply: String
    }
}
