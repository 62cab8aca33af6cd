public import Foundation
public import Logging
import ReadingsModel
import SanguineSQLite
public import SanguineServer

/// The backend: a prompt for each kind and tradition, and the app's records.
public enum ReadingsServer {
    /// The function that answers the app's calls.
    public static let functions = [
        ServerFunction(asking: ReadPhoto.self, maxOutputTokens: 600) { input in
            Prompt(
                system: """
                    You tell fortunes for entertainment, kindly, and never about illness or death. \
                    \(input.origin.manner) Write 120 words at most, in the language \
                    '\(try input.languageTag)'. If the photo does not show what you are asked to \
                    read, say so and ask for another one.
                    """,
                "Read \(input.kind.subject) in this photo."
            )
        }
        .recording(ReadPhoto.self) { call in
            var reading = try Reading(
                call: call.key,
                call.input,
                day: call.day,
                photo: call.attachments.first?.id
            )
            reading.text = call.output
            return [KeepReading(reading)]
        }
    ]

    /// Creates a server with a folder's data, and closes the storage after the body.
    ///
    /// Without an SMTP server, e-mails become files in the folder `mail`.
    ///
    /// - Parameters:
    ///   - folder: The folder of the data.
    ///   - settings: The ports, the language model, the quota and other settings.
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
        logger: Logger = Logger(label: "readings"),
        clock: any WallClock = SystemWallClock(),
        onListening: @escaping @Sendable (SanguineServer.Ports) async -> Void = { _ in },
        _ body: (SanguineServer) async throws -> Void
    ) async throws {
        var settings = settings
        settings.mail.app = "Readings"
        if settings.mail.smtpHost == nil, settings.mail.folder == nil {
            settings.mail.folder = folder.appending(path: "mail").path
        }
        try await SQLiteStorage.with(folder: folder) { storage in
            try await body(
                SanguineServer(
                    storage: storage,
                    keys: try KeyFile.loadOrCreate(in: folder),
                    adminToken: try AdminToken.loadOrCreate(in: folder),
                    settings: settings,
                    registering: readingTypes,
                    functions: functions,
                    registry: registry,
                    logger: logger,
                    clock: clock,
                    onListening: onListening
                )
            )
        }
    }
}

extension ReadPhoto.Input {
    /// The language, refused if it could be more than a tag: it becomes a part of the prompt.
    fileprivate var languageTag: String {
        get throws {
            guard let tag = language.wholeMatch(of: /[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8}){0,4}/) else {
                throw Refusal(.invalidContent, "Set 'input.language' to a BCP 47 tag.")
            }
            return String(tag.output.0)
        }
    }
}

extension ReadingKind {
    /// The words for the subject in a prompt.
    fileprivate var subject: String {
        switch self {
        case .face: "the face: forehead, brows, eyes, nose, mouth and chin"
        case .palm: "the palm: the lines of life, head, heart and fate, and the mounts"
        case .coffee: "the coffee grounds: the shapes near the rim, on the walls and at the bottom"
        }
    }
}

extension Origin {
    /// The tradition's way of reading.
    fileprivate var manner: String {
        switch self {
        case .turkish:
            "Read as in Turkish fal: images, from the rim (soon) to the bottom (later)."
        case .greek: "Read as in Greek kafemanteia and palmistry: omens for home and journeys."
        case .chinese: "Read as in Chinese mian xiang and shou xiang: the five elements."
        case .indian: "Read as in Indian samudrika shastra: marks, mounts and their planets."
        case .celtic: "Read as in Celtic lore: signs of nature, trees and seasons."
        }
    }
}
