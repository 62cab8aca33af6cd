import Foundation
import GRDB
import GRDBSQLite
import SanguineAuthority
import SanguineModel
import TestSupport
import Testing

@testable import SanguineSQLite

/// The cost of reads, in steps of SQLite's virtual machine.
@Suite("SQLite storage: cost of reads", .bounded)
struct ReadingCostTests {
    private let owner = Identifier.fresh()

    /// Creates a storage with three live records, and deleted ones before, between and after them.
    private func storage(_ folder: TestFolder, tombstones: Int) async throws -> SQLiteStorage {
        let storage = try SQLiteStorage(folder: folder.url)
        let account = owner.bytes.map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }
        try await storage.onWriter(
            """
            WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT \(tombstones + 3))
            INSERT INTO records
                (collection, scope, id, owner, seq, through, deleted_at, value, created_at,
                 updated_at)
            SELECT 'things', X'\(account.joined())', printf('r%09d', i), X'\(account.joined())',
                i, i, iif(i % \(tombstones / 3 + 1) = 1, NULL, 0), X'7B7D', 0, 0
            FROM n
            """
        )
        return storage
    }

    /// Returns the number of steps that a path takes to its first rows.
    private func steps(
        _ storage: SQLiteStorage,
        rows: Int,
        _ path: @escaping @Sendable (OpaquePointer) throws(SQLFailure) -> SQLStatement
    ) async throws -> Int {
        try await storage.writer.run { connection throws(SQLFailure) in
            guard let handle = connection.database.sqliteConnection else {
                throw SQLFailure(code: SQLITE_MISUSE, message: "closed")
            }
            let statement = try path(handle)
            defer { statement.reset() }
            _ = statement.stepsSinceLastCall()
            for _ in 0..<rows { _ = try statement.step() }
            return statement.stepsSinceLastCall()
        }
    }

    private func costs(tombstones: Int) async throws -> [Int] {
        let folder = TestFolder()
        let storage = try await storage(folder, tombstones: tombstones)
        let owner = owner
        var costs: [Int] = []
        for query in [
            FeedQuery(of: owner, after: 0, limit: 3, liveOnly: true),
            FeedQuery(of: owner, after: 1, limit: 3),
        ] {
            let cost = try await steps(storage, rows: 3) { handle throws(SQLFailure) in
                try FeedStatements(on: handle).path(query)
            }
            costs.append(cost)
        }
        for isDescending in [false, true] {
            let query = RecordQuery(
                of: "things",
                in: owner,
                isDescending: isDescending,
                limit: 3
            )
            // One more than there are, so that finding the end is measured too.
            let cost = try await steps(storage, rows: 4) { handle throws(SQLFailure) in
                try ListStatements(RowReader(on: handle), on: handle).path(query)
            }
            costs.append(cost)
        }
        let live = try await storage.feed(FeedQuery(of: owner, after: 0, limit: 9, liveOnly: true))
        #expect(live.records.count == 3 && !live.hasMore)
        let all = try await storage.feed(FeedQuery(of: owner, after: 0, limit: tombstones + 9))
        #expect(all.records.map(\.seq) == (1...Int64(tombstones + 3)).map { $0 })
        await storage.close()
        return costs
    }

    @Test func `the cost of reads does not depend on deleted records`() async throws {
        let few = try await costs(tombstones: 30)
        let many = try await costs(tombstones: 30_000)

        #expect(many.allSatisfy { $0 < 300 }, "\(many)")
        #expect(zip(few, many).allSatisfy { $1 <= $0 + 10 }, "\(few) and \(many)")
    }
}

/// The migration that adds the counters of accounts.
@Suite("SQLite storage: storage of accounts", .bounded)
struct RoomMigrationTests {
    private func makeOldDatabase(in folder: TestFolder) throws {
        try DataFolder(folder.url).create()
        let before = Schema(steps: Array(Schema.current.steps.prefix(3)))
        let old = try DatabaseQueue(path: folder.file("sanguine.sqlite").path)
        try old.writeWithoutTransaction { try before.migrate($0) }
        try old.writeWithoutTransaction { database in
            try database.execute(
                sql: """
                    INSERT INTO records
                        (collection, scope, id, owner, seq, through, deleted_at, value,
                         created_at, updated_at)
                    VALUES
                        ('a', X'', '1', zeroblob(16), 1, 1, NULL, X'7B7D', 0, 0),
                        ('a', X'', '2', zeroblob(16), 2, 2, 5, X'', 0, 0),
                        ('a', X'', '3', zeroblob(16), 3, 3, 5, X'', 0, 0);
                    INSERT INTO feeds (account, records, horizon) VALUES (zeroblob(16), 2, 7);
                    INSERT INTO feeds (account, records, horizon)
                        VALUES (X'00000000000000000000000000000001', 0, 9);
                    INSERT INTO records
                        (collection, scope, id, owner, seq, through, deleted_at, value,
                         created_at, updated_at)
                    VALUES
                        ('a', X'', '4', X'00000000000000000000000000000002', 1, 1, 5, X'', 0, 0),
                        ('$threads', zeroblob(16), '5', zeroblob(16), 4, 4, NULL, X'7B7D', 0, 0),
                        ('$threads', zeroblob(16), '6', zeroblob(16), 5, 5, 5, X'', 0, 0)
                    """
            )
        }
        try old.close()
    }

    @Test func `a database without counters gets the counts of its records`() async throws {
        let folder = TestFolder()
        try makeOldDatabase(in: folder)

        let storage = try SQLiteStorage(folder: folder.url)
        let accounts = try (0...2 as ClosedRange<UInt8>).map { number in
            try #require(Identifier(bytes: [UInt8](repeating: 0, count: 15) + [number]))
        }
        let loaded = try await storage.load(accounts.map { .feed($0) })
        #expect(
            accounts.map { loaded.feed($0) } == [
                FeedRow(
                    account: accounts[0],
                    records: 2,
                    tombstones: 3,
                    bytes: 504,
                    horizon: 7,
                    threads: 1
                ),
                FeedRow(account: accounts[1], horizon: 9),
                FeedRow(account: accounts[2], tombstones: 1, bytes: 100),
            ]
        )
        #expect(RecordRow.overheadBytes == 100, "the step of the schema says so")
        await storage.close()
    }
}
