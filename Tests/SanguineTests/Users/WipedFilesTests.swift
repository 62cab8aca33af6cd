import Foundation
import GRDB
import SanguineModel
import SanguineTesting
import Synchronization
import TestSupport
import Testing

@testable import Sanguine

/// Data removed by a sign-out is in no byte of the client's files.
@Suite("Wiped files", .bounded)
struct WipedFilesTests {
    private static let mark = "a-word-of-ada"

    /// Returns a string of random length, from short to several pages long.
    private func text(_ random: inout SplitMix64) -> String {
        let length = Bool.random(using: &random) ? 40 : Int.random(in: 1...9_000, using: &random)
        return Self.mark + String(repeating: "x", count: length)
    }

    @Test func `the outbox of a user who has left contains only their queued operations`() throws {
        let folder = TemporaryFolder()
        let outbox = try OutboxFile(UserFolders(folder.url).current())
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
            sequences.append(try outbox.insert(row, at: moment))
        }
        try outbox.write([.removed(Array(sequences[..<40]))])
        for number in 40..<90 where number != 50 {
            try outbox.write([.acknowledged(sequences[number], head: 1, epoch: nil)])
        }
        #expect(try outbox.retain(for: .seconds(1), at: moment))
        try outbox.rewrite()
        #expect(try FileBytes.files(in: folder.user, with: Self.mark).isEmpty)
        #expect(try FileBytes.files(in: folder.user, with: "what-waits") == [OutboxFile.name])
        #expect(try outbox.rows().map(\.sequence) == [sequences[50]])
    }

    @Test func `every file overwrites deleted data`() throws {
        let folder = TemporaryFolder()
        let records = try RecordsFile(folder: folder.url, schema: .counters)
        defer { records.close() }
        let isSet = try records.openConnections.writer.read {
            try Int.fetchOne($0, sql: "PRAGMA secure_delete")
        }
        #expect(isSet == 1)
        let store = try StoreFile.open(in: folder.url)
        #expect(try store.database.read { try Int.fetchOne($0, sql: "PRAGMA secure_delete") } == 1)
    }
}
