import AlmanacModel
import AlmanacSky
public import Foundation
public import Logging
import SanguineSQLite
public import SanguineServer

/// The backend: two functions that compute, three that ask a language model, titles, and feedback.
public enum AlmanacServer {
    /// Returns the functions that answer the app's calls.
    static func functions(_ feedback: FeedbackFile) -> [ServerFunction] {
        [
            ServerFunction(
                UseTools.self,
                inputs: ["moment": "string", "zodiac": "string"]
            ) { run in
                try Prompts.refusing { () throws(SkyError) in try SkyReport(run.input) }
            },
            ServerFunction(
                ComputeAstroData.self,
                inputs: ["birth": "object", "year": "integer"]
            ) { run in
                try Prompts.refusing { () throws(SkyError) in try AstroData(run.input) }
            },
            ServerFunction(
                asking: PredictToday.self,
                inputs: ["birth": "object", "day": "string"]
            ) { try Prompts.today($0) },
            ServerFunction(
                asking: Predict.self,
                inputs: [
                    "birth": "object", "question": "string", "day": "string", "area": "string",
                ]
            ) { try Prompts.question($0) },
            ServerFunction(
                asking: ExplainMatch.self,
                inputs: [
                    "groom": "object", "bride": "object", "question": "string", "area": "string",
                ]
            ) { Prompts.match($0) },
            ServerFunction(
                MakeTitle.self,
                inputs: ["question": "string", "answer": "string"]
            ) { MakeTitle.title(of: $0.input.question) },
            ServerFunction(DeliverFeedback.self) { run in
                guard run.input.comment.utf8.count <= Feedback.mostBytes else {
                    throw Refusal(.invalidContent, "Write a comment of at most 2 KiB.")
                }
                try await feedback.append(run.input)
                return true
            },
        ]
    }

    /// Creates a server with a folder's data, and closes the storage after the body.
    ///
    /// - Parameters:
    ///   - folder: The folder of the data, and of the file of feedback.
    ///   - settings: The ports, the language model and other settings.
    ///   - registry: The registry of its metrics.
    ///   - logger: The logger for errors.
    ///   - clock: The current time, from which the users' days follow.
    ///   - onListening: Called with the server's ports.
    ///   - body: Runs the server.
    /// - Throws: The errors of storage, settings and `body`.
    public static func with(
        folder: URL,
        settings: ServerSettings,
        registry: OpenMetricsRegistry = OpenMetricsRegistry(),
        logger: Logger = Logger(label: "almanac"),
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
                    registering: [Match.self],
                    functions: functions(FeedbackFile(in: folder)),
                    registry: registry,
                    logger: logger,
                    clock: clock,
                    onListening: onListening
                )
            )
        }
    }
}
