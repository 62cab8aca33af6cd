public import Foundation
public import HabitsModel
import SanguineSQLite
public import SanguineServer

/// The backend: a server for the habits' own types.
public enum HabitsServer {
    /// Creates a server with a folder's data, and closes the storage after the body.
    ///
    /// - Parameters:
    ///   - folder: The folder of the data.
    ///   - settings: The port and other settings.
    ///   - types: The registered types, by default those of the app.
    ///   - onListening: Called with the server's ports.
    ///   - body: Runs the server.
    /// - Throws: The errors of storage, settings and `body`.
    public static func with(
        folder: URL,
        settings: ServerSettings,
        registering types: [any Registrable.Type] = habitTypes,
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
                    registering: types,
                    onListening: onListening
                )
            )
        }
    }
}
