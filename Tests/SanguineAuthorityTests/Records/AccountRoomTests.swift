import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineAuthority

/// Who says when a record was created.
@Suite("Moment of creation", .bounded)
struct CreationMomentTests {
    private func createdAt(_ world: SyncWorld, _ key: RecordKey) async throws -> JSONValue? {
        try await world.records()[key]?["createdAt"]
    }

    @Test func `in a list that everyone reads it is the server's, whatever the client says`()
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

    @Test func `no later change moves it`() async throws {
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

    @Test func `what is created anew is as new as it is`() async throws {
        let world = try await SyncWorld()
        try await world.push(CreateRecord(.post("p"), [:]), DeleteRecord(.post("p")))
        world.clock.advance(by: .seconds(60))
        try await world.push(CreateRecord(.post("p"), [:]))

        #expect(try await createdAt(world, .post("p")) == world.clock.now().json)
    }

    @Test func `in a list of one's own it is one's own`() async throws {
        let world = try await SyncWorld {
            $0.schema = RecordSchema(collections: [
                RecordCollection("notes", indexes: ["createdAt"])
            ])
        }
        try await world.push(CreateRecord(.note("a"), ["createdAt": "2020-02-02T00:00:00Z"]))

        #expect(try await createdAt(world, .note("a")) == "2020-02-02T00:00:00Z")
    }
}
