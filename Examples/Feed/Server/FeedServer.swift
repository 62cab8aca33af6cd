import FeedModel
public import Foundation
public import Logging
import SanguineSQLite
public import SanguineServer

/// The backend: the app's collections, and nothing else.
public enum FeedServer {
    /// Creates a server with a folder's data, and closes the storage after the body.
    ///
    /// - Parameters:
    ///   - folder: The folder of the data.
    ///   - settings: The ports and other settings.
    ///   - registry: The registry of its metrics.
    ///   - logger: The logger for errors.
    ///   - clock: The current time.
    ///   - onListening: Called with the server's ports.
    ///   - body: Runs the server.
    /// - Throws: The errors of storage, settings and `body`.
    public static func with(
        folder: URL,
        settings: ServerSettings,
        registry: OpenMetricsRegistry = OpenMetricsRegistry(),
        logger: Logger = Logger(label: "feed"),
        clock: any WallClock = SystemWallClock(),
        onListening: @escaping @Sendable (SanguineServer.Ports) async -> Void = { _ in },
        _ body: (SanguineServer) async throws -> Void
    ) async throws {
        try await SQLiteStorage.with(folder: folder) { storage in
            try await body(
                SanguineServer(
                    storage: storage,
                    keys: try KeyFile.loadOrCreate(in: folder),
                    adminToken: try AdminToken.loadOrCreate(in: folder),
                    settings: settings,
                    registering: feedTypes,
                    registry: registry,
                    logger: logger,
                    clock: clock,
                    onListening: onListening
                )
            )
        }
    }
}
