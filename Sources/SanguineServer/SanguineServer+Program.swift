import ServiceLifecycle
import UnixSignals

extension SanguineServer {
    /// Serves until the process receives SIGTERM or SIGINT, then shuts down gracefully.
    ///
    /// Use this in a program that runs only this server. A program with other services adds the
    /// server to its own `ServiceGroup`, which calls ``run()``.
    ///
    /// - Throws: The errors of ``run()``.
    public func serve() async throws {
        try await ServiceGroup(
            services: [self],
            gracefulShutdownSignals: [.sigterm, .sigint],
            logger: logger
        ).run()
    }
}
