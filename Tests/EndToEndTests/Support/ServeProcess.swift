import Foundation
import NIOCore
import NIOHTTP1
import NIOPosix
import TestSupport

/// A running `sanguine serve`.
struct ServeProcess: Sendable {
    let tool: Tool
    let port: Int
    let adminPort: Int
    var api: API { API(port: port) }
    var admin: API { API(port: adminPort) }

    static func with<Value: Sendable>(
        data: URL,
        port: Int = 0,
        arguments: [String] = [],
        environment: [String: String] = ["SANGUINE_LOG_ACCESS": "false"],
        errors: Tool.Errors = .read,
        shell: String? = nil,
        _ body: @Sendable (ServeProcess) async throws -> Value
    ) async throws -> Value {
        let adminPort = try await Self.freePort()
        let all = [
            "serve", "--data", data.path, "--port", "\(port)", "--admin-port", "\(adminPort)",
        ]
        return try await Tool.with(
            all + arguments,
            environment: environment,
            errors: errors,
            shell: shell
        ) {
            let port = try await $0.listeningPort()
            return try await body(ServeProcess(tool: $0, port: port, adminPort: adminPort))
        }
    }

    /// Returns a port that was free a moment ago, because the server does not print its admin port.
    private static func freePort() async throws -> Int {
        let server = try await ServerBootstrap(group: .singletonMultiThreadedEventLoopGroup)
            .bind(host: "127.0.0.1", port: 0).get()
        let port = server.localAddress?.port ?? 0
        try await server.close()
        return port
    }

    /// Returns the value of the metric on the admin port, or `nil` if it is missing.
    func metric(_ name: String) async throws -> Double? {
        let text = try await admin.send(.GET, "/metrics").text
        let line = text.split(separator: "\n").first { $0.hasPrefix(name + " ") }
        return line?.split(separator: " ").last.flatMap { Double($0) }
    }

    /// Stops the server and returns its result.
    func stop() async throws -> Tool.Ended {
        tool.signal(SIGTERM)
        return try await tool.ended()
    }
}
