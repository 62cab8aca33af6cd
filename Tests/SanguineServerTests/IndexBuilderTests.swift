import Foundation
import Logging
import SanguineAuthority
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineServer

@Suite("Building indexes", .bounded)
struct IndexBuilderTests {
    private let storage = FaultyStorage()
    private let sink = MemorySink()

    /// Returns the errors that are logged while a builder works.
    private func errors(
        _ work: (IndexBuilder, ManualClock) async throws -> Void
    ) async throws -> [JSONValue] {
        let log = LogQueue(sink: sink)
        let clock = ManualClock()
        var settings = AuthoritySettings()
        settings.schema = RecordSchema(collections: [RecordCollection("notes", indexes: ["day"])])
        let authority = Authority(storage: storage, keys: SigningKeys(), settings: settings)
        let logger = Logger(label: "test") { JSONLogHandler(label: $0, queue: log) }
        try await work(IndexBuilder(authority: authority, delay: clock, logger: logger), clock)
        #expect(await log.flush(within: .seconds(30)))
        return try sink.lines.map {
            try JSONDecoder().decode(JSONValue.self, from: Data($0.utf8))
        }
        .filter { $0["level"] == "error" }
    }

    @Test func `a record that is not JSON is logged once as an error with its name`() async throws {
        let owner = Identifier(at: ManualWallClock().now())
        let row = RecordRow(
            name: RecordName("notes", in: owner, try #require(RecordID("broken"))),
            owner: owner,
            seq: 1,
            through: 1,
            value: Array(#"{"day":nan}"#.utf8),
            createdAt: ManualWallClock().now(),
            updatedAt: ManualWallClock().now()
        )
        let command = Command(keys: []) { _ throws(Problem) in
            Decision((), changes: [.put(.record(row))])
        }
        try await storage.perform(command).get()
        let errors = try await errors { builder, _ in await builder.begin() }
        #expect(errors.map { $0["records"] } == ["notes/broken"])
    }
}
