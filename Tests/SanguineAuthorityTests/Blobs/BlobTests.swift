import Foundation
import SanguineModel
import TestSupport
import Testing

@testable import SanguineAuthority

/// The ownership of files, the order of writes, and the space that files take.
@Suite("Files of an account", .bounded)
struct BlobTests {
    private let jpeg = SampleFile.jpeg.bytes()

    private func id(_ facts: BlobFacts) throws -> BlobID { try #require(BlobID(facts.id)) }

    private func feed(_ world: SyncWorld) async throws -> FeedRow? {
        try await world.storage.load([.feed(world.account)]).feed(world.account)
    }

    @Test func `a file is stored once by its content, no matter how often it is sent`() async throws
    {
        let world = try await SyncWorld()
        let first = try await world.authority.addBlob(jpeg, to: world.account)
        let again = try await world.authority.addBlob(jpeg, to: world.account)
        let stored = try await world.authority.readBlob(id(first.facts), from: 0)

        #expect(first.isNew && !again.isNew && again.facts == first.facts)
        #expect(first.facts.type == "image/jpeg" && first.facts.size == stored.count)
        #expect(first.facts.width == 30 && first.facts.height == 40)
        #expect(first.facts.id == BlobID(of: stored).description)
        let cleaned = try await world.authority.addBlob(stored, to: world.account)
        #expect(!cleaned.isNew && cleaned.facts == first.facts)
    }

    @Test func `a file belongs only to its account, until another account sends it`() async throws {
        let world = try await SyncWorld()
        let stranger = try await world.stranger()
        let facts = try await world.authority.addBlob(jpeg, to: world.account).facts
        let id = try id(facts)

        #expect(try await world.authority.blobs([id], of: world.account).map(\.facts) == [facts])
        #expect(try await world.authority.blobs([id], of: stranger) == [])
        #expect(try await world.authority.addBlob(jpeg, to: stranger).isNew)
        #expect(try await world.authority.blobs([id], of: stranger).map(\.facts) == [facts])
    }

    @Test func `sending a file again repairs one whose content is lost`() async throws {
        let world = try await SyncWorld()
        let id = try id(try await world.authority.addBlob(jpeg, to: world.account).facts)
        let later = world.clock.now() + .seconds(1)
        #expect(try await world.storage.blobs.remove(id, keptBefore: later))
        let lost = await problem { () async throws(Problem) in
            try await world.authority.readBlob(id, from: 0)
        }
        #expect(lost?.detail.hasPrefix("Upload the file again") == true)

        #expect(try await !world.authority.addBlob(jpeg, to: world.account).isNew)
        #expect(try await !world.authority.readBlob(id, from: 0).isEmpty)
    }

    @Test func `files and records share one storage limit`() async throws {
        let world = try await SyncWorld { $0.bytesPerAccount = 2_000 }
        let png = SampleFile.png.bytes(filler: 1_000)
        let facts = try await world.authority.addBlob(png, to: world.account).facts
        #expect(try await feed(world)?.bytes == Int64(facts.size) + RecordRow.overheadBytes)

        let other = SampleFile.png.bytes(filler: 1_001)
        let full = await problem { () async throws(Problem) in
            try await world.authority.addBlob(other, to: world.account)
        }
        #expect(full?.code == .storageFull && full?.status == 422)
        #expect(full?.detail.contains("2000 bytes") == true)
        // A file that exists takes no more space.
        #expect(try await !world.authority.addBlob(png, to: world.account).isNew)
        let text = String(repeating: "x", count: 1_000)
        let note = CreateRecord(.note("a"), ["text": .string(text)])
        #expect(try await world.push(note).map { $0.problem?.code } == [.storageFull])
        #expect(try await feed(world)?.bytes == Int64(facts.size) + RecordRow.overheadBytes)
    }

    @Test func `a file beyond the storage limit is refused before it is written`() async throws {
        let world = try await SyncWorld { $0.bytesPerAccount = 200 }
        let full = await problem { () async throws(Problem) in
            try await world.authority.addBlob(jpeg, to: world.account)
        }
        #expect(full?.code == .storageFull)
        let later = world.clock.now() + .seconds(1)
        #expect(try await world.storage.blobs.kept(before: later, after: nil, limit: 9) == [])
    }

    @Test func `the bytes are durable before a row names them`() async throws {
        let storage = WitnessStorage()
        let world = try await SyncWorld()
        let authority = Authority(
            storage: storage,
            keys: SigningKeys(),
            clock: world.clock
        )
        let secret = Base64URL.encode([UInt8](repeating: 3, count: 32))
        let guest = GuestRequest(deviceId: "device-of-a-witness", deviceSecret: secret)
        let account = try await authority.guest(guest).signedIn.account.id

        storage.failCommands(true)
        let refused = await problem { () async throws(Problem) in
            try await authority.addBlob(jpeg, to: account)
        }
        #expect(refused?.code == .internalFault)
        let content = BlobID(of: jpeg)
        #expect(try await storage.blobs.read(content, from: 0, count: 1) == [0xFF])
        #expect(try await authority.blobs([content], of: account) == [])

        storage.failCommands(false)
        #expect(try await authority.addBlob(jpeg, to: account).isNew)
        // If the disk refuses the bytes, no row names them.
        storage.failFiles(true)
        let png = SampleFile.png.bytes()
        let full = await problem { () async throws(Problem) in
            try await authority.addBlob(png, to: account)
        }
        #expect(full?.code == .overloaded)
        let other = BlobID(of: png)
        #expect(try await authority.blobs([other], of: account) == [])
    }

    @Test func `only files without an owner are removed after an hour`() async throws {
        let world = try await SyncWorld()
        let files = world.storage.blobs
        let owned = try await id(world.authority.addBlob(jpeg, to: world.account).facts)
        let orphan = BlobID(of: [1])
        try await files.keep([1], as: orphan, at: world.clock.now())

        world.clock.advance(by: .seconds(3_600))
        #expect(try await world.authority.sweep() == 0)
        #expect(try await files.read(orphan, from: 0, count: 1) == [1])
        world.clock.advance(by: .seconds(1))
        #expect(try await world.authority.sweep() == 1)
        #expect(try await files.read(orphan, from: 0, count: 1) == nil)
        #expect(try await files.read(owned, from: 0, count: 1) == [0xFF])
    }

    @Test func `many files are examined in parts, and then from the beginning`() async throws {
        let world = try await SyncWorld()
        let files = world.storage.blobs
        for number in UInt8(0)..<25 {
            try await files.keep([number], as: BlobID(of: [number]), at: world.clock.now())
        }
        world.clock.advance(by: .seconds(3_601))
        #expect(try await world.authority.sweep(limit: 10) == 10)
        #expect(try await world.authority.sweep(limit: 10) == 10)
        try await files.keep([99], as: BlobID(of: [99]), at: .init(millisecondsSince1970: 0))
        var removed = 0
        for _ in 0..<3 { removed += try await world.authority.sweep(limit: 10) }
        #expect(removed == 6)
        #expect(try await files.kept(before: world.clock.now(), after: nil, limit: 9) == [])
    }
}
