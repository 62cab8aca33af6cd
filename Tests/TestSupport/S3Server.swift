import Foundation
import SanguineTesting
import Synchronization

/// An S3 storage on loopback that checks signatures and permissions: `Scripts/s3-server.py`.
///
/// The first test that needs it starts it. It ends with the process of the tests, which closes its
/// standard input. Each test uses a prefix of its own.
package enum S3Server {
    /// The way to the storage.
    package struct Access: Decodable, Sendable {
        package var port: Int
        package var bucket: String
        package var accessKey: String
        package var secretKey: String

        package var endpoint: String { "http://127.0.0.1:\(port)" }
    }

    private static let shared = Task { try await start() }
    private static let input = Pipe()

    /// Returns the way to the storage, after it was started.
    package static func access() async throws -> Access {
        try await shared.finished("the start of the S3 storage", within: TestingLimits.longestWait)
    }

    private static func start() async throws -> Access {
        let process = Process()
        let bin = SystemTool.s3Server.folder ?? ""
        process.executableURL = SystemTool.repository.appending(path: "\(bin)/python")
        process.arguments = [SystemTool.repository.appending(path: "Scripts/s3-server.py").path]
        let (output, errors) = (Pipe(), Pipe())
        process.standardInput = input
        process.standardOutput = output
        process.standardError = errors
        let said = WatchedState(Tool.Said())
        let complaints = WatchedState(Tool.Said())
        try process.run()
        Tool.read(output, into: said)
        Tool.read(errors, into: complaints)
        let bound = TestingLimits.longestWait
        return try await said.first("the port of the S3 storage", within: bound) { said in
            if let line = said.lines.first {
                return try JSONDecoder().decode(Access.self, from: Data(line.utf8))
            }
            if said.hasEnded { throw Tool.Failure("It never listened: \(complaints.value.text)") }
            return nil
        }
    }
}
