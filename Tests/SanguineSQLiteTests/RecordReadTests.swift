import SanguineAuthority
import SanguineModel
import TestSupport
import Testing

@testable import SanguineSQLite

/// Reads that a command makes during its decision.
@Suite("SQLite storage: records", .bounded)
struct RecordReadTests {
    @Test func `a failed read aborts its command despite the decision, but no other command`()
        async throws
    {
        let folder = TestFolder()
        let storage = try SQLiteStorage(folder: folder.url)
        let account = Identifier.fresh()
        try await storage.onWriter("ALTER TABLE record_index RENAME TO elsewhere")
        let list = IndexList("notes", in: account, by: "day")
        let key = try #require(IndexKey("mon"))
        let careless = Command(
            keys: [],
            reading: { _, reader throws(Problem) in
                let found = (try? reader.ids(in: list, at: key, limit: 1)) ?? []
                return Decision(found, changes: [.put(.balance(.empty(account)))])
            }
        )

        let gate = try await storage.blockWriter()
        async let failing = storage.perform(careless)
        try await storage.untilQueued(1)
        async let spent = storage.spend(from: account, key: "a")
        try await storage.untilQueued(2)
        gate.open()

        var failure: StorageError?
        do { _ = try await failing } catch let error as StorageError { failure = error }
        guard case .failed = failure else {
            Issue.record("The command ended with \(String(describing: failure)).")
            return
        }
        #expect(try await spent == 999_999)
        await storage.close()
    }

    @Test(arguments: [
        (
            "SELECT id FROM records WHERE owner = ? AND seq > ? AND deleted_at IS NULL"
                + " ORDER BY seq",
            "records_live_by_feed"
        ),
        (
            "SELECT id FROM records WHERE owner = ? AND deleted_at IS NOT NULL ORDER BY seq",
            "records_deleted_by_feed"
        ),
        (
            "SELECT id FROM record_index WHERE collection = ? AND scope = ? AND field = ?"
                + " AND (value, id) > (?, ?) ORDER BY value, id",
            "PRIMARY KEY"
        ),
    ])
    func `feeds and lists are read along an index without sorting`(
        sql: String,
        index: String
    ) async throws {
        let folder = TestFolder()
        let storage = try SQLiteStorage(folder: folder.url)
        let plan = try await storage.writer.run { connection throws(SQLFailure) in
            try connection.statement("EXPLAIN QUERY PLAN \(sql)").all { $0.text(3) }
        }
        #expect(plan.count == 1 && plan.first?.contains(index) == true, "\(plan)")
        await storage.close()
    }
}
