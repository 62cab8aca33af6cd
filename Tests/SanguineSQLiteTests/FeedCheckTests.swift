import SanguineAuthority
import SanguineModel
import TestSupport
import Testing

@testable import SanguineSQLite

/// The counters of feeds, compared with the stored data.
@Suite("SQLite storage: feed counters", .bounded)
struct FeedCheckTests {
    /// Fills a folder with an account that has three records, a deletion and a file, and with
    /// another one that has none.
    private func fill(_ folder: TestFolder) async throws {
        let storage = try SQLiteStorage(folder: folder.url)
        let (account, other) = (Identifier.fresh(), Identifier.fresh())
        for number in 1...5 { try await storage.spend(from: account, key: "\(number)") }
        try await storage.spend(from: other, key: "1")
        var feed = FeedRow(account: account)
        var changes: [Change] = []
        for number in 1...4 {
            let row = RecordRow(
                name: RecordName("notes", in: account, RecordID(Identifier.fresh())),
                owner: account,
                seq: Int64(number),
                through: Int64(number),
                deletedAt: number == 4 ? .zero : nil,
                value: number == 4 ? [] : Array(#"{"a":1}"#.utf8),
                createdAt: .zero,
                updatedAt: .zero
            )
            if row.deletedAt == nil { feed.records += 1 } else { feed.tombstones += 1 }
            feed.bytes += row.storedBytes
            changes.append(.put(.record(row)))
        }
        let bytes: [UInt8] = [1, 2, 3]
        let id = BlobID(of: bytes)
        try await storage.blobs.keep(bytes, as: id, at: .zero)
        try await storage.add(id, size: bytes.count, to: account)
        feed.bytes += Int64(bytes.count) + RecordRow.overheadBytes
        let all = changes + [.put(.feed(feed))]
        let command = Command(keys: []) { _ in Decision(true, changes: all) }
        _ = try await storage.perform(command).get()
        await storage.close()
    }

    @Test func `correct counters cause no findings`() async throws {
        let folder = TestFolder()
        try await fill(folder)
        let found = try await DamageTests.examination(of: folder.url)
        #expect(found.feeds.findings.isEmpty && found.feeds.differing == 0)
        #expect((found.feeds.accounts, found.feeds.records) == (2, 3))
        #expect(found.damage.isEmpty)
    }

    @Test func `an unfinished upload counts as its file, and a finished one does not`()
        async throws
    {
        let folder = TestFolder()
        let storage = try SQLiteStorage(folder: folder.url)
        let account = Identifier.fresh()
        try await storage.spend(from: account, key: "1")
        let bodies = [
            #"{"length":1000,"offset":0}"#, #"{"length":5000,"offset":5000,"file":{"id":"ab"}}"#,
            #"{"length":200,"offset":100,"pieces":["cd"]}"#, "not JSON",
        ]
        var changes = bodies.enumerated().map { slot, body in
            Change.put(
                .document(
                    DocumentRow(
                        kind: .upload,
                        id: "\(account) \(slot)",
                        account: account,
                        body: Array(body.utf8)
                    )
                )
            )
        }
        let bytes = 1_200 + 2 * RecordRow.overheadBytes
        changes.append(.put(.feed(FeedRow(account: account, bytes: bytes))))
        let command = Command(keys: []) { [changes] _ in Decision(true, changes: changes) }
        _ = try await storage.perform(command).get()
        await storage.close()
        let found = try await DamageTests.examination(of: folder.url)
        #expect(found.feeds.findings.isEmpty, "\(found.feeds.findings)")
    }

    @Test(arguments: [
        ("UPDATE feeds SET records = 4", "counts 4 records, 1 deletions"),
        ("UPDATE feeds SET tombstones = 0", "but has 3 records, 1 deletions"),
        ("UPDATE feeds SET bytes = bytes + 1", "counts 3 records"),
        ("DELETE FROM feeds", "5 records and files, but no counters"),
        ("DELETE FROM blobs", "counts 3 records"),
        ("DELETE FROM records", "but has 0 records, 0 deletions"),
        ("UPDATE records SET seq = seq + 100 WHERE seq = 3", "number 103, beyond its feed's end"),
        ("UPDATE feeds SET threads = 1", "bytes and 1 threads, but has"),
        ("UPDATE feeds SET horizon = 99", "number 99, beyond its feed's end"),
    ])
    func `a wrong counter is found, but a server still works`(
        change: String,
        finding: String
    ) async throws {
        let folder = TestFolder()
        try await fill(folder)
        try await DamageTests.alter(folder, change)
        let found = try await DamageTests.examination(of: folder.url)
        #expect(found.feeds.differing == 1)
        let text = found.feeds.findings.joined()
        #expect(text.contains(finding), "\(text)")
        #expect(found.damage.isEmpty)
        let storage = try SQLiteStorage(folder: folder.url)
        try await storage.spend(from: .fresh(), key: "new")
        await storage.close()
    }
}
