public import Foundation
import Logging
public import SanguineServer
import ServiceLifecycle

/// Servers that run in this process on free ports while a body runs.
public enum RunningServer {
    /// The addresses of a server.
    public struct Addresses: Sendable {
        public let http: URL
        /// The address for administration.
        public let admin: URL
    }

    /// Runs a stand-in for the language model.
    ///
    /// - Parameters:
    ///   - latency: The time from a request to the first word.
    ///   - wordInterval: The time between two words.
    ///   - clock: The clock of both times.
    ///   - body: Called with the address.
    /// - Throws: The errors of `body`.
    public static func withStandIn(
        latency: Duration = .zero,
        wordInterval: Duration = .zero,
        clock: any Clock<Duration> = ContinuousClock(),
        _ body: @escaping @Sendable (String) async throws -> Void
    ) async throws {
        let (ports, port) = AsyncStream.makeStream(of: Int.self)
        let standIn = StandInServer(
            port: 0,
            latency: latency,
            wordInterval: wordInterval,
            clock: clock,
            logger: logger
        ) { port.yield($0) }
        try await run(standIn, until: (ports, port)) { try await body("http://127.0.0.1:\($0)") }
    }

    /// Runs the app's server.
    ///
    /// - Parameters:
    ///   - folder: The folder of its data.
    ///   - settings: The language model and other settings. The ports are free ones.
    ///   - registry: The registry of its metrics.
    ///   - clock: The current time, from which the users' days follow.
    ///   - body: Called with the addresses.
    /// - Throws: The errors of storage, settings and `body`.
    public static func withAlmanac(
        folder: URL,
        settings: ServerSettings,
        registry: OpenMetricsRegistry = OpenMetricsRegistry(),
        clock: any WallClock = SystemWallClock(),
        _ body: @escaping @Sendable (Addresses) async throws -> Void
    ) async throws {
        var settings = settings
        (settings.http.port, settings.http.adminPort) = (0, 0)
        let (ports, port) = AsyncStream.makeStream(of: SanguineServer.Ports.self)
        try await AlmanacServer.with(
            folder: folder,
            settings: settings,
            registry: registry,
            logger: logger,
            clock: clock,
            onListening: { port.yield($0) }
        ) { server in
            try await run(server, until: (ports, port)) { ports in
                guard let http = URL(string: "http://127.0.0.1:\(ports.http)"),
                    let admin = URL(string: "http://127.0.0.1:\(ports.admin)")
                else { return }
                try await body(Addresses(http: http, admin: admin))
            }
        }
    }

    /// Logs only errors, because other lines would appear between the answers.
    private static var logger: Logger {
        var logger = Logger(label: "almanac")
        logger.logLevel = .error
        return logger
    }

    /// Runs the service, and shuts it down gracefully after the body.
    private static func run<Ports: Sendable>(
        _ service: any Service,
        until listening: (ports: AsyncStream<Ports>, port: AsyncStream<Ports>.Continuation),
        _ body: @escaping @Sendable (Ports) async throws -> Void
    ) async throws {
        let group = ServiceGroup(services: [service], logger: logger)
        try await withThrowingTaskGroup(of: Void.self) { tasks in
            tasks.addTask {
                // Without this, a service that never listens would be awaited forever.
                defer { listening.port.finish() }
                try await group.run()
            }
            tasks.addTask {
                // Ends the group even if the body throws, then rethrows the error.
                let result: Result<Void, any Error>
                do {
                    var ports = listening.ports.makeAsyncIterator()
                    guard let ports = await ports.next() else { return }
                    result = .success(try await body(ports))
                } catch {
                    result = .failure(error)
                }
                await group.triggerGracefulShutdown()
                try result.get()
            }
            try await tasks.waitForAll()
        }
    }
}
