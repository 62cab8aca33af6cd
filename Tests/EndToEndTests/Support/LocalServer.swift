import Foundation
import Logging
import Sanguine
import SanguineAuthority
import SanguineModel
import SanguineSQLite
import SanguineServer
import SanguineTesting
import TestSupport

/// A server in this process that stores its data in a folder and uses free ports.
struct LocalServer: Sendable {
    let port: Int
    let folder: URL
    let api: API
    private let registry: OpenMetricsRegistry

    /// Runs a server while the body runs, then settles and closes everything.
    static func with<Value: Sendable>(
        folder: URL,
        settings: ServerSettings = ServerSettings(),
        functions: [ServerFunction] = [],
        port: Int = 0,
        clock: any WallClock = SystemWallClock(),
        delay: any Clock<Duration> = ContinuousClock(),
        _ body: @escaping @Sendable (LocalServer) async throws -> Value
    ) async throws -> Value {
        var settings = settings
        settings.http.port = port
        settings.http.adminPort = 0
        let registry = OpenMetricsRegistry()
        return try await SQLiteStorage.with(folder: folder) { storage in
            let server = try await SanguineServer(
                storage: storage,
                keys: try KeyFile.loadOrCreate(in: folder),
                settings: settings,
                functions: functions,
                registry: registry,
                logger: quiet,
                clock: clock,
                delay: delay
            )
            return try await server.serve { addresses in
                let port = addresses.http.port ?? 0
                let api = API(port: port)
                return try await body(
                    LocalServer(port: port, folder: folder, api: api, registry: registry)
                )
            }
        }
    }

    /// Runs a server on a temporary folder, which is removed afterwards.
    static func with<Value: Sendable>(
        settings: ServerSettings = ServerSettings(),
        clock: any WallClock = SystemWallClock(),
        _ body: @escaping @Sendable (LocalServer) async throws -> Value
    ) async throws -> Value {
        try await TemporaryFolder.with { folder in
            try await with(folder: folder, settings: settings, clock: clock, body)
        }
    }

    private static var quiet: Logger {
        var logger = Logger(label: "sanguine.end-to-end")
        logger.logLevel = .critical
        return logger
    }
}

extension LocalServer {
    /// Recomputes the ledger with a connection separate from the server's.
    func audit() async throws -> LedgerReport {
        let inspection = try SQLiteStorage.inspect(folder: folder)
        let report = try await inspection.examine().ledger
        await inspection.close()
        return report
    }

    /// The number of live connections.
    var liveConnections: Int {
        let lines = registry.render().split(separator: "\n")
        let line = lines.first { $0.hasPrefix("live_connections ") }
        return line?.split(separator: " ").last.flatMap { Double($0) }.map { Int($0) } ?? 0
    }

    /// Returns how many requests of a route the server has handled, regardless of their status.
    func requests(_ method: String, _ route: String) throws -> Int {
        let lines = registry.render().split(separator: "\n").filter { line in
            line.hasPrefix("http_server_requests_total{")
                && line.contains(#"method="\#(method)""#)
                && line.contains(#"route="\#(route)""#)
        }
        return lines.compactMap { $0.split(separator: " ").last.flatMap { Int($0) } }.reduce(0, +)
    }

    /// Returns a client of this server.
    ///
    /// Without a folder, it stores nothing on disk.
    func client(
        folder: URL? = nil,
        clock: any WallClock = SystemWallClock()
    ) throws -> SanguineClient {
        try SanguineClient(.of(port: port, folder: folder, clock: clock))
    }
}

extension SanguineClient.Configuration {
    static func of(
        port: Int,
        folder: URL? = nil,
        clock: any WallClock = SystemWallClock()
    ) -> SanguineClient.Configuration {
        var configuration = SanguineClient.Configuration(
            server: URL(string: "http://127.0.0.1:\(port)")
        )
        configuration.folder = folder
        configuration.isInMemory = folder == nil
        configuration.clock = clock
        return configuration
    }
}
