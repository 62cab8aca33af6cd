import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineAuthority

/// The removal of contents without an owner, also from a slow store such as a distant bucket, of
/// files without a name, and of expired uploads.
@Suite("Sweep of files", .bounded)
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

    @Test func `an unnamed file that cannot be removed does not keep those after it`()
        async throws
    {
        let world = try await SyncWorld()
        var ids: [BlobID] = []
        for filler in [9, 12, 15, 18] {
            let file = SampleFile.png.bytes(filler: filler)
            let facts = try await world.authority.addBlob(file, to: world.account).facts
            ids.append(try #require(BlobID(facts.id)))
        }
        let stuck = Key.blob(world.account, try #require(ids.min()))
        let (authority, storage) = fallible(world) { $0.unnamedBlobsKept = .seconds(60) }
        storage.fail { keys, isCommit in
            isCommit && keys.contains(stuck) ? .failed("a test's refusal") : nil
        }
        world.clock.advance(by: .seconds(61))
        let failed = await problem { () async throws(Problem) in
            try await authority.sweepUnnamedBlobs(limit: 10)
        }
        #expect(failed?.code == .internalFault)
        #expect(try await authority.sweepUnnamedBlobs(limit: 10) == 3)
        #expect(authority.blobSweep.removed.unnamed == 3)
        storage.fail { _, _ in nil }
        #expect(try await authority.sweepUnnamedBlobs(limit: 10) == 1)
    }

    @Test func `an expired upload that cannot be removed does not keep those after it`()
        async throws
    {
        let world = try await UploadWorld { $0.uploadsKept = .seconds(60) }
        var slots: [Int] = []
        for _ in 1...3 { slots.append(try await world.create().id.slot) }
        let stuck = StoredUpload.key(world.world.account, try #require(slots.min()))
        let (authority, storage) = fallible(world.world) { $0.uploadsKept = .seconds(60) }
        storage.fail { keys, isCommit in
            isCommit && keys.contains(stuck) ? .failed("a test's refusal") : nil
        }
        world.world.clock.advance(by: .seconds(61))
        let now = world.world.clock.now()
        let failed = await problem { () async throws(Problem) in
            try await authority.sweepUploads(limit: 10, asOf: now)
        }
        #expect(failed?.code == .internalFault)
        #expect(try await authority.sweepUploads(limit: 10, asOf: now) == 2)
        #expect(authority.blobSweep.removed.uploads == 2)
        storage.fail { _, _ in nil }
        #expect(try await authority.sweepUploads(limit: 10, asOf: now) == 1)
    }

    /// Returns an authority with the rows of a world, whose storage can fail.
    private func fallible(
        _ world: SyncWorld,
        _ change: (inout AuthoritySettings) -> Void
    ) -> (Authority, MortalStorage) {
        let storage = MortalStorage(over: world.storage)
        var settings = AuthoritySettings()
        change(&settings)
        let authority = Authority(
            storage: storage,
            keys: SigningKeys(),
            settings: settings,
            clock: world.clock
        )
        return (authority, storage)
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
