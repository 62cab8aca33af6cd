import Foundation
import SanguineModel
import TestSupport
import Testing

@testable import SanguineAuthority

/// The readers of a file: its owners, and the readers of a record that names it.
@Suite("Readers of a file", .bounded)
struct BlobAccessTests {
    private static let schema = RecordSchema(collections: [
        RecordCollection("notes", blobs: ["scan"]),
        RecordCollection("posts", access: .everyone, blobs: ["photo", "gallery"]),
        RecordCollection("pages", access: .everyone, blobs: [.publicly("cover")]),
        RecordCollection(
            "cards",
            access: .everyone,
            indexes: ["photo"],
            blobs: ["photo"],
            owner: "author",
            unique: [["photo", "author"]],
            search: ["photo"]
        ),
    ])

    private func world(
        _ change: (inout AuthoritySettings) -> Void = { _ in }
    ) async throws -> SyncWorld {
        try await SyncWorld { settings in
            settings.schema = Self.schema
            change(&settings)
        }
    }

    private func upload(
        _ world: SyncWorld,
        by account: Identifier? = nil,
        filler: Int = 9
    ) async throws -> BlobID {
        let file = SampleFile.png.bytes(filler: filler)
        let facts = try await world.authority.addBlob(file, to: account ?? world.account).facts
        return try #require(BlobID(facts.id))
    }

    private func canRead(
        _ id: BlobID,
        _ account: Identifier,
        _ world: SyncWorld
    ) async -> Bool {
        let row = try? await world.authority.readableBlob(id, by: account)
        return row?.id == id
    }

    private func isPublic(_ id: BlobID, _ world: SyncWorld) async -> Bool {
        (try? await world.authority.publicBlob(id)) != nil
    }

    private func code(_ result: PushResult?) -> ProblemCode? { result?.problem?.code }

    private func create(_ key: RecordKey, _ fields: RecordFields) -> CreateRecord {
        CreateRecord(key, fields)
    }

    @Test func `a file of a record is readable by the readers of the record`() async throws {
        let world = try await world()
        let stranger = try await world.stranger()
        let id = try await upload(world)
        #expect(await canRead(id, world.account, world))
        #expect(await !canRead(id, stranger, world))
        let post = RecordKey("posts", "p")
        let pushed = try await world.push(create(post, ["photo": .string("\(id)")]))
        #expect(pushed.map(\.status) == [.applied])
        #expect(await canRead(id, stranger, world))
        #expect(await !isPublic(id, world))
    }

    @Test func `a file of a private record is readable by its owner only`() async throws {
        let world = try await world()
        let stranger = try await world.stranger()
        let id = try await upload(world)
        try await world.push(create(RecordKey("notes", "n"), ["scan": .string("\(id)")]))
        #expect(await canRead(id, world.account, world))
        #expect(await !canRead(id, stranger, world))
    }

    @Test func `a deleted record and a changed member end the access`() async throws {
        let world = try await world()
        let stranger = try await world.stranger()
        let (first, second) = (try await upload(world), try await upload(world, filler: 12))
        let post = RecordKey("posts", "p")
        try await world.push(create(post, ["photo": .string("\(first)")]))
        try await world.push(SetFields(post, ["photo": .string("\(second)")]))
        #expect(await !canRead(first, stranger, world))
        #expect(await canRead(second, stranger, world))
        try await world.push(DeleteRecord(post))
        #expect(await !canRead(second, stranger, world))
        #expect(await canRead(second, world.account, world))
    }

    @Test func `a member that names files can be indexed, searched and unique`() async throws {
        let world = try await world()
        let stranger = try await world.stranger()
        let id = try await upload(world)
        let fields: RecordFields = ["photo": .string("\(id)")]
        let pushed = try await world.push(
            create(RecordKey("cards", "a"), fields),
            create(RecordKey("cards", "b"), fields)
        )
        #expect(pushed.map(\.status) == [.applied, .refused])
        #expect(code(pushed.last) == .recordExists)
        #expect(await canRead(id, stranger, world))
        for request in [
            Authority.RecordsRequest(where: ["photo": .string("\(id)")]),
            .init(search: ["photo": "\(id)"]),
        ] {
            let found = try await world.authority.records(in: "cards", for: stranger, request)
            #expect(found.items.map(\.id) == ["a"])
        }
        // The refused record left no entry that would still give access.
        try await world.push(DeleteRecord(RecordKey("cards", "a")))
        #expect(await !canRead(id, stranger, world))
        let guess = try await world.push(create(RecordKey("cards", "c"), fields), by: stranger)
        #expect(code(guess.first) == .invalidContent)
    }

    @Test func `a list and objects with ids name several files`() async throws {
        let world = try await world()
        let stranger = try await world.stranger()
        let (first, second) = (try await upload(world), try await upload(world, filler: 12))
        let facts = JSONValue.object(["id": .string("\(second)"), "width": 40])
        let gallery = JSONValue.array([.string("\(first)"), facts, .string("\(first)")])
        let pushed = try await world.push(create(RecordKey("posts", "p"), ["gallery": gallery]))
        #expect(pushed.map(\.status) == [.applied])
        #expect(await canRead(first, stranger, world))
        #expect(await canRead(second, stranger, world))
    }

    @Test func `a record cannot name a file that its writer may not read`() async throws {
        let world = try await world()
        let stranger = try await world.stranger()
        let id = try await upload(world)
        // Guessing a hash, before and after the content is uploaded, gives no access.
        for (key, name) in [("notes", "scan"), ("posts", "photo"), ("pages", "cover")] {
            let guess = create(RecordKey(key, "x"), [name: .string("\(id)")])
            let refused = try await world.push(guess, by: stranger).first
            #expect(code(refused) == .invalidContent, "\(key)")
            #expect(refused?.problem?.detail.contains("\(id)") == true, "\(key)")
        }
        #expect(await !canRead(id, stranger, world))
        let early = create(RecordKey("notes", "y"), ["scan": .string("\(BlobID(of: [1]))")])
        #expect(code(try await world.push(early, by: stranger).first) == .invalidContent)
        // A file that the writer may read can be named again, and by a set as well.
        try await world.push(create(RecordKey("posts", "p"), ["photo": .string("\(id)")]))
        let again = create(RecordKey("notes", "n"), ["scan": .string("\(id)")])
        #expect(try await world.push(again, by: stranger).map(\.status) == [.applied])
    }

    @Test func `other values are refused, and those of old records stay editable`() async throws {
        let world = try await world()
        let many = JSONValue.array(
            (0...WireLimits.blobsPerRecord).map { .string("\(BlobID(of: [UInt8($0)]))") }
        )
        for value in [1, .string("nonsense"), .array([true]), .object([:]), many] as [JSONValue] {
            let refused = try await world.push(
                create(RecordKey("notes", "n"), ["scan": value])
            ).first
            #expect(code(refused) == .invalidContent)
        }
        let none: RecordFields = ["scan": .null]
        #expect(
            try await world.push(create(RecordKey("notes", "n"), none)).map(\.status) == [.applied]
        )
        let old = RecordRow(
            name: RecordName("notes", in: world.account, "old"),
            owner: world.account,
            seq: 90,
            through: 90,
            value: Array(#"{"scan":"a path","text":"a"}"#.utf8),
            createdAt: ManualClock.start,
            updatedAt: ManualClock.start
        )
        let store = Command(keys: []) { _ in Decision((), changes: [.put(.record(old))]) }
        try await world.storage.perform(store).get()
        let edit = SetFields(RecordKey("notes", "old"), ["text": "b"])
        #expect(try await world.push(edit).map(\.status) == [.applied])
    }

    @Test func `a deleted file is not found, and its record stays editable`() async throws {
        let world = try await world()
        let stranger = try await world.stranger()
        let id = try await upload(world)
        let post = RecordKey("posts", "p")
        try await world.push(create(post, ["photo": .string("\(id)")]))
        try await world.authority.removeBlob(id, of: stranger)
        #expect(await canRead(id, stranger, world))
        try await world.authority.removeBlob(id, of: world.account)
        try await world.authority.removeBlob(id, of: world.account)
        #expect(await !canRead(id, stranger, world))
        #expect(await !canRead(id, world.account, world))
        let loaded = try await world.storage.load([.feed(world.account)])
        let value = try await world.storage.load([.record(RecordName("posts", in: nil, "p"))])
            .record(RecordName("posts", in: nil, "p"))
        #expect(loaded.feed(world.account)?.bytes == value?.storedBytes)
        #expect(try await world.push(SetFields(post, ["text": "b"])).map(\.status) == [.applied])
        // The bytes go with the next sweep after the grace.
        world.clock.advance(by: .seconds(3_601))
        #expect(try await world.authority.sweep() == 1)
        #expect(try await world.storage.blobs.read(id, from: 0, count: 1) == nil)
    }

    @Test func `only a public member makes a file public`() async throws {
        let world = try await world()
        let id = try await upload(world)
        let page = RecordKey("pages", "p")
        try await world.push(create(RecordKey("posts", "p"), ["photo": .string("\(id)")]))
        #expect(await !isPublic(id, world))
        try await world.push(create(page, ["cover": .string("\(id)")]))
        #expect(await isPublic(id, world))
        try await world.push(DeleteRecord(page))
        #expect(await !isPublic(id, world))
    }

    @Test func `an index that is being built is not taken for a missing name`() async throws {
        let world = try await world()
        let stranger = try await world.stranger()
        let id = try await upload(world)
        await world.authority.findIncompleteIndexes()
        let early = await problem { () async throws(Problem) in
            try await world.authority.readableBlob(id, by: stranger)
        }
        #expect(early?.code == .overloaded)
        let guess = create(RecordKey("notes", "n"), ["scan": .string("\(id)")])
        let operation = try PushedOperation.sample(guess)
        let waiting = await problem { () async throws(Problem) in
            try await world.push([operation], by: stranger)
        }
        #expect(waiting?.code == .overloaded)
        #expect(await canRead(id, world.account, world))
        #expect(try await world.authority.buildIndexes().isEmpty)
        let late = await problem { () async throws(Problem) in
            try await world.authority.readableBlob(id, by: stranger)
        }
        #expect(late?.code == .notFound)
    }

    @Test func `files without a name are removed after their time, if that is set`() async throws {
        let world = try await world { $0.unnamedBlobsKept = .seconds(86_400) }
        let (named, unnamed) = (try await upload(world), try await upload(world, filler: 12))
        try await world.push(create(RecordKey("notes", "n"), ["scan": .string("\(named)")]))
        world.clock.advance(by: .seconds(86_400))
        _ = try await world.authority.sweep()
        #expect(await canRead(unnamed, world.account, world))
        // A repeated upload begins the time again.
        let again = try await upload(world, filler: 12)
        #expect(again == unnamed)
        world.clock.advance(by: .seconds(86_400))
        _ = try await world.authority.sweep()
        #expect(await canRead(unnamed, world.account, world))
        world.clock.advance(by: .seconds(1))
        _ = try await world.authority.sweep()
        #expect(await !canRead(unnamed, world.account, world))
        #expect(await canRead(named, world.account, world))
        #expect(world.authority.blobSweep.removed.unnamed == 1)
    }

    @Test func `without that setting files are kept until they are deleted`() async throws {
        let world = try await world()
        let id = try await upload(world)
        world.clock.advance(by: .seconds(400 * 86_400))
        _ = try await world.authority.sweep()
        #expect(await canRead(id, world.account, world))
    }

    @Test func `a declaration without effect is a fault`() {
        let hidden = RecordCollection("notes", blobs: [.publicly("scan")])
        #expect(hidden.fault?.contains("only its owner reads") == true)
        #expect(RecordCollection("notes", blobs: ["a", .publicly("a")]).fault != nil)
        #expect(RecordCollection("notes", blobs: [""]).fault != nil)
        #expect(RecordCollection("notes", blobs: ["a"]).fault == nil)
        #expect(RecordCollection("a", access: .everyone, blobs: [.publicly("b")]).fault == nil)
    }
}
