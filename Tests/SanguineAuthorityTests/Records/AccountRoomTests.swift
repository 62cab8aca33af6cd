import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineAuthority

/// The space that an account may take, and how it is returned.
@Suite("Storage of an account", .bounded)
struct AccountRoomTests {
    /// Creates a note whose value has this size in bytes.
    private func note(_ id: RecordID, _ bytes: Int) -> CreateRecord {
        let text = String(repeating: "x", count: bytes - #"{"text":""}"#.utf8.count)
        return CreateRecord(.note(id), ["text": .string(text)])
    }

    private func text(_ id: RecordID, _ bytes: Int) -> SetFields {
        SetFields(.note(id), note(id, bytes).fields)
    }

    private func feed(_ world: SyncWorld) async throws -> FeedRow {
        let row = try await world.storage.load([.feed(world.account)]).feed(world.account)
        return try #require(row)
    }

    private func rows(_ world: SyncWorld) async throws -> [RecordRow] {
        try await world.storage.feed(FeedQuery(of: world.account, after: 0, limit: .max)).records
    }

    private func checkCounts(_ world: SyncWorld, _ place: Comment) async throws {
        let (feed, rows) = (try await feed(world), try await rows(world))
        #expect(feed.records == Int64(rows.count(where: \.isLive)), place)
        #expect(feed.tombstones == Int64(rows.count { !$0.isLive }), place)
        #expect(feed.bytes == rows.reduce(0) { $0 + $1.storedBytes }, place)
    }

    @Test func `an operation beyond the storage limit is refused, and others are applied`()
        async throws
    {
        let world = try await SyncWorld { $0.bytesPerAccount = 2_000 }

        let results = try await world.push(
            note("a", 1_000),
            note("b", 801),
            note("c", 700),
            text("a", 1_101),
            text("a", 1_100)
        )

        #expect(results.map { $0.problem?.code } == [nil, .storageFull, nil, .storageFull, nil])
        let problem = try #require(results[1].problem)
        #expect(problem.status == 422)
        #expect(problem.detail.hasPrefix("Delete records first"))
        #expect(problem.detail.contains("2000 bytes"))
        #expect(try await feed(world).bytes == 2_000)
        try await checkCounts(world, "full")
    }

    @Test func `a full account can still shrink and delete, and then has space`() async throws {
        let world = try await SyncWorld { $0.bytesPerAccount = 3_000 }
        try await world.push(note("a", 1_300), note("b", 1_400))
        // Restarts with a much lower limit.
        var settings = world.authority.settings
        settings.bytesPerAccount = 100
        let lower = Authority(
            storage: world.storage,
            keys: SigningKeys(),
            settings: settings,
            clock: world.clock
        )
        let mutations: [any RecordMutation] = [
            note("c", 20), text("a", 1_301), text("a", 100),
            DeleteRecord(.note("b")), DeleteRecord(.note("a")),
        ]
        let operations = try mutations.enumerated().map { index, mutation in
            try PushedOperation.sample(mutation, sequence: Int64(index) + 1)
        }
        let request = PushRequest(device: "a-device-of-mine", operations: operations)
        let results = try await lower.push(world.account, request).results

        let codes: [ProblemCode?] = results.map { $0.problem?.code }
        #expect(codes == [.storageFull, .storageFull, nil, nil, nil])
        #expect(try await feed(world).bytes == 200, "the two tombstones are counted")
        world.clock.advance(by: .seconds(31 * 86_400))
        _ = try await lower.sweep()
        #expect(try await feed(world).bytes == 0)
        #expect(try await feed(world).tombstones == 0)
    }

    @Test func `the oldest tombstones are dropped early if there are too many`() async throws {
        let world = try await SyncWorld { $0.tombstonesPerAccount = 3 }
        let ids = (0..<6).map { RecordID("n\($0)") }.compactMap { $0 }
        try await world.push(CreateMany(ids: ids, text: "x"))
        let head = try await world.pull().head
        for id in ids.prefix(5) { try await world.push(DeleteRecord(.note(id))) }

        #expect(try await rows(world).filter { !$0.isLive }.map(\.name.id) == ["n2", "n3", "n4"])
        #expect(try await feed(world).horizon == head + 2)
        try await checkCounts(world, "after five deletions")
        let missed = try await world.pull(head)
        #expect(missed.reset && missed.changes.map(\.id).last == "n5")
        let knows = try await world.pull(head + 2)
        #expect(!knows.reset && knows.changes.map(\.deleted) == [true, true, true])
    }

    @Test func `a push with more deletions than the limit keeps the newest tombstones`()
        async throws
    {
        let world = try await SyncWorld { $0.tombstonesPerAccount = 2 }
        let ids = (0..<6).map { RecordID("n\($0)") }.compactMap { $0 }
        try await world.push(CreateMany(ids: ids, text: "x"))
        let operations = try ids.enumerated().map { index, id in
            try PushedOperation.sample(DeleteRecord(.note(id)), sequence: Int64(index) + 1)
        }
        let head = try await world.push(operations).head

        #expect(try await rows(world).map(\.name.id) == ["n4", "n5"])
        #expect(try await feed(world).horizon == head - 2)
        try await checkCounts(world, "after one push")
    }

    @Test(arguments: 1...20)
    func `the counts equal those of the stored rows after random operations`(seed: Int) async throws
    {
        var random = SplitMix64(seed: UInt64(seed))
        let world = try await SyncWorld {
            $0.bytesPerAccount = 3_000
            $0.tombstonesPerAccount = 4
        }
        let ids = (0..<12).map { RecordID("n\($0)") }.compactMap { $0 }
        for step in 0..<60 {
            let mutations = try (0...Int.random(in: 0..<4, using: &random)).map { _ in
                let id = try #require(ids.randomElement(using: &random))
                let size = Int.random(in: 20..<600, using: &random)
                let all: [any RecordMutation] = [
                    note(id, size), text(id, size), DeleteRecord(.note(id)),
                    DeleteRecord(.note(id)), CreateMany(ids: [id, "m"], text: "y"),
                ]
                return try #require(all.randomElement(using: &random))
            }
            let operations = try mutations.enumerated().map { index, mutation in
                try PushedOperation.sample(mutation, sequence: Int64(index) + 1)
            }
            _ = try await world.push(operations)
            if step % 17 == 16 {
                world.clock.advance(by: .seconds(31 * 86_400))
                _ = try await world.authority.sweep()
            }
            guard try await !rows(world).isEmpty else { continue }
            try await checkCounts(world, "seed \(seed), step \(step)")
            #expect(try await feed(world).tombstones <= 4)
            #expect(try await feed(world).bytes <= 3_000 + 4 * RecordRow.overheadBytes)
        }
    }

    @Test func `surplus tombstones are dropped over several pushes`() async throws {
        let world = try await SyncWorld()
        let ids = (0..<50).map { RecordID("n\($0)") }.compactMap { $0 }
        try await world.push(CreateMany(ids: ids, text: "x"))
        for id in ids { try await world.push(DeleteRecord(.note(id))) }
        var settings = world.authority.settings
        settings.tombstonesPerAccount = 10
        let lower = Authority(
            storage: world.storage,
            keys: SigningKeys(),
            settings: settings,
            clock: world.clock
        )
        for number in 0..<30 {
            let before = try await feed(world).tombstones
            let create = CreateRecord(.note(ids[number]), [:])
            let operation = try PushedOperation.sample(create, sequence: 1)
            let request = PushRequest(device: "a-device-of-mine", operations: [operation])
            _ = try await lower.push(world.account, request)
            let after = try await feed(world).tombstones
            #expect(before - after <= 3, "a push costs what it changes")
            try await checkCounts(world, "push \(number)")
        }
        #expect(try await feed(world).tombstones == 10)
    }
}

/// The source of a record's creation time.
@Suite("Time of creation", .bounded)
struct CreationMomentTests {
    private func createdAt(_ world: SyncWorld, _ key: RecordKey) async throws -> JSONValue? {
        try await world.records()[key]?["createdAt"]
    }

    @Test func `in a public list the server sets the time, regardless of the client's value`()
        async throws
    {
        let world = try await SyncWorld()
        let now = world.clock.now().json
        try await world.push(
            CreateRecord(.post("lie"), ["createdAt": "9999-12-31T23:59:59Z"]),
            CreateRecord(.post("number"), ["createdAt": .number(1e300)]),
            CreateRecord(.post("silent"), [:]),
            PutPost(id: "put", createdAt: "9999-12-31T23:59:59Z")
        )
        for id in ["lie", "number", "silent", "put"] as [RecordID] {
            #expect(try await createdAt(world, .post(id)) == now, "\(id)")
        }
        world.clock.advance(by: .seconds(60))
        try await world.push(CreateRecord(.post("later"), ["createdAt": "1970-01-01T00:00:00Z"]))
        let list = try await world.authority.records(
            in: "posts",
            for: world.account,
            .init(order: "-createdAt", limit: 1)
        )
        #expect(list.items.map(\.id) == ["later"])
    }

    @Test func `later changes keep the time of creation`() async throws {
        let world = try await SyncWorld()
        let created = world.clock.now().json
        try await world.push(CreateRecord(.post("p"), ["text": "a"]))
        world.clock.advance(by: .seconds(60))
        let results = try await world.push(
            SetFields(.post("p"), ["createdAt": "9999-12-31T23:59:59Z", "text": "b"]),
            SetFields(.post("p"), ["createdAt": .null]),
            PutPost(id: "p", createdAt: "9999-12-31T23:59:59Z")
        )

        #expect(results.allSatisfy { $0.status == .applied })
        #expect(try await createdAt(world, .post("p")) == created)
        let found = try await world.authority.records(
            in: "posts",
            for: world.account,
            .init(where: ["createdAt": created])
        )
        #expect(found.items.map(\.id) == ["p"])
    }

    @Test func `a record that is created again has a new time`() async throws {
        let world = try await SyncWorld()
        try await world.push(CreateRecord(.post("p"), [:]), DeleteRecord(.post("p")))
        world.clock.advance(by: .seconds(60))
        try await world.push(CreateRecord(.post("p"), [:]))

        #expect(try await createdAt(world, .post("p")) == world.clock.now().json)
    }

    @Test func `in a private list the client sets the time`() async throws {
        let world = try await SyncWorld {
            $0.schema = RecordSchema(collections: [
                RecordCollection("notes", indexes: ["createdAt"])
            ])
        }
        try await world.push(CreateRecord(.note("a"), ["createdAt": "2020-02-02T00:00:00Z"]))

        #expect(try await createdAt(world, .note("a")) == "2020-02-02T00:00:00Z")
    }
}
