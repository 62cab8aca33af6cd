import Foundation
import Logging
import SanguineAuthority
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineServer

/// The start of a server whose collections have another access than their records.
@Suite("Access of collections that have records", .bounded)
struct CollectionAccessTests {
    private let storage = MemoryStorage()

    private func setup(_ access: RecordCollection.Access) -> LiveServer.Setup {
        var setup = LiveServer.Setup()
        setup.storage = storage
        setup.settings.collections = [RecordCollection("diary", access: access)]
        return setup
    }

    /// Stores a record as a server with the access does.
    private func store(_ id: String, under access: RecordCollection.Access) async throws {
        let now = ManualWallClock().now()
        let owner = Identifier(at: now)
        let scope = access == .owner ? owner : nil
        let row = RecordRow(
            name: RecordName("diary", in: scope, try #require(RecordID(id))),
            owner: owner,
            seq: 1,
            through: 1,
            value: Array("{}".utf8),
            createdAt: now,
            updatedAt: now
        )
        let command = Command(keys: []) { _ throws(Problem) in
            Decision((), changes: [.put(.record(row))])
        }
        try await storage.perform(command).get()
    }

    @Test(arguments: [("owner", "everyone"), ("everyone", "owner")])
    func `a server does not start with an access that finds none of the records`(
        former: String,
        new: String
    ) async throws {
        let accesses = (
            try #require(RecordCollection.Access(rawValue: former)),
            try #require(RecordCollection.Access(rawValue: new))
        )
        // The access of a collection without records can change.
        _ = try await setup(accesses.1).server()
        try await store("first", under: accesses.0)
        _ = try await setup(accesses.0).server()
        let error = await #expect(throws: SettingsError.self) {
            _ = try await setup(accesses.1).server()
        }
        for part in ["'diary'", "'\(former)'", "'\(new)'", "another name"] {
            #expect(error?.description.contains(part) == true, "\(part)")
        }
    }

    @Test func `records of both kinds are logged as an error, and the server starts`()
        async throws
    {
        try await store("first", under: .owner)
        try await store("second", under: .everyone)
        let sink = MemorySink()
        let log = LogQueue(sink: sink)
        var setup = setup(.owner)
        setup.logger = Logger(label: "test") { JSONLogHandler(label: $0, queue: log) }
        _ = try await setup.server()
        #expect(await log.flush(within: .seconds(30)))
        let errors = try sink.lines.map {
            try JSONDecoder().decode(JSONValue.self, from: Data($0.utf8))
        }
        .filter { $0["level"] == "error" }
        let named = errors.filter { $0["message"]?.string?.contains("'diary'") == true }
        #expect(named.count == 1)
    }
}
