import AssistantModel
public import Foundation
public import Logging
import SanguineSQLite
public import SanguineServer

/// The backend: what the model is told, for each of the three questions.
public enum AssistantServer {
    private static let manner =
        "Answer in three sentences at most, in the language of the question."

    /// What the app's calls are answered by.
    public static let functions = [
        ServerFunction(asking: AskText.self) { Prompt(system: manner, $0.question) },
        ServerFunction(asking: AskImage.self) { Prompt(system: manner, $0.question) },
        ServerFunction(asking: AskVideo.self) { Prompt(system: manner, $0.question) },
    ]

    /// Makes a server on a folder's data, and closes that when the body has ended.
    ///
    /// - Parameters:
    ///   - folder: Where the data is.
    ///   - settings: The ports, the language model, and what else is to be set.
    ///   - registry: Its metrics.
    ///   - logger: What goes wrong.
    ///   - onListening: Is given the ports that it has.
    ///   - body: Runs the server.
    /// - Throws: What storage, settings and `body` throw.
    public static func with(
        folder: URL,
        settings: ServerSettings,
        registry: OpenMetricsRegistry = OpenMetricsRegistry(),
        logger: Logger = Logger(label: "assistant"),
        onListening: @escaping @Sendable (SanguineServer.Ports) async -> Void,
        _ body: (SanguineServer) async throws -> Void
    ) async throws {
        let storage = try SQLiteStorage(folder: folder)
        do {
            let server = try await SanguineServer(
                storage: storage,
                keys: try KeyFile.loadOrCreate(in: folder),
                adminToken: try AdminToken.loadOrCreate(in: folder),
                settings: settings,
                functions: functions,
                registry: registry,
                logger: logger,
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
