package import Foundation
import Testing

/// A device with the command-line app of an example.
package struct ToolDevice: Sendable {
    package let executable: String
    /// The address of the server.
    package let server: String
    package let folder: URL

    /// Runs the example's server as a process of its own, and calls the body with its address.
    ///
    /// Expects it to end normally after SIGTERM.
    ///
    /// - Parameters:
    ///   - executable: The example's executable, whose command `serve` runs the server.
    ///   - data: The folder of the server's data.
    ///   - body: Uses the server.
    /// - Throws: The error of `body`, or one of the process.
    package static func serving(
        _ executable: String,
        _ data: URL,
        _ body: @Sendable (_ server: String, Tool) async throws -> Void
    ) async throws {
        let serve = ["serve", "--port", "0", "--data", data.path]
        try await Tool.with(serve, of: executable) { tool in
            try await body("http://127.0.0.1:\(try await tool.listeningPort())", tool)
            tool.signal(SIGTERM)
            #expect(try await tool.ended().status == 0)
        }
    }

    package init(_ executable: String, server: String, folder: URL) {
        (self.executable, self.server, self.folder) = (executable, server, folder)
    }

    /// Runs a command while the body runs.
    package func with<Value: Sendable>(
        _ arguments: [String],
        _ body: @Sendable (Tool) async throws -> Value
    ) async throws -> Value {
        let all = arguments + ["--server", server, "--folder", folder.path]
        return try await Tool.with(all, of: executable, environment: ["TZ": Self.noon], body)
    }

    /// Runs a command to the end.
    package func run(_ arguments: [String]) async throws -> Tool.Ended {
        try await with(arguments) { try await $0.ended() }
    }

    /// A time zone in which it is about noon, so that no day ends during the test.
    private static var noon: String {
        let hour = Int(Date().timeIntervalSince1970 / 3_600) % 24
        return "Etc/GMT\(hour < 12 ? "-" : "+")\(abs(12 - hour))"
    }
}
