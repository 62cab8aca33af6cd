import GRDB
import GRDBSQLite
import SanguineAuthority
import SanguineModel
import TestSupport
import Testing

@testable import SanguineSQLite

/// The cost of reading the documents of one account, in steps of SQLite's virtual machine.
@Suite("SQLite storage: cost of documents", .bounded)
struct DocumentCostTests {
    @Test func `the cost of an account's documents does not depend on other accounts`()
        async throws
    {
        let folder = TestFolder()
        let storage = try SQLiteStorage(folder: folder.url)
        try await storage.onWriter(
            """
            WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 20000)
            INSERT INTO documents (kind, id, account, expires_at, body)
            SELECT 'merge', printf('r%09d', i), zeroblob(16), NULL, X'7B7D' FROM n
            """
        )
        let steps = try await storage.writer.run { connection throws(SQLFailure) in
            guard let handle = connection.database.sqliteConnection else {
                throw SQLFailure(code: SQLITE_MISUSE, message: "closed")
            }
            let statement = try SQLStatement(DocumentRow.listOfAccountSQL, on: handle)
            defer { statement.reset() }
            statement.bind(DocumentKind.merge.rawValue)
            statement.bind("")
            statement.bind(Identifier.fresh())
            statement.bind(limit: 100)
            _ = statement.stepsSinceLastCall()
            _ = try statement.step()
            return statement.stepsSinceLastCall()
        }
        #expect(steps < 100)
        await storage.close()
    }
}
