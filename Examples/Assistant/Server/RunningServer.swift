public import Foundation
import Logging
public import SanguineServer
import ServiceLifecycle

/// Servers that run in this process on free ports while a body runs.
public enum RunningServer {
    /// Runs a stand-in for the language model.
    ///
    /// - Parameters:
    ///   - latency: The time from a question to the first word.
    ///   - wordInterval: The time between two words.
    ///   - clock: The clock of both times.
    ///   - body: Called with the address.
    /// - Throws: The errors of `body`.
    public static func withStandIn(
        latency: Duration,
        wordInterval: Duration,
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
        try await run(standIn, ports, port) { try await body("http://127.0.0.1:\($0)") }
    }

    /// Runs the assistant's server.
    ///
    /// - Parameters:
    ///   - folder: The folder of its data.
    ///   - settings: The language model and other settings. The ports are free ones.
    ///   - registry: The registry of its metrics.
    ///   - body: Called with the address.
    /// - Throws: The errors of storage, settings and `body`.
    public static func withAssistant(
        folder: URL,
        settings: ServerSettings,
        registry: OpenMetricsRegistry = OpenMetricsRegistry(),
        _ body: @escaping @Sendable (URL) async throws -> Void
    ) async throws {
        var settings = settings
        (settings.http.port, settings.http.adminPort) = (0, 0)
        let (ports, port) = AsyncStream.makeStream(of: Int.self)
        try await AssistantServer.with(
            folder: folder,
            settings: settings,
            registry: registry,
            logger: logger,
            onListening: { port.yield($0.http) }
        ) { server in
            try await run(server, ports, port) { port in
                guard let address = URL(string: "http://127.0.0.1:\(port)") else { return }
                try await body(address)
            }
        }
    }

    /// Logs only errors, because other lines would appear between the answers.
    private static var logger: Logger {
        var logger = Logger(label: "assistant")
        logger.logLevel = .error
        return logger
    }

    /// Runs the service, and shuts it down gracefully after the body.
    private static func run(
        _ service: any Service,
        _ ports: AsyncStream<Int>,
        _ port: AsyncStream<Int>.Continuation,
        _ body: @escaping @Sendable (Int) async throws -> Void
    ) async throws {
        let group = ServiceGroup(services: [service], logger: logger)
        try await withThrowingTaskGroup(of: Void.self) { tasks in
            tasks.addTask {
                // Without this, a service that never listens would be awaited forever.
                defer { port.finish() }
                try await group.run()
            }
            tasks.addTask {
                // Ends the group even if the body throws, then rethrows the error.
                let result: Result<Void, any Error>
                do {
                    var listening = ports.makeAsyncIterator()
                    guard let port = await listening.next() else { return }
                    result = .success(try await body(port))
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
