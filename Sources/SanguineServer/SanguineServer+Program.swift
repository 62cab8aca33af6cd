import ServiceLifecycle
import UnixSignals

extension SanguineServer {
    /// Serves until the process is told to stop (SIGTERM or SIGINT), and then shuts down gracefully.
    ///
    /// For a program that runs this server and nothing else. One with other services adds the server
    /// to a `ServiceGroup` of its own, and calls ``run()`` by that.
    ///
    /// - Throws: As ``run()`` does.
    public func serve() async throws {
        try await ServiceGroup(
            services: [self],
            gracefulShutdownSignals: [.sigterm, .sigint],
            logger: logger
        ).run()
    }
}
