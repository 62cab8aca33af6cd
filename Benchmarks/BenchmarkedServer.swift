import Foundation
import Hummingbird
import Logging
import NIOCore
import SanguineAuthority
import SanguineModel
import SanguineSQLite
import SanguineServer
import ServiceLifecycle

#if canImport(FoundationNetworking)
import FoundationNetworking
#endif

/// The real server on a durable store, and a bare Hummingbird route, in one process.
struct BenchmarkedServer: Sendable {
    let port: Int
    let adminPort: Int
    let barePort: Int
    let tokens: [String]
    let adminToken: String

    /// The folder of the server's data, which is removed at its end.
    static let folder = FileManager.default.temporaryDirectory
        .appending(path: "sanguine-bench-\(ProcessInfo.processInfo.processIdentifier)")

    /// The folder of its e-mails.
    static var mail: URL { folder.appending(path: "mail") }

    /// The number of accounts that share the load.
    static let accounts = 10

    /// Starts both servers, runs the body, and stops them.
    ///
    /// - Parameters:
    ///   - change: Changes the settings. Default: no change.
    ///   - body: Measures the servers.
    /// - Returns: The body's result.
    /// - Throws: The error of a server that does not start, or the body's.
    static func with<Value: Sendable>(
        _ change: (inout ServerSettings) -> Void = { _ in },
        _ body: @escaping @Sendable (BenchmarkedServer) async throws -> Value
    ) async throws -> Value {
        defer { try? FileManager.default.removeItem(at: folder) }
        var settings = ServerSettings()
        settings.http.port = 0
        settings.http.adminPort = 0
        settings.accounts.grant = 1_000_000_000
        settings.mail.folder = mail.path
        // Hashing takes as long as its settings say, which no benchmark measures.
        settings.passwordCost.logRounds = 1
        // The limits apply but are never reached, because the benchmark measures accepted requests.
        settings.limits.requestsPerMinute = 60_000_000
        settings.limits.addressRequestsPerMinute = 60_000_000
        settings.limits.guestsPerHour = 0
        settings.limits.addressProcessorTime = .seconds(600)
        change(&settings)
        let storage = try SQLiteStorage(folder: folder)
        let adminToken = AdminToken()
        let (serverPorts, serverPort) = AsyncStream.makeStream(of: SanguineServer.Ports.self)
        let (barePorts, barePort) = AsyncStream.makeStream(of: Int.self)
        let server = try await SanguineServer(
            storage: storage,
            keys: KeyFile.loadOrCreate(in: folder),
            adminToken: adminToken,
            settings: settings,
            log: LogQueue(sink: NullSink()),
            logger: quiet
        ) { serverPort.yield($0) }
        let value = try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await server.run() }
            group.addTask { try await bare { barePort.yield($0) }.run() }
            guard let ports = await first(of: serverPorts) else {
                throw BenchmarkError.noServer("it does not listen")
            }
            let benchmarked = BenchmarkedServer(
                port: ports.http,
                adminPort: ports.admin,
                barePort: await first(of: barePorts) ?? 0,
                tokens: try await signIn(port: ports.http),
                adminToken: adminToken.reveal()
            )
            let value = try await body(benchmarked)
            group.cancelAll()
            return value
        }
        await storage.close()
        return value
    }

    /// A server that responds to `GET /` with twelve bytes.
    static func bare(onListening: @escaping @Sendable (Int) -> Void) -> some Service {
        let router = Router()
        router.get("/") { _, _ in "Hello, world" }
        return Application(
            router: router,
            configuration: .init(address: .hostname("127.0.0.1", port: 0)),
            onServerRunning: { onListening($0.localAddress?.port ?? 0) },
            logger: quiet
        )
    }

    static var quiet: Logger {
        var logger = Logger(label: "bench")
        // The end of a run cancels running requests, which are logged as errors.
        logger.logLevel = .critical
        return logger
    }

    private static func first<Port>(of ports: AsyncStream<Port>) async -> Port? {
        for await port in ports { return port }
        return nil
    }

    private static func signIn(port: Int) async throws -> [String] {
        var tokens: [String] = []
        for number in 0..<accounts {
            let body = GuestRequest(
                deviceId: "bench-device-\(1_000 + number)",
                deviceSecret: String(repeating: "A", count: 43)
            )
            guard let url = URL(string: "http://127.0.0.1:\(port)/v1/accounts/guest") else {
                continue
            }
            var request = URLRequest(url: url)
            request.httpMethod = "POST"
            request.setValue("application/json", forHTTPHeaderField: "Content-Type")
            request.httpBody = try JSONEncoder().encode(body)
            let (data, _) = try await URLSession.shared.data(for: request)
            tokens.append(try JSONDecoder().decode(SignedIn.self, from: data).session.accessToken)
        }
        return tokens
    }
}

/// A sink that discards the access log.
struct NullSink: LogSink {
    func write(_ lines: [UInt8]) {}
}
