import SanguineModel
import TestSupport
import Testing

@testable import SanguineAuthority

@Suite("Lists of records", .bounded)
struct RecordListTests {
    private func world() async throws -> (SyncWorld, stranger: Identifier) {
        let world = try await SyncWorld()
        let stranger = try await world.stranger()
        try await world.push(
            CreateRecord(.note("a"), ["day": "mon"]),
            CreateRecord(.note("b"), ["day": "tue"]),
            CreateRecord(.post("p2"), ["tag": 2])
        )
        world.clock.advance(by: .seconds(1))
        try await world.push(CreateRecord(.post("p1"), ["tag": 1]))
        world.clock.advance(by: .seconds(1))
        try await world.push(
            CreateRecord(.note("a"), ["day": "sun"]),
            CreateRecord(.post("p3"), ["tag": 1]),
            by: stranger
        )
        return (world, stranger)
    }

    private func ids(
        _ world: SyncWorld,
        _ collection: String,
        _ request: Authority.RecordsRequest = .init(),
        by account: Identifier? = nil
    ) async throws -> [RecordID] {
        let account = account ?? world.account
        return try await world.authority.records(in: collection, for: account, request).items
            .map(\.id)
    }

    @Test func `private records are listed only for their owner`() async throws {
        let (world, stranger) = try await world()

        #expect(try await ids(world, "notes") == ["a", "b"])
        #expect(try await ids(world, "notes", by: stranger) == ["a"])
        let own = try await world.authority.record("a", in: "notes", for: stranger)
        #expect(own.value == ["day": "sun"])
    }

    @Test func `public records are listed for all accounts`() async throws {
        let (world, stranger) = try await world()

        for account in [world.account, stranger] {
            #expect(try await ids(world, "posts", by: account) == ["p1", "p2", "p3"])
        }
        let other = try await world.authority.record("p1", in: "posts", for: stranger)
        #expect(other.value?["tag"] == 1)
    }

    @Test func `a list is ordered and filtered by indexed members`() async throws {
        let (world, _) = try await world()

        #expect(try await ids(world, "posts", .init(order: "createdAt")) == ["p2", "p1", "p3"])
        #expect(try await ids(world, "posts", .init(order: "-createdAt")) == ["p3", "p1", "p2"])
        #expect(
            try await ids(world, "posts", .init(where: ["tag": 1], order: "-createdAt"))
                == ["p3", "p1"]
        )
    }

    @Test func `records can be listed by their ids, in that order`() async throws {
        let (world, _) = try await world()

        #expect(try await ids(world, "posts", .init(ids: ["p3", "nobody", "p1"])) == ["p3", "p1"])
    }

    @Test func `no list contains a deleted record`() async throws {
        let (world, _) = try await world()
        try await world.push(DeleteRecord(.post("p1")))

        #expect(try await ids(world, "posts") == ["p2", "p3"])
        #expect(try await ids(world, "posts", .init(ids: ["p1"])) == [])
        #expect(try await ids(world, "posts", .init(where: ["tag": 1])) == ["p3"])
        let refusal = await problem { () throws(Problem) in
            try await world.authority.record("p1", in: "posts", for: world.account)
        }
        #expect(refusal?.code == .notFound)
    }

    @Test func `pages follow each other without gaps`() async throws {
        let (world, _) = try await world()
        var found: [RecordID] = []
        var cursor: String?
        repeat {
            let page = try await world.authority.records(
                in: "posts",
                for: world.account,
                .init(order: "-createdAt", limit: 1, cursor: cursor)
            )
            #expect(page.items.count == 1 && page.hasMore == (page.nextCursor != nil))
            found += page.items.map(\.id)
            cursor = page.nextCursor
        } while cursor != nil

        #expect(found == ["p3", "p1", "p2"])
    }

    @Test func `a cursor is valid only for its own list and account`() async throws {
        let (world, stranger) = try await world()
        let page = try await world.authority.records(
            in: "posts",
            for: world.account,
            .init(limit: 1)
        )
        let cursor = try #require(page.nextCursor)
        for (collection, account, request) in [
            ("posts", stranger, Authority.RecordsRequest(cursor: cursor)),
            ("notes", world.account, .init(cursor: cursor)),
            ("posts", world.account, .init(order: "tag", cursor: cursor)),
            ("posts", world.account, .init(where: ["tag": 1], cursor: cursor)),
        ] {
            let refusal = await problem { () throws(Problem) in
                try await world.authority.records(in: collection, for: account, request)
            }
            #expect(refusal?.code == .malformedRequest)
        }
    }

    @Test func `members without an index are refused`() async throws {
        let (world, _) = try await world()
        for request in [
            Authority.RecordsRequest(order: "text"), .init(where: ["text": 1]),
            .init(ids: ["a"], order: "day"),
        ] {
            let refusal = await problem { () throws(Problem) in
                try await world.authority.records(in: "notes", for: world.account, request)
            }
            #expect(refusal?.code == .malformedRequest)
        }
    }

    @Test(arguments: ["nothing", "$balance"])
    func `an undeclared collection is not found`(name: String) async throws {
        let (world, _) = try await world()
        let refusal = await problem { () throws(Problem) in
            try await world.authority.records(in: name, for: world.account)
        }
        #expect(refusal?.code == .notFound)
    }
}

@Suite("Lookups by an unfinished index", .bounded)
struct IncompleteIndexTests {
    /// Creates an operation in a lane.
    private func sample(
        _ mutation: some RecordMutation,
        _ sequence: Int64,
        lane: String
    ) throws -> PushedOperation {
        var operation = try PushedOperation.sample(mutation, sequence: sequence)
        operation.lane = lane
        return operation
    }

    @Test func `an operation that uses the index waits with its lane, and other lanes continue`()
        async throws
    {
        let world = try await SyncWorld()
        await world.authority.findIncompleteIndexes()
        let operations = [
            try sample(CountByDay(into: "count", day: "mon"), 1, lane: "days"),
            try sample(CreateRecord(.note("a"), ["b": 1]), 2, lane: "days"),
            try sample(CreateRecord(.note("c"), ["d": 1]), 3, lane: "notes"),
            try sample(SetFields(.note("e"), ["d": 1]), 4, lane: "others"),
        ]
        let results = try await world.push(operations).results
        #expect(results.map(\.status) == [.unknown, .unknown, .applied, .refused])
        #expect(try await world.records() == [.note("c"): ["d": 1]])

        #expect(try await world.authority.buildIndexes().isEmpty)
        let again = try await world.push(operations).results
        #expect(again.map(\.status) == [.applied, .applied, .replayed, .refused])
    }

    @Test func `a push of only such an operation is refused, and applied once the index is built`()
        async throws
    {
        let world = try await SyncWorld()
        try await world.push(CreateRecord(.note("a"), ["day": "mon"]))
        await world.authority.findIncompleteIndexes()
        let operation = try PushedOperation.sample(
            CountByDay(into: "count", day: "mon"),
            sequence: 2
        )
        await #expect {
            _ = try await world.push([operation])
        } throws: { error in
            (error as? Problem)?.code == .overloaded
        }
        #expect(try await world.authority.buildIndexes().isEmpty)
        #expect(try await world.push([operation]).results.map(\.status) == [.applied])
    }
}
