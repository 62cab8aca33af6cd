import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineAuthority

/// The removal of contents without an owner from a slow store, such as a distant bucket.
@Suite("Sweep of a slow store", .bounded)
struct BlobSweepTests {
    private func world(_ count: Int) async throws -> (Authority, SlowRemovals) {
        let clock = ManualClock()
        let storage = SlowStorage()
        for number in 0..<count {
            let bytes = [UInt8(number)]
            try await storage.inner.blobs.keep(bytes, as: BlobID(of: bytes), at: clock.now())
        }
        clock.advance(by: .seconds(3_601))
        return (Authority(storage: storage, keys: SigningKeys(), clock: clock), storage.removals)
    }

    @Test func `contents are removed several at a time, and not all at once`() async throws {
        let (authority, removals) = try await world(20)
        let sweep = Task { try await authority.sweepBlobs(limit: 100) }
        try await removals.state.wait(for: "the first removals") {
            $0.running == Authority.removalsAtOnce
        }
        removals.state.withLock { $0.isOpen = true }
        #expect(try await sweep.finished() == 20)
        #expect(removals.state.withLock { $0.most } == Authority.removalsAtOnce)
        #expect(authority.blobSweep.removed.contents == 20)
    }

    @Test func `a failure ends the sweep, and the next one continues after it`() async throws {
        let (authority, removals) = try await world(20)
        removals.state.withLock { ($0.isOpen, $0.isFailing) = (true, true) }
        let failed = await problem { () async throws(Problem) in
            try await authority.sweepBlobs(limit: 100)
        }
        #expect(failed?.code == .internalFault)
        #expect(removals.state.withLock { $0.calls } == Authority.removalsAtOnce)
        removals.state.withLock { $0.isFailing = false }
        // A file that can never be removed does not keep the others.
        let others = 20 - Authority.removalsAtOnce
        #expect(try await authority.sweepBlobs(limit: 100) == others)
        #expect(try await authority.sweepBlobs(limit: 100) == Authority.removalsAtOnce)
        #expect(authority.blobSweep.removed.contents == 20)
    }
}

/// A storage in memory with a slow store of files.
private final class SlowStorage: StorageDecorator {
    let inner = MemoryStorage()
    let removals: SlowRemovals

    init() { removals = SlowRemovals(inner.blobs) }

    var blobs: any BlobStore { removals }
}

/// A store whose removals wait until they are let through.
private final class SlowRemovals: BlobStore {
    struct State {
        var isOpen = false
        var isFailing = false
        var calls = 0
        var running = 0
        var most = 0
    }

    let state = WatchedState(State())
    private let inner: any BlobStore

    init(_ inner: any BlobStore) { self.inner = inner }

    func keep(
        _ bytes: [UInt8],
        as id: BlobID,
        at moment: Timestamp
    ) async throws(StorageError) {
        try await inner.keep(bytes, as: id, at: moment)
    }

    func read(
        _ id: BlobID,
        from offset: Int,
        count: Int
    ) async throws(StorageError) -> [UInt8]? {
        try await inner.read(id, from: offset, count: count)
    }

    func kept(
        before moment: Timestamp,
        after id: BlobID?,
        limit: Int
    ) async throws(StorageError) -> [BlobID] {
        try await inner.kept(before: moment, after: id, limit: limit)
    }

    func remove(_ id: BlobID, keptBefore moment: Timestamp) async throws(StorageError) -> Bool {
        let isFailing = state.withLock { state in
            state.calls += 1
            state.running += 1
            state.most = max(state.most, state.running)
            return state.isFailing
        }
        defer { state.withLock { $0.running -= 1 } }
        if isFailing { throw .failed("a test's refusal") }
        _ = try? await state.wait(for: "the test to let removals through") { $0.isOpen }
        return try await inner.remove(id, keptBefore: moment)
    }
}
