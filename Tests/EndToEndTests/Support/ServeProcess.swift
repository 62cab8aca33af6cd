import Foundation
import SanguineTesting
import TestSupport

/// A running `sanguine serve`.
struct ServeProcess: Sendable {
    let tool: Tool
    let port: Int
    var api: API { API(port: port) }

    static func with<Value: Sendable>(
        data: URL,
        port: Int = 0,
        arguments: [String] = [],
        environment: [String: String] = ["SANGUINE_LOG_ACCESS": "false"],
        errors: Tool.Errors = .read,
        _ body: @Sendable (ServeProcess) async throws -> Value
    ) async throws -> Value {
        let all = ["serve", "--data", data.path, "--port", "\(port)", "--admin-port", "0"]
        return try await Tool.with(all + arguments, environment: environment, errors: errors) {
            try await body(ServeProcess(tool: $0, port: try await $0.listeningPort()))
        }
    }

    /// Asks it to stop, and returns how it ended.
    func stop() async throws -> Tool.Ended {
        tool.signal(SIGTERM)
        return try await tool.ended()
    }
}
