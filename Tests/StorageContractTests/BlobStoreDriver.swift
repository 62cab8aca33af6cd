import Foundation
import SanguineAuthority
import SanguineModel
import SanguineSQLite
import TestSupport
import Testing

@testable import SanguineServer

/// A store of files under test.
enum BlobStoreDriver: String, CaseIterable, CustomTestStringConvertible {
    case memory
    case folder
    /// A bucket of `Scripts/s3-server.py`.
    case s3

    var testDescription: String { rawValue }

    /// The stores whose programs are installed.
    static let available = allCases.filter { driver in
        driver != .s3 || (try? ToolCheck([.s3Server]).mayRun()) == true
    }

    /// Passes an empty store to the body and closes it afterwards.
    func withEmptyStore<Value>(
        _ body: (any BlobStore) async throws -> Value
    ) async throws -> Value {
        switch self {
        case .memory:
            return try await body(MemoryBlobStore())
        case .folder:
            return try await StorageDriver.sqlite.withEmptyStorage { try await body($0.blobs) }
        case .s3:
            let server = try await S3Server.access()
            var blobs = BlobSetting()
            blobs.store = BlobSetting.Store.s3.rawValue
            blobs.s3.endpoint = server.endpoint
            blobs.s3.bucket = server.bucket
            // All characters that a path escapes in one way or another.
            blobs.s3.prefix = "ä//ß+ %25?#&=@(1)~*/\(UUID())"
            blobs.s3.accessKey = Secret(server.accessKey)
            blobs.s3.secretKey = Secret(server.secretKey)
            let store = try #require(
                try blobs.bucketStore(clock: SystemWallClock(), delay: ContinuousClock())
            )
            do {
                let value = try await body(store)
                await store.close()
                return value
            } catch {
                await store.close()
                throw error
            }
        }
    }
}
