import ServiceLifecycle
import UnixSignals

extension SanguineServer {
    /// Serves until the process is told to stop by SIGTERM or SIGINT, and shuts down gracefully.
    ///
    /// For a program that runs this server and nothing else. One with other services adds it to a
    /// `ServiceGroup` of its own, which calls ``run()``.
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
