import SanguineModel
import Synchronization
import TestSupport

@testable import SanguineAuthority

/// A storage in memory whose commands or files can fail.
final class WitnessStorage: StorageDecorator {
    let inner = MemoryStorage()
    private let failing = Mutex((commands: false, files: false))

    func failCommands(_ fails: Bool) { failing.withLock { $0.commands = fails } }

    func failFiles(_ fails: Bool) { failing.withLock { $0.files = fails } }

    func perform<Outcome>(
        _ command: Command<Outcome>
    ) async throws(StorageError) -> Result<Outcome, Problem> {
        if failing.withLock({ $0.commands }) { throw .failed("a bad page") }
        return try await inner.perform(command)
    }

    var blobs: any BlobStore {
        failing.withLock { $0.files } ? FullStore() : inner.blobs
    }
}

/// A disk without space.
private struct FullStore: BlobStore {
    func keep(
        _ bytes: [UInt8],
        as id: BlobID,
        at moment: Timestamp
    ) async throws(StorageError) {
        throw .full("no room")
    }

    func read(
        _ id: BlobID,
        from offset: Int,
        count: Int
    ) async throws(StorageError) -> [UInt8]? { nil }

    func kept(
        before moment: Timestamp,
        after id: BlobID?,
        limit: Int
    ) async throws(StorageError) -> [BlobID] { [] }

    func remove(
        _ id: BlobID,
        keptBefore moment: Timestamp
    ) async throws(StorageError) -> Bool { false }
}
