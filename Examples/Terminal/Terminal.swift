public import ArgumentParser
public import Foundation
public import Logging
import Observation
public import Sanguine
public import SanguineServer

// Helpers of the examples' command-line interfaces. An app does not need them.

/// Writes a line at once.
///
/// `print` buffers lines while the output is a pipe, and parts of answers are written in between.
public func say(_ line: String) throws {
    try FileHandle.standardOutput.write(contentsOf: Data("\(line)\n".utf8))
}

/// Writes an answer as it grows, and returns its result.
@MainActor
public func write(_ answer: AnswerModel<String>) async throws -> FunctionResult<String> {
    var written = 0
    while true {
        let more = Data(answer.text.utf8.dropFirst(written))
        try FileHandle.standardOutput.write(contentsOf: more)
        written += more.count
        guard answer.phase == .waiting || answer.phase == .answering else { break }
        await change { _ = (answer.text, answer.phase) }
    }
    try say("")
    return try await answer.finished()
}

/// Returns when an observable value that the body reads has changed.
@MainActor
public func change(_ body: () -> Void) async {
    await withCheckedContinuation { continuation in
        withObservationTracking(body) { continuation.resume() }
    }
    // The value changes after this notification, in the same turn.
    await Task.yield()
}

/// Returns the address in an argument.
///
/// - Throws: `ValidationError` for text that is not a URL.
public func address(_ text: String) throws -> URL {
    guard let address = URL(string: text) else {
        throw ValidationError("'\(text)' is not a valid address.")
    }
    return address
}

/// Runs the body with the address of a language model.
///
/// - Parameters:
///   - address: The model's base URL, or `nil` for a stand-in in this process.
///   - latency: The time in which the stand-in begins an answer.
///   - body: Called with the address.
/// - Throws: The error of `body`.
public func withModel(
    _ address: String?,
    latency: Duration,
    _ body: @escaping @Sendable (String) async throws -> Void
) async throws {
    if let address { return try await body(address) }
    try await StandInServer(
        port: 0,
        latency: latency,
        wordInterval: .milliseconds(40),
        logger: .errors("stand-in")
    ).serve(while: body)
}

/// Runs the body with a server and the folder of the app's data.
///
/// - Parameters:
///   - named: The address of a server, or `nil` for one in this process, with a stand-in for the
///     language model.
///   - folder: The folder of the app's data. With a server in this process, both have a folder in
///     it.
///   - latency: The time in which the stand-in begins an answer.
///   - create: Creates a server with the data of a folder, and calls its last argument with it.
///   - body: Called with the address and the folder.
/// - Throws: The errors of `create` and `body`.
public func withServer(
    _ named: URL?,
    _ folder: URL,
    latency: Duration,
    _ create:
        @escaping @Sendable (URL, ServerSettings, (SanguineServer) async throws -> Void)
        async throws -> Void,
    _ body: @escaping @Sendable (URL, URL) async throws -> Void
) async throws {
    if let named { return try await body(named, folder) }
    try await withModel(nil, latency: latency) { model in
        var settings = ServerSettings()
        settings.http.port = 0
        settings.upstream.url = model
        try await create(folder.appending(path: "server"), settings) { server in
            try await server.serve { addresses in
                try await body(addresses.http, folder.appending(path: "app"))
            }
        }
    }
}

extension Logger {
    /// Returns a logger of errors only, because other lines would appear between the answers.
    public static func errors(_ label: String) -> Logger {
        var logger = Logger(label: label)
        logger.logLevel = .error
        return logger
    }
}

/// The ports of a command that runs a server.
public struct ServeOptions: ParsableArguments {
    @Option var port = 8_080
    @Option(help: "The port for administration and metrics. Default: the port + 1.")
    var adminPort: Int?

    /// Creates options without arguments.
    public init() {}

    /// The settings of a server on these ports.
    public var settings: ServerSettings {
        var settings = ServerSettings()
        (settings.http.port, settings.http.adminPort) = (port, adminPort)
        return settings
    }

    /// Writes the addresses of a server that listens.
    public static func announce(_ ports: SanguineServer.Ports) {
        try? say("administration on http://127.0.0.1:\(ports.admin)")
        try? say("listening on http://127.0.0.1:\(ports.http)")
    }
}
