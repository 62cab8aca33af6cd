import Foundation
import GRDB
import SanguineModel
import SanguineTesting
import Synchronization
import Testing

@testable import Sanguine

/// What a sign-out has removed is not in any byte of the client's files.
@Suite("Wiped files", .timeLimit(.minutes(15)))
struct WipedFilesTests {
    private static let mark = "a-word-of-ada"

    /// A text of any length, small ones and ones that fill pages.
    private func text(_ random: inout SplitMix64) -> String {
        let length = Bool.random(using: &random) ? 40 : Int.random(in: 1...9_000, using: &random)
        return Self.mark + String(repeating: "x", count: length)
    }

    private func pull(_ range: Range<Int>, _ random: inout SplitMix64) -> SyncState.FeedBatch {
        let changes = range.map { number in
            RecordChange(
                collection: "counters",
                id: .of("c\(number % 50)"),
                seq: Int64(number),
                value: .object(["count": .integer(1), "group": .string(text(&random))])
            )
        }
        let next = Int64(range.upperBound)
        return SyncState.FeedBatch(
            PullAnswer(changes: changes, next: next, head: next, hasMore: false),
            since: Int64(range.lowerBound)
        )
    }

    @Test(arguments: Fuzz.seeds(1...12))
    func `records of a user who has left are in no byte`(seed: UInt64) throws {
        let folder = TemporaryFolder()
        var random = SplitMix64(seed: seed)
        let file = try RecordsFile(folder: folder.url, schema: .counters)
        defer { file.close() }
        for part in 0..<Int.random(in: 1...8, using: &random) {
            let size = Int.random(in: 1...60, using: &random)
            _ = try file.begin(pull(part * 100..<part * 100 + size, &random), of: "ada")
            try file.commit()
            if Bool.random(using: &random) { file.checkpoint() }
        }
        // One that was begun, and one that was dropped.
        let range = RecordsFile.Range(number: 1, low: 0, high: 9, reached: 0)
        for _ in 0..<2 {
            let restore = try file.beginRestore(of: "ada", [range])
            let page = RecordPage(pull(0..<40, &random).changes)
            try file.write(page, range, of: restore.space)
        }
        #expect(try !FileBytes.files(in: folder.url, with: Self.mark).isEmpty)
        try file.forget(except: seed.isMultiple(of: 2) ? "bob" : OutboxFile.nobody)
        #expect(
            try FileBytes.files(in: folder.url, with: Self.mark).isEmpty,
            Fuzz.replay(Self.self, seed: seed)
        )
    }

    @Test func `records that were removed before a death are in no byte after the next launch`()
        throws
    {
        let folder = TemporaryFolder()
        var random = SplitMix64(seed: 1)
        let file = try RecordsFile(folder: folder.url, schema: .counters)
        defer { file.close() }
        _ = try file.begin(pull(0..<40, &random), of: "ada")
        try file.commit()
        let copy = TemporaryFolder()
        // The death comes after the removal, and before the log is emptied.
        let database = try DatabaseQueue(path: folder.url.appending(path: RecordsFile.name).path)
        try database.write { database in
            for table in ["record", "record_index", "base", "space"] {
                try database.execute(sql: "DELETE FROM \(table)")
            }
        }
        try FileManager.default.copyItem(at: folder.url, to: copy.url)
        #expect(try !FileBytes.files(in: copy.url, with: Self.mark).isEmpty)
        let next = try RecordsFile(folder: copy.url, schema: .counters)
        try next.forget(except: OutboxFile.nobody)
        #expect(try FileBytes.files(in: copy.url, with: Self.mark).isEmpty)
        next.close()
        try database.close()
    }

    @Test func `records that were left on a disk that failed go with their user`() throws {
        let folder = TemporaryFolder()
        var random = SplitMix64(seed: 1)
        let file = try RecordsFile(folder: folder.url, schema: .counters)
        defer { file.close() }
        _ = try file.begin(pull(0..<40, &random), of: "ada")
        try file.commit()
        try file.leaveDisk(because: CocoaError(.fileWriteOutOfSpace))
        try file.forget(except: OutboxFile.nobody)
        #expect(try FileBytes.files(in: folder.url, with: Self.mark).isEmpty)
    }

    @Test(arguments: Fuzz.seeds(1...12))
    func `values and states of a user who has left are in no byte`(seed: UInt64) throws {
        let folder = TemporaryFolder()
        var random = SplitMix64(seed: seed)
        let store = try ClientStore(folder: folder.url, logger: .silent)
        defer { store.close() }
        for _ in 0..<Int.random(in: 5...200, using: &random) {
            let isUsers = Bool.random(using: &random)
            let entry = StoredEntry(
                key: "card/\(Int.random(in: 0...60, using: &random))",
                audience: isUsers ? .user : .device,
                owner: isUsers ? Self.mark : "",
                asOf: Timestamp(millisecondsSince1970: 1),
                day: nil,
                keptUntil: Timestamp(millisecondsSince1970: 1_000),
                version: 1,
                labels: "",
                isStale: false,
                value: Data((isUsers ? text(&random) : "device").utf8)
            )
            try store.applyEntries([.put(entry, epoch: 0)])
        }
        try store.setState("balance", Data(text(&random).utf8))
        // What had to make room for another file is the user's as well.
        let aside = folder.url.appending(path: StoreFile.name + ".damaged")
        try Data(Self.mark.utf8).write(to: aside)
        #expect(try FileBytes.files(in: folder.url, with: Self.mark).count == 2)
        try store.forgetUser(before: 1)
        #expect(
            try FileBytes.files(in: folder.url, with: Self.mark).isEmpty,
            Fuzz.replay(Self.self, seed: seed)
        )
    }

    @Test func `of a user who has left the outbox has what waits for them, and no more`() throws {
        let folder = TemporaryFolder()
        let outbox = OutboxFile(folder: folder.url)
        defer { outbox.close() }
        var random = SplitMix64(seed: 1)
        let moment = Timestamp(millisecondsSince1970: 1)
        var sequences: [Int64] = []
        for number in 0..<90 {
            let row = OutboxFile.Row(
                id: Identifier(at: moment, using: &random),
                lane: "main",
                name: Count.name,
                arguments: Data((number == 50 ? "what-waits" : text(&random)).utf8)
            )
            sequences.append(try outbox.insert(row, of: "ada", at: moment))
        }
        try outbox.write([.removed(Array(sequences[..<40]))])
        for number in 40..<90 where number != 50 {
            try outbox.write([.acknowledged(sequences[number], head: 1)])
        }
        try outbox.setPresentOwner("ada")
        try outbox.hand(from: "ada", to: OutboxFile.nobody)
        try outbox.rewrite()
        #expect(try outbox.presentOwner() == OutboxFile.nobody)
        #expect(try FileBytes.files(in: folder.url, with: Self.mark).isEmpty)
        #expect(try FileBytes.files(in: folder.url, with: "what-waits") == [OutboxFile.name])
        #expect(try outbox.rows(of: "ada").map(\.sequence) == [sequences[50]])
    }

    @Test func `every file overwrites what is deleted`() throws {
        let folder = TemporaryFolder()
        let records = try RecordsFile(folder: folder.url, schema: .counters)
        defer { records.close() }
        let isSet = try records.connections.withLock { connections in
            try connections?.writer.read { try Int.fetchOne($0, sql: "PRAGMA secure_delete") }
        }
        #expect(isSet == 1)
        let store = try StoreFile.open(in: folder.url)
        #expect(try store.database.read { try Int.fetchOne($0, sql: "PRAGMA secure_delete") } == 1)
    }
}
