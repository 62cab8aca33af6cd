public import Foundation
public import HabitsModel
import SanguineSQLite
public import SanguineServer

/// The backend: a server for the habits' own types.
public enum HabitsServer {
    /// Serves until a signal stops the process.
    public static func serve(folder: URL, settings: ServerSettings) async throws {
        try await with(folder: folder, settings: settings) { server in try await server.serve() }
    }

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
        onListening: @escaping @Sendable (SanguineServer.Ports) async -> Void = { ports in
            // Not `print`, which buffers the line while the output is a pipe.
            let line = Data("listening on http://127.0.0.1:\(ports.http)\n".utf8)
            try? FileHandle.standardOutput.write(contentsOf: line)
        },
        _ body: (SanguineServer) async throws -> Void
    ) async throws {
        let storage = try SQLiteStorage(folder: folder)
        do {
            let server = try await SanguineServer(
                storage: storage,
                keys: try KeyFile.loadOrCreate(in: folder),
                adminToken: try AdminToken.loadOrCreate(in: folder),
                settings: settings,
                registering: types,
                onListening: onListening
            )
            try await body(server)
            await storage.close()
        } catch {
            await storage.close()
            throw error
        }
    }
}
