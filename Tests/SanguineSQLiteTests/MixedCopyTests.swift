import Foundation
import GRDB
import SanguineAuthority
import SanguineModel
import TestSupport
import Testing

@testable import SanguineSQLite

/// Folders that were copied with `cp` while a server was running.
@Suite("SQLite storage: copies of a running folder", .bounded)
struct MixedCopyTests {
    private func copy(_ name: String, from folder: TestFolder, to other: TestFolder) throws {
        try? FileManager.default.removeItem(at: other.file(name))
        try FileManager.default.copyItem(at: folder.file(name), to: other.file(name))
    }

    private func spend(_ count: Int, in storage: SQLiteStorage, _ name: String) async throws {
        for number in 1...count {
            try await storage.spend(from: .fresh(), key: "\(name)-\(number)")
        }
    }

    /// Checkpoints the whole log, so that the next commit restarts it.
    private func checkpoint(_ storage: SQLiteStorage) async throws {
        _ = try await storage.valueOnWriter("PRAGMA wal_checkpoint(RESTART)")
    }

    /// Copies the database, and later the log after it was restarted.
    private func makeMixed(_ mixed: TestFolder, of folder: TestFolder) async throws {
        try mixed.create()
        let storage = try SQLiteStorage(folder: folder.url)
        try await spend(5, in: storage, "a")
        try await checkpoint(storage)
        try copy("sanguine.sqlite", from: folder, to: mixed)
        try await spend(5, in: storage, "b")
        try await checkpoint(storage)
        try await spend(1, in: storage, "c")
        try copy("sanguine.sqlite-wal", from: folder, to: mixed)
        await storage.close()
    }

    @Test func `an old database with a newer log is refused and not changed`() async throws {
        let (folder, mixed) = (TestFolder(), TestFolder())
        try await makeMixed(mixed, of: folder)
        let before = try Data(contentsOf: mixed.file("sanguine.sqlite"))
        let refusal = SQLiteStorageError.mixed(folder: DataFolder(mixed.url).path)
        for _ in 1...2 {
            #expect(throws: refusal) { _ = try SQLiteStorage(folder: mixed.url) }
        }
        #expect(refusal.description.contains("sanguine restore"))
        #expect(try Data(contentsOf: mixed.file("sanguine.sqlite")) == before)
        let inspection = try SQLiteStorage.inspect(folder: mixed.url)
        #expect(try await inspection.examine().pages == [Integrity.mixed])
        await inspection.close()
    }

    @Test func `a newer database with an older log is refused`() async throws {
        let (folder, mixed) = (TestFolder(), TestFolder())
        try mixed.create()
        let storage = try SQLiteStorage(folder: folder.url)
        try await spend(2, in: storage, "a")
        try copy("sanguine.sqlite-wal", from: folder, to: mixed)
        try await spend(5, in: storage, "b")
        try await checkpoint(storage)
        try copy("sanguine.sqlite", from: folder, to: mixed)
        await storage.close()
        #expect(throws: SQLiteStorageError.mixed(folder: DataFolder(mixed.url).path)) {
            _ = try SQLiteStorage(folder: mixed.url)
        }
    }

    @Test(arguments: [0, 1, 3])
    func `a crash's files open after any number of checkpoints`(checkpoints: Int) async throws {
        let (folder, crashed) = (TestFolder(), TestFolder())
        let storage = try SQLiteStorage(folder: folder.url)
        for round in 0...checkpoints {
            try await spend(40, in: storage, "\(round)")
            if round < checkpoints { try await checkpoint(storage) }
        }
        try folder.copyDatabase(to: crashed)
        await storage.close()
        let opened = try SQLiteStorage(folder: crashed.url)
        try await opened.checkHealth()
        await opened.close()
    }

    @Test func `an unreadable database file is not mistaken for another state`()
        async throws
    {
        let (folder, crashed) = (TestFolder(), TestFolder())
        let storage = try SQLiteStorage(folder: folder.url)
        try await spend(3, in: storage, "a")
        let root = try await storage.valueOnWriter(
            "SELECT rootpage FROM sqlite_master WHERE name = 'commits'"
        )
        try folder.copyDatabase(to: crashed)
        await storage.close()
        let page = try #require(root.flatMap { Int($0) })
        let found = DataFolder(crashed.url)
        #expect(try !CommitNumber.isMixed(found, page: page, newest: 9))
        try crashed.replaceByLoop("sanguine.sqlite")
        #expect(throws: ChunkedReader.Failure.self) {
            try CommitNumber.isMixed(found, page: page, newest: 9)
        }
    }

    @Test(arguments: 1...Schema.current.version)
    func `the log of a crash of an older version is opened`(step: Int) async throws {
        let (folder, crashed) = (TestFolder(), TestFolder())
        try folder.create()
        let queue = try Connections.writer(
            in: DataFolder(folder.url),
            options: SQLiteStorageOptions(),
            mayBeEmpty: true,
            schema: Schema(steps: Array(Schema.current.steps.prefix(step)))
        )
        try await queue.write {
            try $0.execute(
                sql: """
                    INSERT INTO devices (id, secret_hash, account, created_at)
                    VALUES ('a', x'00', x'00', 0)
                    """
            )
        }
        try folder.copyDatabase(to: crashed)
        try queue.close()
        #expect(try (crashed.size(of: "sanguine.sqlite-wal") ?? 0) > 0)
        let inspected = try? SQLiteStorage.inspect(folder: crashed.url)
        #expect((inspected == nil) == (step < Schema.current.version))
        await inspected?.close()
        let opened = try SQLiteStorage(folder: crashed.url)
        #expect(try await opened.valueOnWriter("SELECT id FROM devices") == "a")
        try await opened.spend(from: .fresh(), key: "a")
        await opened.close()
    }

    @Test func `a folder of mixed states is neither copied nor given an epoch`() async throws {
        let (folder, mixed, copies) = (TestFolder(), TestFolder(), TestFolder())
        try copies.create()
        try await makeMixed(mixed, of: folder)
        let refusal = SQLiteStorageError.mixed(folder: DataFolder(mixed.url).path)
        for upgrades in [false, true] {
            let copy = FolderCopy(of: mixed.url, to: copies.file("a"), upgrades: upgrades)
            await #expect(throws: refusal) { try await copy.make() }
        }
        #expect(throws: refusal) { try SQLiteStorage.assignNewEpoch(at: mixed.url) }
        #expect(try FileManager.default.contentsOfDirectory(atPath: copies.url.path).isEmpty)
    }

    @Test(arguments: [0, 1, 2, 127, 128, 40_000, 9_000_000, 3_000_000_000, 1 << 40, 1 << 50])
    func `the commit number is parsed from its page`(number: Int64) async throws {
        let folder = TestFolder()
        let storage = try SQLiteStorage(folder: folder.url)
        try await storage.onWriter("UPDATE commits SET number = \(number)")
        try await checkpoint(storage)
        let root = try await storage.valueOnWriter(
            "SELECT rootpage FROM sqlite_master WHERE name = 'commits'"
        )
        await storage.close()
        let page = try #require(root.flatMap { Int($0) })
        let path = folder.file("sanguine.sqlite").path
        let bytes = try ChunkedReader.read(path, from: (page - 1) * 4_096, 4_096)
        #expect(CommitNumber.number(in: bytes) == number)
    }
}
