import ArgumentParser
import Foundation
import Sanguine

/// Whose client this is, and of which server.
struct ClientOptions: ParsableArguments {
    static let serverVariable = "SANGUINE_SERVER"
    static let folderVariable = "SANGUINE_FOLDER"

    @Option(help: "The server. Default: what SANGUINE_SERVER names, or http://127.0.0.1:8080.")
    var server: String?

    @Option(
        help: """
            The folder of the client's state; two folders are two devices. Default: what \
            SANGUINE_FOLDER names, or '.sanguine' in the home folder.
            """
    )
    var folder: String?

    @Flag(help: "Print JSON.")
    var json = false

    func validate() throws {
        guard folder != "" else { throw ValidationError("Set '--folder' to a path, or omit it.") }
        guard url != nil else {
            throw ValidationError(
                "Set '--server' to an http or https URL, such as http://127.0.0.1:8080."
            )
        }
    }

    /// The client, with its state restored.
    ///
    /// - Parameters:
    ///   - retries: Whether to send again what failed, or to go on with what is known.
    ///   - asksServer: Whether the server is asked at all.
    /// - Returns: The client; its owner closes it.
    /// - Throws: What the client's initializer throws.
    func client(retries: Bool = true, asksServer: Bool = true) throws -> SanguineClient {
        var configuration = SanguineClient.Configuration(server: asksServer ? url : nil)
        configuration.folder = stateFolder
        configuration.retries = retries
        return try SanguineClient(configuration)
    }

    private var url: URL? {
        let text = server ?? Self.environment(Self.serverVariable) ?? "http://127.0.0.1:8080"
        guard let url = URL(string: text), let scheme = url.scheme,
            ["http", "https"].contains(scheme),
            url.host() != nil
        else { return nil }
        return url
    }

    /// Where the client keeps its state.
    var stateFolder: URL {
        if let path = folder ?? Self.environment(Self.folderVariable) {
            return URL(filePath: path, directoryHint: .isDirectory)
        }
        return FileManager.default.homeDirectoryForCurrentUser
            .appending(path: ".sanguine", directoryHint: .isDirectory)
    }

    private static func environment(_ name: String) -> String? {
        ProcessInfo.processInfo.environment[name].flatMap { $0.isEmpty ? nil : $0 }
    }
}
