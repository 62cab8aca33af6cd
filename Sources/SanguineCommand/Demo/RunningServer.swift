import Foundation
import Logging
import SanguineAuthority
import SanguineSQLite
import SanguineServer
import ServiceLifecycle

/// Servers that run in this process, on free ports, while a body runs.
enum RunningServer {
    /// Runs the stand-in model, and calls the body with its port.
    static func withStandIn(
        latency: Duration,
        _ body: @escaping @Sendable (Int) async throws -> Void
    ) async throws {
        let (ports, port) = AsyncStream.makeStream(of: Int.self)
        let standIn = StandInServer(port: 0, latency: latency, logger: logger) { port.yield($0) }
        try await run(standIn, ports, port, body)
    }

    /// Runs an authority with the folder's data, and calls the body with its port.
    ///
    /// Afterwards everything is closed.
    static func withAuthority(
        folder: URL,
        upstream: String,
        _ body: @escaping @Sendable (Int) async throws -> Void
    ) async throws {
        var settings = ServerSettings()
        settings.http.port = 0
        settings.upstream.url = upstream
        let (ports, port) = AsyncStream.makeStream(of: Int.self)
        let storage = try SQLiteStorage(folder: folder)
        do {
            let server = try await SanguineServer(
                storage: storage,
                keys: try KeyFile.loadOrCreate(in: folder),
                settings: settings,
                logger: logger
            ) { port.yield($0.http) }
            try await run(server, ports, port, body)
        } catch {
            await storage.close()
            throw error
        }
        await storage.close()
    }

    private static var logger: Logger { Logger(label: "sanguine.demo") }

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
                // Ends the wait for a port if the service never listened.
                defer { port.finish() }
                try await group.run()
            }
            tasks.addTask {
                // End the group even if the body throws, and then rethrow the error.
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
