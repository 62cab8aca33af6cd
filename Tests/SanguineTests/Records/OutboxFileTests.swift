import Foundation
import SanguineModel
import SanguineTesting
import Synchronization
import TestSupport
import Testing

@testable import Sanguine

@Suite(.bounded) struct OutboxFileTests {
    private let owner = "me"
    private let moment = Timestamp(millisecondsSince1970: 0)

    private func insert(_ count: Int, into file: OutboxFile) throws {
        for _ in 0..<count {
            let row = OutboxFile.Row(
                id: Identifier(at: moment),
                lane: "main",
                name: "a.name",
                arguments: Data(count: 512)
            )
            _ = try file.insert(row, of: owner, at: moment)
        }
    }

    private func logBytes(_ folder: URL) throws -> Int {
        let log = folder.appending(path: OutboxFile.name + "-wal")
        return try FileManager.default.attributesOfItem(atPath: log.path)[.size] as? Int ?? 0
    }

    /// What a copy of the file alone holds, without its log.
    private func rowsWithoutLog(_ folder: URL, of owner: String = "me") throws -> Int {
        let other = TemporaryFolder()
        try FileManager.default.createDirectory(at: other.url, withIntermediateDirectories: true)
        try FileManager.default.copyItem(
            at: folder.appending(path: OutboxFile.name),
            to: other.url.appending(path: OutboxFile.name)
        )
        let copy = OutboxFile(folder: other.url)
        defer { copy.close() }
        return try copy.rows(of: owner).count
    }

    @Test func `the log is copied to the file when it is long, and begins anew`() throws {
        let folder = TemporaryFolder()
        let file = OutboxFile(folder: folder.url)
        try insert(600, into: file)
        file.tidyUpIfLong()
        #expect(try rowsWithoutLog(folder.url) == 600)
        let once = try logBytes(folder.url)
        for _ in 0..<4 {
            try insert(600, into: file)
            file.tidyUpIfLong()
        }
        #expect(try logBytes(folder.url) < 2 * once)
        file.close()
    }

    @Test func `a short log stays until the app is tidied up`() throws {
        let folder = TemporaryFolder()
        let file = OutboxFile(folder: folder.url)
        try insert(1, into: file)
        file.tidyUp()
        try insert(10, into: file)
        file.tidyUpIfLong()
        #expect(try rowsWithoutLog(folder.url) == 1)
        file.tidyUp()
        #expect(try rowsWithoutLog(folder.url) == 11)
        file.close()
    }

    @Test func `the log stays while a companion writes`() throws {
        let folder = TemporaryFolder()
        let file = OutboxFile(folder: folder.url)
        try insert(1, into: file)
        file.tidyUp()
        try insert(1, into: file)
        let lock = try #require(
            LockFile(folder.url.appending(path: OutboxFile.lockName).path)
        )
        lock.lock()
        file.tidyUp()
        #expect(try rowsWithoutLog(folder.url) == 1)
        lock.close()
        file.tidyUp()
        #expect(try rowsWithoutLog(folder.url) == 2)
        file.close()
    }

    @Test func `what was performed is in the file when the app goes to the background`() throws {
        let fixture = RecordsFixture(onDisk: true)
        fixture.connectivity.disconnect()
        let client = try fixture.client()
        try client.add("a")
        fixture.lifecycle.enterBackground()
        let folder = try #require(fixture.folder).url
        let owner = client.sync.guarded.withLock { $0.owner }
        #expect(try rowsWithoutLog(folder, of: owner) == 1)
        client.close()
    }

    @Test func `what became of an operation is not forgotten when it is sent again`() throws {
        let file = OutboxFile(folder: nil)
        try insert(2, into: file)
        try file.write([.acknowledged(1, head: 7), .sending([1, 2])])
        let rows = try file.rows(of: owner)
        #expect(rows.map(\.phase) == [.acknowledged(head: 7), .queued])
        #expect(rows.map(\.mayBeDone) == [false, true])
    }

    @Test func `a companion's operation is the user's whom the app shows`() throws {
        let folder = TemporaryFolder()
        let app = OutboxFile(folder: folder.url)
        try app.setPresentOwner("another")
        let companion = OutboxFile(folder: folder.url, isCompanion: true)
        // It has not seen yet that the user is another one.
        try insert(1, into: companion)
        #expect(try app.rows(of: "another").count == 1 && app.rows(of: owner).isEmpty)
        companion.close()
        app.close()
    }
}
