import SanguineAuthority
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

/// Indexes that are declared when records already exist, on every storage driver.
@Suite("Storage contract: indexes", .bounded)
struct StorageIndexesContractTests {
    private static let owner = Identifier.numbered(1)
    private static let everyone = RecordCollection("things", access: .everyone, indexes: ["size"])

    private func authority(
        _ storage: any Storage,
        _ collections: RecordCollection...
    ) async -> Authority {
        var settings = AuthoritySettings()
        settings.schema = RecordSchema(collections: collections)
        let authority = Authority(
            storage: storage,
            keys: SigningKeys(),
            settings: settings,
            clock: ManualWallClock()
        )
        await authority.findIncompleteIndexes()
        return authority
    }

    /// Stores that many records, of which the one with the smallest id has the largest size.
    private func fill(_ storage: any Storage, _ count: Int, scope: Identifier? = nil) async throws {
        for number in 0..<count {
            let id = String(repeating: "0", count: 4 - "\(number)".count) + "\(number)"
            let row = RecordRow.sample(
                id,
                in: scope,
                seq: Int64(number) + 1,
                value: #"{"size":\#(count - number)}"#
            )
            try await storage.store(.put(.record(row)))
        }
    }

    private func ids(
        _ authority: Authority,
        order: String? = "size",
        where conditions: [String: JSONValue] = [:]
    ) async throws -> [String] {
        let request = Authority.RecordsRequest(where: conditions, order: order, limit: 100)
        let page = try await authority.records(in: "things", for: Self.owner, request)
        return page.items.map(\.id.text)
    }

    @Test(arguments: StorageDriver.allCases)
    func `a stored record with invalid JSON stops no index and is reported once`(
        driver: StorageDriver
    ) async throws {
        try await driver.withEmptyStorage { storage in
            try await fill(storage, 3)
            let broken = RecordRow.sample("broken", seq: 9, value: #"{"size":nan}"#)
            try await storage.store(.put(.record(broken)))
            let authority = await authority(storage, Self.everyone)
            var named: [RecordName] = []
            for _ in 1...100 {
                let left = try await authority.buildIndexes { named += $0 }
                if left.isEmpty { break }
            }
            #expect(named == [broken.name])
            #expect(try await ids(authority, where: ["size": 2]) == ["0001"])
        }
    }

    private func build(_ authority: Authority) async throws -> Int {
        for steps in 1...100 where try await authority.buildIndexes().isEmpty { return steps }
        throw Problem(.internalFault, "The indexes are never built.")
    }

    @Test(arguments: StorageDriver.allCases)
    func `a list by a new index is refused until the index contains all records`(
        driver: StorageDriver
    ) async throws {
        try await driver.withEmptyStorage { storage in
            try await fill(storage, 450)
            let authority = await authority(storage, Self.everyone)
            let size = ["size": JSONValue.integer(3)]
            for _ in 1...3 {
                for (order, conditions) in [("size", [:]), (nil, size)] as [(String?, _)] {
                    await #expect {
                        _ = try await ids(authority, order: order, where: conditions)
                    } throws: { error in
                        let problem = error as? Problem
                        return problem?.code == .overloaded && problem?.retryAfter == 2
                    }
                }
                #expect(try await ids(authority, order: nil).count == 100)
                let left = try await authority.buildIndexes()
                #expect(left.map(\.description) == (left.isEmpty ? [] : ["things.size"]))
            }
            #expect(try await ids(authority).prefix(3) == ["0449", "0448", "0447"])
            #expect(try await ids(authority, order: nil, where: size) == ["0447"])
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `a restart continues building an index where the last process stopped`(
        driver: StorageDriver
    ) async throws {
        try await driver.withEmptyStorage { storage in
            try await fill(storage, 450)
            #expect(try await authority(storage, Self.everyone).buildIndexes().count == 1)
            let second = await authority(storage, Self.everyone)
            let refusal = await #expect(throws: Problem.self) { try await ids(second) }
            #expect(refusal?.code == .overloaded)
            #expect(try await build(second) == 2)
            let third = await authority(storage, Self.everyone)
            #expect(try await ids(third).prefix(2) == ["0449", "0448"])
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `an index that was removed and added again contains the changes made in the meantime`(
        driver: StorageDriver
    ) async throws {
        try await driver.withEmptyStorage { storage in
            try await fill(storage, 3)
            let first = await authority(storage, Self.everyone)
            _ = try await build(first)
            // Without the index, its entries are not updated.
            let without = RecordCollection("things", access: .everyone)
            let second = await authority(storage, without)
            let changed = RecordRow.sample("0002", seq: 9, value: #"{"size":9}"#)
            try await storage.store(.put(.record(changed)))
            let refusal = await #expect(throws: Problem.self) { try await ids(second) }
            #expect(refusal?.code == .malformedRequest)
            _ = try await build(second)
            _ = try await build(await authority(storage, Self.everyone))
            let last = await authority(storage, Self.everyone)
            #expect(try await ids(last) == ["0001", "0000", "0002"])
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `indexes are built again when another member names the readers`(
        driver: StorageDriver
    ) async throws {
        let (former, new) = (Identifier.numbered(2), Identifier.numbered(3))
        let collections = ["to", "members"].map { readers in
            RecordCollection(
                "things",
                access: .readers,
                indexes: ["createdAt"],
                owner: "by",
                readers: readers
            )
        }
        let value = """
            {"createdAt":"2026-01-01T00:00:00Z","by":"\(Self.owner)","to":"\(former)",\
            "members":["\(new)"]}
            """
        try await driver.withEmptyStorage { storage in
            let row = RecordRow.sample(Identifier.numbered(9).description, value: value)
            try await storage.store(.put(.record(row)))
            let first = await authority(storage, collections[0])
            _ = try await build(first)
            #expect(try await first.records(in: "things", for: former).items.count == 1)

            let second = await authority(storage, collections[1])
            let refusal = await #expect(throws: Problem.self) {
                try await second.records(in: "things", for: former)
            }
            #expect(refusal?.code == .overloaded)
            _ = try await build(second)
            #expect(try await second.records(in: "things", for: former).items.isEmpty)
            #expect(try await second.records(in: "things", for: new).items.count == 1)
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `records that a changed access does not find are reported`(
        driver: StorageDriver
    ) async throws {
        let owned = RecordCollection("things", indexes: ["size"])
        let readers = RecordCollection("things", access: .readers, readers: "to")
        try await driver.withEmptyStorage { storage in
            #expect(try await misplaced(storage, owned).isEmpty)
            try await fill(storage, 2)
            #expect(try await misplaced(storage, Self.everyone).isEmpty)
            #expect(try await misplaced(storage, readers).isEmpty)
            let found = try await misplaced(storage, owned)
            #expect(found.map(\.access) == [.owner] && found.map(\.hasOthers) == [false])
            try await fill(storage, 2, scope: Self.owner)
            #expect(try await misplaced(storage, owned).map(\.hasOthers) == [true])
            #expect(try await misplaced(storage, Self.everyone).map(\.hasOthers) == [true])
        }
        try await driver.withEmptyStorage { storage in
            try await fill(storage, 2, scope: Self.owner)
            #expect(try await misplaced(storage, owned).isEmpty)
            for collection in [Self.everyone, readers] {
                let found = try await misplaced(storage, collection)
                #expect(found.map(\.collection) == ["things"])
                #expect(found.map(\.hasOthers) == [false])
            }
        }
    }

    private func misplaced(
        _ storage: any Storage,
        _ collection: RecordCollection
    ) async throws -> [Authority.Misplaced] {
        try await authority(storage, collection).misplacedCollections()
    }

    @Test(arguments: StorageDriver.allCases, [true, false])
    func `a removal of entries that another version began starts over`(
        driver: StorageDriver,
        isDeclared: Bool
    ) async throws {
        try await driver.withEmptyStorage { storage in
            try await fill(storage, 20, scope: .numbered(1))
            let owned = RecordCollection("things", indexes: ["size"])
            _ = try await build(await authority(storage, owned))
            // The other version has cleared the first scope and added entries since.
            var left = IndexBuild("things", by: "size")
            left.version = IndexBuild.currentVersion - 1
            left.after = IndexBuild.Position(.numbered(2))
            try await storage.store(.put(.indexes(IndexesRow(builds: [left]))))
            let list = IndexList("things", in: .numbered(1), by: "size")
            let ghost = IndexEntry(list, IndexKey(bytes: [0]), "ghost")
            try await storage.store(.index(ghost))
            let second = isDeclared ? await authority(storage, owned) : await authority(storage)
            _ = try await build(second)
            #expect(try await entries(storage) == (isDeclared ? 20 : 0))
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `an index that is no longer declared leaves no entries`(
        driver: StorageDriver
    ) async throws {
        try await driver.withEmptyStorage { storage in
            let owned = RecordCollection("things", indexes: ["size"])
            for number in 1...3 as ClosedRange<UInt64> {
                try await fill(storage, 100, scope: .numbered(number))
            }
            _ = try await build(await authority(storage, owned))
            #expect(try await entries(storage) == 100)
            _ = try await build(await authority(storage))
            #expect(try await entries(storage) == 0)
            let builds = try await storage.load([.indexes]).indexes.builds
            #expect(builds.allSatisfy { RecordCollection.isSystem(name: $0.collection) })
        }
    }

    @Test(arguments: StorageDriver.allCases)
    func `a string that is too long for an index is ordered by its beginning`(
        driver: StorageDriver
    ) async throws {
        try await driver.withEmptyStorage { storage in
            let texts = ["a", "b", "c"].map { String(repeating: $0, count: $0 == "b" ? 600 : 9) }
            for (number, text) in texts.enumerated() {
                let value = #"{"size":"\#(text)"}"#
                let row = RecordRow.sample("r\(number)", seq: Int64(number) + 1, value: value)
                try await storage.store(.put(.record(row)))
            }
            let authority = await authority(storage, Self.everyone)
            _ = try await build(authority)
            #expect(try await ids(authority) == ["r0", "r1", "r2"])
            let refusal = await #expect(throws: Problem.self) {
                try await ids(authority, where: ["size": .string(texts[1])])
            }
            #expect(refusal?.code == .malformedRequest)
        }
    }

    /// Counts the entries of the owner's list, which contains all records of the test.
    private func entries(_ storage: any Storage) async throws -> Int {
        let command = Command<Int>(keys: []) { _, reader throws(Problem) in
            let list = IndexList("things", in: Self.owner, by: "size")
            let found = try? reader.entries(in: list, limit: 1_000)
            return Decision(found?.count ?? -1)
        }
        return try await storage.perform(command).get()
    }
}
