import Foundation
import GRDB
import SanguineAuthority
import SanguineModel
import TestSupport
import Testing

@testable import SanguineSQLite

/// Full, read-only and damaged disks, and folders that were changed.
@Suite("SQLite storage: health", .bounded)
struct StorageHealthTests {
    @Test func `the health check is a commit without changes`() async throws {
        let folder = TestFolder()
        let account = Identifier.fresh()
        let storage = try SQLiteStorage(folder: folder.url)
        try await storage.spend(from: account, key: "a")
        let before = try folder.size(of: "sanguine.sqlite-wal") ?? 0
        let version = try await storage.valueOnWriter("PRAGMA user_version")
        let number = try await storage.valueOnWriter("SELECT number FROM commits")
        try await storage.checkHealth()
        #expect(try folder.size(of: "sanguine.sqlite-wal") ?? 0 > before)
        #expect(try await storage.valueOnWriter("PRAGMA user_version") == version)
        #expect(try await storage.available(account) == 999_999)
        let next = try await storage.valueOnWriter("SELECT number FROM commits")
        #expect(next == number.flatMap { Int($0) }.map { "\($0 + 1)" })
        await storage.close()
        await #expect(throws: StorageError.closed) { try await storage.checkHealth() }
    }

    @Test func `a full disk is reported as full`() async throws {
        let folder = TestFolder()
        let account = Identifier.fresh()
        let storage = try SQLiteStorage(folder: folder.url)
        let pages = try await storage.valueOnWriter("PRAGMA page_count")
        try await storage.onWriter("PRAGMA max_page_count = \(pages ?? "1")")
        let error = await #expect(throws: StorageError.self) {
            for number in 1...1_000 {
                let reason = String(repeating: "x", count: 200)
                try await storage.spend(from: account, key: "\(number)", reason: reason)
            }
        }
        guard case .full = error else {
            Issue.record("The error is \(String(describing: error)).")
            return
        }
        await storage.close()
    }

    @Test func `a database that cannot be written is reported as read-only`() async throws {
        let folder = TestFolder()
        let account = Identifier.fresh()
        let storage = try SQLiteStorage(folder: folder.url)
        try await storage.checkHealth()
        try await storage.onWriter("PRAGMA query_only = ON")
        for attempt in [
            { try await storage.checkHealth() },
            { _ = try await storage.spend(from: account, key: "a") },
        ] as [@Sendable () async throws -> Void] {
            let error = await #expect(throws: StorageError.self) { try await attempt() }
            guard case .readOnly = error else {
                Issue.record("The error is \(String(describing: error)).")
                continue
            }
        }
        await storage.close()
    }

    @Test func `inconsistent pages found at opening make the storage unhealthy`() async throws {
        let folder = TestFolder()
        try await folder.fill()
        try folder.damage()
        let damaged = try SQLiteStorage(folder: folder.url)
        let error = await #expect(throws: StorageError.self) { try await damaged.checkHealth() }
        guard case .damaged = error else {
            Issue.record("The error is \(String(describing: error)).")
            return
        }
        await damaged.close()
    }

    @Test func `an unreadable page is reported as damage`() async throws {
        let folder = TestFolder()
        try await folder.fill()
        try folder.damage()
        let storage = try SQLiteStorage(folder: folder.url)
        let error = await #expect(throws: StorageError.self) { try await storage.verifyLedger() }
        guard case .damaged = error else {
            Issue.record("The error is \(String(describing: error)).")
            return
        }
        await storage.close()
        let inspection = try SQLiteStorage.inspect(folder: folder.url)
        #expect(try await !inspection.examine().pages.isEmpty)
        await inspection.close()
    }

    @Test func `the free bytes of the folder are known`() async throws {
        let folder = TestFolder()
        let storage = try SQLiteStorage(folder: folder.url)
        #expect(try #require(storage.freeBytes) > 0)
        #expect(DiskSpace(of: folder.url.path)?.isReadOnly == false)
        #expect(DiskSpace(of: "/no such folder") == nil)
        await storage.close()
    }

    @Test(arguments: [0o755, 0o750, 0o701, 0o770])
    func `a folder that is open to others is refused with the command to run`(
        mode: Int
    ) async throws {
        let folder = TestFolder()
        await (try SQLiteStorage(folder: folder.url)).close()
        #expect(try folder.mode() == 0o700)
        let path = DataFolder(folder.url).path
        #expect(chmod(path, mode_t(mode)) == 0)
        let refusal = SQLiteStorageError.openToOthers(folder: path, mode: mode)
        #expect(throws: refusal) { _ = try SQLiteStorage(folder: folder.url) }
        #expect(refusal.description.contains("chmod 700 '\(path)'"))
        #expect(chmod(path, 0o700) == 0)
        await (try SQLiteStorage(folder: folder.url)).close()
    }

    @Test(arguments: ["gone", "empty", "never written"])
    func `an empty database is refused and not created where data must exist`(
        state: String
    ) async throws {
        let folder = TestFolder()
        let data = DataFolder(folder.url)
        try data.create()
        if state != "gone" { try Data().write(to: folder.file("sanguine.sqlite")) }
        if state == "never written" {
            let schema = Schema(steps: [])
            let options = SQLiteStorageOptions()
            let queue = try Connections.writer(
                in: data,
                options: options,
                mayBeEmpty: true,
                schema: schema
            )
            try queue.close()
        }
        let refusal = SQLiteStorageError.emptied(folder: data.path)
        for _ in 1...2 {
            #expect(throws: refusal) {
                _ = try SQLiteStorage(folder: folder.url, mayBeEmpty: false)
            }
        }
        #expect(data.hasDatabase == (state != "gone"))
        await (try SQLiteStorage(folder: folder.url)).close()
        await (try SQLiteStorage(folder: folder.url, mayBeEmpty: false)).close()
    }

    @Test func `the process that has the folder open is visible without disturbing it`()
        async throws
    {
        let folder = TestFolder()
        #expect(SQLiteFolderFacts(of: folder.url).folderMode == nil)
        let storage = try SQLiteStorage(folder: folder.url)
        let facts = SQLiteFolderFacts(of: folder.url)
        #expect(facts.holder == .process(ProcessInfo.processInfo.processIdentifier))
        #expect(facts.folderMode == 0o700)
        #expect(facts.fileModes["sanguine.sqlite"] == 0o600)
        #expect(facts.hasDatabase)
        try await storage.checkHealth()
        await storage.close()
        #expect(SQLiteFolderFacts(of: folder.url).holder == .nobody)
        await (try SQLiteStorage(folder: folder.url)).close()
    }

    @Test func `the newest row's time and the existence of accounts can be read`()
        async throws
    {
        let folder = TestFolder()
        let storage = try SQLiteStorage(folder: folder.url)
        #expect(try await !storage.hasAccounts())
        let inspection = try SQLiteStorage.inspect(folder: folder.url)
        #expect(try await inspection.newestMoment() == nil)
        try await storage.onWriter(
            """
            INSERT INTO transfers VALUES (1, x'00', x'00', 1, 1, 1, 1, 0, 'a', 5000, NULL,
                NULL);
            INSERT INTO operations VALUES (x'00', 'a', x'00', 1, NULL, 200, 1, x'00', 7000,
                NULL, NULL);
            INSERT INTO accounts (id, kind, email, time_zone, language, display_name, plan,
                settings, created_at, seq)
            VALUES (x'00', 'guest', NULL, 'UTC', 'en', NULL, 'free', x'00', 1, 1);
            """
        )
        #expect(try await storage.hasAccounts())
        #expect(try await inspection.hasAccounts())
        let newest = try await inspection.newestMoment()
        #expect(newest == Timestamp(millisecondsSince1970: 7_000))
        await inspection.close()
        await storage.close()
    }
}

extension TestFolder {
    /// Creates a database with several hundred pages.
    fileprivate func fill() async throws {
        let storage = try SQLiteStorage(folder: url)
        let reason = String(repeating: "x", count: 200)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 1...1_000 {
                group.addTask {
                    _ = try await storage.spend(
                        from: .numbered(UInt64(number)),
                        key: "\(number)",
                        reason: reason
                    )
                }
            }
            try await group.waitForAll()
        }
        await storage.close()
    }

    /// Overwrites pages in the middle of the database.
    fileprivate func damage() throws {
        let file = try FileHandle(forWritingTo: file("sanguine.sqlite"))
        let pages = try #require(try size(of: "sanguine.sqlite")) / 4_096
        for page in stride(from: pages / 4, to: pages, by: 3) {
            try file.seek(toOffset: UInt64(page * 4_096))
            try file.write(contentsOf: Data(repeating: 0xA5, count: 4_096))
        }
        try file.close()
    }
}

extension Identifier {
    /// Returns the id whose last bytes are the number.
    fileprivate static func numbered(_ number: UInt64) -> Identifier {
        let bytes = (0..<16).map {
            $0 < 8 ? 0 : UInt8(truncatingIfNeeded: number >> (56 - ($0 - 8) * 8))
        }
        return Identifier(bytes: bytes) ?? .fresh()
    }
}
