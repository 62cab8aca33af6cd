import ArgumentParser
import Foundation
import Sanguine

/// The folder of the client, and its server.
struct ClientOptions: ParsableArguments {
    static let serverVariable = "SANGUINE_SERVER"
    static let folderVariable = "SANGUINE_FOLDER"

    @Option(help: "The server's URL. Default: SANGUINE_SERVER, or http://127.0.0.1:8080.")
    var server: String?

    @Option(
        help: """
            The folder of the client's state; two folders are two devices. Default: \
            SANGUINE_FOLDER, or '.sanguine' in the home folder.
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

    /// Calls the body with a client whose state is restored, and closes the client.
    ///
    /// - Parameters:
    ///   - retries: Whether to retry failed requests, instead of continuing with the known state.
    ///   - asksServer: Whether to contact the server at all.
    ///   - body: The code to run.
    /// - Throws: ``Failure`` if the folder cannot be used, before or after the body's output; the
    ///   body's error.
    func withClient(
        retries: Bool = true,
        asksServer: Bool = true,
        _ body: (SanguineClient) async throws -> Void
    ) async throws {
        let client = try client(retries: retries, asksServer: asksServer)
        defer { client.close() }
        do {
            try await body(client)
        } catch SanguineError.store(let error) {
            throw unusable("\(error)")
        }
        let report = client.storeReport
        for file in report.movedAside {
            Output.writeError("A file could not be used and was renamed to '\(file.path)'.")
        }
        if let failure = report.failure, report.movedAside.isEmpty { throw unusable(failure) }
    }

    /// Creates a client, and restores its state.
    ///
    /// - Parameters:
    ///   - retries: Whether to retry failed requests, instead of continuing with the known state.
    ///   - asksServer: Whether to contact the server at all.
    /// - Returns: The client, which the caller must close.
    /// - Throws: ``Failure`` if the folder cannot be used.
    func client(retries: Bool = true, asksServer: Bool = true) throws -> SanguineClient {
        try checkFolder()
        var configuration = SanguineClient.Configuration(server: asksServer ? url : nil)
        configuration.folder = stateFolder
        configuration.retries = retries
        let client = try SanguineClient(configuration)
        guard client.storeReport.place == .disk else {
            defer { client.close() }
            throw unusable(client.storeReport.failure ?? "files cannot be stored in it")
        }
        return client
    }

    /// - Throws: ``Failure`` if the folder is evidently unusable.
    func checkFolder() throws(Failure) {
        if let obstacle = UsableFolder.obstacle(in: stateFolder) {
            throw UsableFolder.failure(stateFolder, obstacle, option: "--folder")
        }
    }

    private func unusable(_ reason: String) -> Failure {
        let obstacle = UsableFolder.obstacle(in: stateFolder)
        let shown = obstacle ?? (reason.hasSuffix(".") ? String(reason.dropLast()) : reason)
        return UsableFolder.failure(stateFolder, shown, option: "--folder")
    }

    private var url: URL? {
        let text = server ?? Self.environment(Self.serverVariable) ?? "http://127.0.0.1:8080"
        guard let url = URL(string: text), let scheme = url.scheme,
            ["http", "https"].contains(scheme),
            url.host() != nil
        else { return nil }
        return url
    }

    /// The folder of the client's state.
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
