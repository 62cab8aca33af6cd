package import Foundation

/// A folder that exists for the duration of a test.
package enum TemporaryFolder {
    package static func with<Value: Sendable>(
        _ body: @Sendable (URL) async throws -> Value
    ) async throws -> Value {
        let folder = FileManager.default.temporaryDirectory
            .appending(path: "sanguine-test-\(UUID().uuidString)", directoryHint: .isDirectory)
        try FileManager.default.createDirectory(
            at: folder,
            withIntermediateDirectories: true,
            attributes: [.posixPermissions: 0o700]
        )
        defer { try? FileManager.default.removeItem(at: folder) }
        return try await body(folder)
    }
}
