import Foundation
import GRDB
import SanguineModel
import SanguineTesting
import Synchronization
import TestSupport
import Testing

@testable import Sanguine

@Suite(.bounded) struct OutboxFileTests {
    private let moment = Timestamp(millisecondsSince1970: 0)

    private func insert(_ count: Int, into file: OutboxFile) throws {
        for _ in 0..<count {
            let row = OutboxFile.Row(
                id: Identifier(at: moment),
                lane: "main",
                name: "a.name",
                arguments: Data(count: 512)
            )
            _ = try file.insert(row, at: moment)
        }
    }

    private func logBytes(_ folder: URL) throws -> Int {
        let log = folder.appending(path: "users/1").appending(path: OutboxFile.name + "-wal")
        return try FileManager.default.attributesOfItem(atPath: log.path)[.size] as? Int ?? 0
    }

    /// The number of rows in a copy of the file without its log.
    private func rowsWithoutLog(_ folder: URL) throws -> Int {
        let other = TemporaryFolder()
        try FileManager.default.createDirectory(at: other.user, withIntermediateDirectories: true)
        try FileManager.default.copyItem(
            at: folder.appending(path: "users/1").appending(path: OutboxFile.name),
            to: other.user.appending(path: OutboxFile.name)
        )
        let copy = try OutboxFile(UserFolders(other.url).current())
        defer { copy.close() }
        return try copy.rows().count
    }

    @Test func `a long log is copied to the file and starts over`() throws {
        let folder = TemporaryFolder()
        let file = try OutboxFile(UserFolders(folder.url).current())
        try insert(600, into: file)
        file.checkpointLogIfLong()
        #expect(try rowsWithoutLog(folder.url) == 600)
        let once = try logBytes(folder.url)
        for _ in 0..<4 {
            try insert(600, into: file)
            file.checkpointLogIfLong()
        }
        #expect(try logBytes(folder.url) < 2 * once)
        file.close()
    }

    @Test func `a short log remains until the file is tidied up`() throws {
        let folder = TemporaryFolder()
        let file = try OutboxFile(UserFolders(folder.url).current())
        try insert(1, into: file)
        file.checkpointLog()
        try insert(10, into: file)
        file.checkpointLogIfLong()
        #expect(try rowsWithoutLog(folder.url) == 1)
        file.checkpointLog()
        #expect(try rowsWithoutLog(folder.url) == 11)
        file.close()
    }

    @Test func `the log remains while a companion writes`() throws {
        let folder = TemporaryFolder()
        let file = try OutboxFile(UserFolders(folder.url).current())
        try insert(1, into: file)
        file.checkpointLog()
        try insert(1, into: file)
        let lock = try #require(try UserFolders(folder.url).lock())
        file.checkpointLog()
        #expect(try rowsWithoutLog(folder.url) == 1)
        lock.close()
        file.checkpointLog()
        #expect(try rowsWithoutLog(folder.url) == 2)
        file.close()
    }

    @Test func `the process cannot be suspended while it holds the lock`() throws {
        let folder = TemporaryFolder()
        let path = folder.url.appending(path: "sanguine-users.lock").path
        let isFree: @Sendable () -> Bool = {
            guard let other = LockFile(path) else { return false }
            defer { other.close() }
            return other.tryLock()
        }
        // Whether the lock is free at the start and end of each activity.
        let begun = Mutex<[Bool]>([])
        let ended = Mutex<[Bool]>([])
        let folders = UserFolders(
            folder.url,
            activity: ExpiringActivity {
                begun.withLock { $0.append(isFree()) }
                return { ended.withLock { $0.append(isFree()) } }
            }
        )
        let app = try OutboxFile(folders.current())
        try insert(1, into: app)
        let companion = try OutboxFile(folders.current(), isCompanion: true)
        let lock = try #require(try companion.lockForCompanion())
        try insert(1, into: companion)
        #expect(!isFree())
        #expect(begun.withLock { $0 } == [true] && ended.withLock { $0 }.isEmpty)
        lock.close()
        companion.close()
        app.checkpointLog()
        app.close()
        #expect(begun.withLock { $0 } == [true, true])
        #expect(ended.withLock { $0 } == [true, true])
    }

    @Test func `a process that is about to be suspended acquires no lock`() throws {
        let folder = TemporaryFolder()
        let folders = UserFolders(folder.url, activity: ExpiringActivity { nil })
        let file = try OutboxFile(folders.current())
        try insert(1, into: file)
        #expect(throws: UserFolders.IsSuspended.self) { try folders.lock() }
        file.checkpointLog()
        #expect(try file.rows().count == 1)
        file.close()
    }

    @Test func `performed operations are in the file when the app enters the background`() throws {
        let fixture = RecordsFixture(onDisk: true)
        fixture.connectivity.disconnect()
        let client = try fixture.client()
        try client.add("a")
        fixture.lifecycle.enterBackground()
        let folder = try #require(fixture.folder).url
        #expect(try rowsWithoutLog(folder) == 1)
        client.close()
    }

    @Test func `the state of an operation is kept when it is sent again`() throws {
        let file = OutboxFile(nil)
        try insert(2, into: file)
        try file.write([.acknowledged(1, head: 7, epoch: nil), .sending([1, 2])])
        let rows = try file.rows()
        #expect(rows.map(\.phase) == [.acknowledged(head: 7), .queued])
        #expect(rows.map(\.outcomeUnknown) == [false, true])
    }

    @Test func `a companion writes nothing for a user that the app no longer shows`() throws {
        let folder = TemporaryFolder()
        let folders = UserFolders(folder.url)
        let companion = try OutboxFile(folders.current(), isCompanion: true)
        try insert(1, into: companion)
        _ = try folders.begin(after: folders.current())
        #expect(throws: OutboxFile.UserChanged.self) { try insert(1, into: companion) }
        #expect(try companion.rows().count == 1)
        companion.close()
    }

    @Test func `no number is used twice, even after the last operation is removed`() throws {
        let folders = UserFolders(TemporaryFolder().url)
        let place = try folders.current()
        let first = OutboxFile(place)
        try insert(3, into: first)
        try first.write([.removed([3, 2])])
        #expect(try first.lastSequence() == 3)
        first.close()
        let second = OutboxFile(place)
        try insert(1, into: second)
        #expect(try second.rows().map(\.sequence) == [1, 4])
        try second.write([.removed([1, 4])])
        try insert(1, into: second)
        #expect(try second.rows().map(\.sequence) == [5])
        second.close()
    }

    @Test func `a damaged problem on disk does not blame the server`() throws {
        let place = try UserFolders(TemporaryFolder().url).current()
        let first = OutboxFile(place)
        try insert(1, into: first)
        let refusal = Problem(.notOwner, "Ask its owner.")
        try first.write([.refused(1, refusal)])
        #expect(try first.rows().map(\.phase) == [.refused(refusal)])
        first.close()
        let path = place.url.appending(path: OutboxFile.name).path
        let database = try DatabaseQueue(path: path)
        try database.write { try $0.execute(sql: "UPDATE operation SET problem = '{'") }
        try database.close()
        let second = OutboxFile(place)
        defer { second.close() }
        guard case .refused(let problem)? = try second.rows().first?.phase else {
            Issue.record("The operation is no longer refused.")
            return
        }

        #expect(problem.code.rawValue == "store")
        #expect(!problem.description.contains("server"))
        #expect(problem.detail.contains("Retry or discard"))
    }

    @Test func `a file of the previous version keeps its operations and numbers`() throws {
        let place = try UserFolders(TemporaryFolder().url).current()
        try FileManager.default.createDirectory(at: place.url, withIntermediateDirectories: true)
        let file = try DatabaseQueue(path: place.url.appending(path: OutboxFile.name).path)
        try file.write { database in
            try database.execute(
                sql: """
                    CREATE TABLE operation (
                        sequence INTEGER PRIMARY KEY AUTOINCREMENT,
                        id TEXT NOT NULL, lane TEXT NOT NULL, kind TEXT NOT NULL,
                        name TEXT NOT NULL,
                        arguments BLOB NOT NULL, phase TEXT NOT NULL, head INTEGER, problem TEXT,
                        created_at INTEGER NOT NULL
                    ) STRICT;
                    CREATE TABLE owner (
                        one INTEGER NOT NULL PRIMARY KEY CHECK (one = 1), account TEXT NOT NULL
                    ) STRICT;
                    """
            )
            let id = Identifier(at: Timestamp(millisecondsSince1970: 1_000))
            for sequence in [3, 9] {
                try database.execute(
                    sql: """
                        INSERT INTO operation
                        VALUES (?, ?, 'a', 'mutator', 'n', x'7b7d', 'queued', NULL, NULL, 0)
                        """,
                    arguments: [sequence, id.description]
                )
            }
            try database.execute(sql: "DELETE FROM operation WHERE sequence = 9")
            try database.execute(sql: "PRAGMA user_version = 2")
        }
        try file.close()
        let outbox = OutboxFile(place)
        try insert(1, into: outbox)
        #expect(try outbox.rows().map(\.sequence) == [3, 10])
        outbox.close()
    }

    @Test func `no two users share a sequence number`() throws {
        let folders = UserFolders(TemporaryFolder().url)
        let first = try folders.current()
        let (one, two) = (OutboxFile(first), OutboxFile(try folders.begin(after: first)))
        try insert(2, into: one)
        try insert(2, into: two)
        #expect(try one.rows().map(\.sequence) == [1, 2])
        #expect(try two.rows().map(\.sequence) == [1 << 32 + 1, 1 << 32 + 2])
        one.close()
        two.close()
    }

    @Test func `operations that are taken over twice are stored once, in order`() throws {
        let folders = UserFolders(TemporaryFolder().url)
        let first = try folders.current()
        let (one, two) = (OutboxFile(first), OutboxFile(try folders.begin(after: first)))
        try insert(2, into: one)
        try insert(1, into: two)
        try two.takeOver(one)
        try two.takeOver(one)
        #expect(try two.rows().map(\.sequence) == [1, 2, 1 << 32 + 1])
        one.close()
        two.close()
    }

    @Test func `operations can be taken over while a companion writes`() throws {
        let folders = UserFolders(TemporaryFolder().url)
        let first = try folders.current()
        let (one, two) = (OutboxFile(first), OutboxFile(try folders.begin(after: first)))
        try insert(2, into: one)
        let lock = try folders.lock()
        defer { lock?.close() }
        try two.takeOver(one)
        #expect(try two.rows().map(\.sequence) == [1, 2])
        one.close()
        two.close()
    }
}
