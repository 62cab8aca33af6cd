import ArgumentParser
import Foundation
import SanguineServer

/// Flags for settings that the environment and the file can set too; flags take precedence.
struct SettingsOptions: ParsableArguments {
    @Option(help: "The YAML file with the settings. Default: SANGUINE_CONFIG, or none.")
    var config: String?

    @Option(help: "The address that the API listens on; 0.0.0.0 for all interfaces.")
    var host: String?

    @Option(help: "The port of the API; 0 picks a free one.")
    var port: String?

    @Option(help: "The address for metrics and administration; metrics need no token.")
    var adminHost: String?

    @Option(help: "The port for metrics and administration. Default: the API's port + 1.")
    var adminPort: String?

    @Option(help: "The base URL of a server whose API is compatible with OpenAI's.")
    var upstream: String?

    @Option(help: "The lowest level logged: trace, debug, info, notice, warning, error, critical.")
    var logLevel: String?

    /// The variables of other parts of the command.
    static let otherVariables: Set<String> = [
        DataOptions.variable, ClientOptions.serverVariable, ClientOptions.folderVariable,
    ]

    func load() async throws -> SettingsLoader.Loaded {
        let flags = [
            "http.host": host, "http.port": port, "http.adminHost": adminHost,
            "http.adminPort": adminPort, "upstream.url": upstream, "log.level": logLevel,
        ]
        do {
            return try await SettingsLoader(
                flags: flags.compactMapValues(\.self),
                environment: ProcessInfo.processInfo.environment,
                file: config,
                otherVariables: Self.otherVariables
            ).load()
        } catch {
            guard error.isWrongUsage else { throw error }
            throw ValidationError("\(error)")
        }
    }
}

/// The data folder of a server.
struct DataOptions: ParsableArguments {
    static let variable = "SANGUINE_DATA"

    @Option(help: "The data folder. Default: SANGUINE_DATA, or 'sanguine-data' here.")
    var data: String?

    func validate() throws {
        guard data != "" else {
            throw ValidationError("Set '--data' to the path of a folder, or omit it.")
        }
    }

    /// Returns the folder, unless it is evidently unusable.
    ///
    /// - Parameter writing: Whether it will be written. Default: it is only read.
    /// - Returns: The folder.
    /// - Throws: ``Failure`` if it cannot be used.
    func usableFolder(writing: Bool = false) throws(Failure) -> URL {
        let folder = folder
        if let obstacle = UsableFolder.obstacle(in: folder, writing: writing) {
            throw UsableFolder.failure(folder, obstacle, option: "--data")
        }
        return folder
    }

    private var folder: URL {
        let named = ProcessInfo.processInfo.environment[Self.variable].flatMap {
            $0.isEmpty ? nil : $0
        }
        return URL(filePath: data ?? named ?? "sanguine-data", directoryHint: .isDirectory)
    }
}

extension SettingsError {
    /// Whether a value on the command line is wrong, as opposed to the environment or the file.
    fileprivate var isWrongUsage: Bool {
        problems.contains { problem in
            guard case .invalid(_, _, _, let source) = problem else { return false }
            return source.hasPrefix("flag ")
        }
    }
}
