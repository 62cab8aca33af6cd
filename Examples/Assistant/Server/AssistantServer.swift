import AssistantModel
public import Foundation
public import Logging
import SanguineSQLite
public import SanguineServer

/// The backend: the prompt for each of the three questions.
public enum AssistantServer {
    private static let manner =
        "Answer in three sentences at most, in the language of the question."

    /// The functions that answer the app's calls.
    public static let functions = [
        ServerFunction(asking: AskText.self) { Prompt(system: manner, $0.question) },
        ServerFunction(asking: AskImage.self) { Prompt(system: manner, $0.question) },
        ServerFunction(asking: AskVideo.self) { Prompt(system: manner, $0.question) },
    ]

    /// Creates a server with a folder's data, and closes the storage after the body.
    ///
    /// - Parameters:
    ///   - folder: The folder of the data.
    ///   - settings: The ports, the language model and other settings.
    ///   - registry: The registry of its metrics.
    ///   - logger: The logger for errors.
    ///   - onListening: Called with the server's ports.
    ///   - body: Runs the server.
    /// - Throws: The errors of storage, settings and `body`.
    public static func with(
        folder: URL,
        settings: ServerSettings,
        registry: OpenMetricsRegistry = OpenMetricsRegistry(),
        logger: Logger = Logger(label: "assistant"),
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
                    functions: functions,
                    registry: registry,
                    logger: logger,
                    onListening: onListening
                )
            )
        }
    }
}
