public import Foundation
public import HabitsModel
import SanguineSQLite
public import SanguineServer

/// The backend: a server of the habits' own types.
public enum HabitsServer {
    /// Serves until the process is told to stop.
    public static func serve(folder: URL, settings: ServerSettings) async throws {
        try await with(folder: folder, settings: settings) { server in try await server.serve() }
    }

    /// Makes a server on a folder's data, and closes that when the body has ended.
    ///
    /// - Parameters:
    ///   - folder: Where the data is.
    ///   - settings: The port, and what else is to be set.
    ///   - types: What it knows. Default: all that the app has.
    ///   - onListening: Is given the ports that it has.
    ///   - body: Runs the server.
    /// - Throws: What storage, settings and `body` throw.
    public static func with(
        folder: URL,
        settings: ServerSettings,
        registering types: [any Registrable.Type] = habitTypes,
        onListening: @escaping @Sendable (SanguineServer.Ports) async -> Void = { ports in
            // Not `print`, which keeps the line to itself while the output is a pipe.
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
