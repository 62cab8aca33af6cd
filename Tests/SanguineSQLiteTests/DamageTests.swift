import Foundation
import GRDB
import GRDBSQLite
import SanguineAuthority
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineSQLite

/// Data that was damaged by a broken disk, or by copying a folder in use.
@Suite("SQLite storage: damage", .bounded)
struct DamageTests {
    /// Creates a database with an account that has spent tokens, and returns the account.
    static func fill(_ folder: TestFolder, spends: Int = 3) async throws -> Identifier {
        let account = Identifier.fresh()
        let storage = try SQLiteStorage(folder: folder.url)
        for number in 1...spends { try await storage.spend(from: account, key: "\(number)") }
        await storage.close()
        return account
    }

    /// Changes the database without the storage.
    static func alter(_ folder: TestFolder, _ sql: String) async throws {
        let queue = try DatabaseQueue(path: folder.file("sanguine.sqlite").path)
        try await queue.writeWithoutTransaction { try $0.execute(sql: sql) }
        try queue.close()
    }

    private func isDamage(_ error: StorageError?) -> Bool {
        if case .damaged = error { true } else { false }
    }

    @Test func `an account whose balance is not the sum of its entries can only be read`()
        async throws
    {
        let folder = TestFolder()
        let account = try await Self.fill(folder)
        try await Self.alter(folder, "UPDATE balances SET available = available + 179")
        let storage = try SQLiteStorage(folder: folder.url)
        #expect(storage.dataCheck == .done)
        let id = BlobID(of: [1])
        for attempt in [
            { _ = try await storage.spend(from: account, key: "new") },
            { _ = try await storage.spend(from: .fresh(), key: "other") },
            {
                let horizon = SweepHorizon(answers: .zero, sessions: .zero, holds: .zero)
                _ = try await storage.sweep(horizon, limit: 1)
            },
            { try await storage.checkHealth() },
            { try await storage.blobs.keep([1], as: id, at: .zero) },
            { _ = try await storage.blobs.remove(id, keptBefore: .zero) },
        ] as [@Sendable () async throws -> Void] {
            let error = await #expect(throws: StorageError.self) { try await attempt() }
            #expect(isDamage(error), "\(String(describing: error))")
        }
        #expect(try await storage.available(account) == 999_997 + 179)
        #expect(try await storage.transfers(of: account, before: nil, limit: 9).count == 4)
        await storage.close()
    }

    @Test func `damage found by a read prevents later writes`() async throws {
        let folder = TestFolder()
        let account = try await Self.fill(folder)
        let storage = try SQLiteStorage(folder: folder.url)
        try await storage.checkHealth()
        try await storage.onWriter("UPDATE holds SET id = x'00'")
        try await storage.onWriter(
            "INSERT INTO holds (id, account, amount, expires_at, state, reason, sent) "
                + "VALUES (x'00', x'00', 1, 1, 0, '', 0)"
        )
        let read = await #expect(throws: StorageError.self) {
            try await storage.openHolds(expiringBy: Timestamp(millisecondsSince1970: 9), limit: 9)
        }
        #expect(isDamage(read))
        let write = await #expect(throws: StorageError.self) {
            try await storage.spend(from: account, key: "new")
        }
        #expect(isDamage(write))
        await storage.close()
    }

    @Test func `the examination continues in the background after opening`() async throws {
        let folder = TestFolder()
        let account = try await Self.fill(folder)
        try await Self.alter(folder, "UPDATE balances SET available = 1")
        var options = SQLiteStorageOptions()
        options.openingCheck = .zero
        let storage = try SQLiteStorage(folder: folder.url, options: options)
        try await eventually("the end of the examination") { storage.dataCheck == .done }
        let error = await #expect(throws: StorageError.self) {
            try await storage.spend(from: account, key: "new")
        }
        #expect(isDamage(error))
        await storage.close()
    }

    @Test func `closing does not wait for the examination`() async throws {
        let folder = TestFolder()
        _ = try await Self.fill(folder)
        var options = SQLiteStorageOptions()
        options.openingCheck = .zero
        for _ in 1...5 {
            let storage = try SQLiteStorage(folder: folder.url, options: options)
            await storage.close()
            if case .running(let part) = storage.dataCheck { Issue.record("still at \(part)") }
        }
    }

    // MARK: - Examination

    private static let content = [UInt8](repeating: 7, count: 600_000)

    /// Stores a file, and returns its location.
    private func keepFile(in folder: TestFolder) async throws -> URL {
        let storage = try SQLiteStorage(folder: folder.url)
        let id = try await storage.keep(Self.content)
        await storage.close()
        return folder.file(DataFolder(folder.url).blobName(id))
    }

    private func examination(of folder: TestFolder) async throws -> DataExamination {
        try await Self.examination(of: folder.url)
    }

    static func examination(of folder: URL) async throws -> DataExamination {
        let inspection = try SQLiteStorage.inspect(folder: folder)
        let examination = try await inspection.examine()
        await inspection.close()
        return examination
    }

    @Test func `an examination of intact data reads everything and finds nothing`() async throws {
        let folder = TestFolder()
        _ = try await Self.fill(folder)
        _ = try await keepFile(in: folder)
        let found = try await examination(of: folder)
        #expect(found.damage.isEmpty)
        #expect((found.ledger.accounts, found.ledger.transfers) == (1, 4))
        #expect((found.files.count, found.files.bytes) == (1, 600_000))
    }

    @Test(arguments: ["missing", "altered", "shorter"])
    func `a file that does not match its name is found and prevents writes`(
        state: String
    ) async throws {
        let folder = TestFolder()
        let account = try await Self.fill(folder)
        let file = try await keepFile(in: folder)
        switch state {
        case "missing": try FileManager.default.removeItem(at: file)
        case "altered":
            let handle = try FileHandle(forWritingTo: file)
            try handle.seek(toOffset: 500_000)
            try handle.write(contentsOf: Data([8]))
            try handle.close()
        default: try Data(repeating: 7, count: 5).write(to: file)
        }
        let found = try await examination(of: folder)
        #expect(found.files.damaged == 1)
        #expect(found.damage.first?.contains(file.lastPathComponent) == true)
        let storage = try SQLiteStorage(folder: folder.url)
        let error = await #expect(throws: StorageError.self) { try await storage.checkHealth() }
        #expect(isDamage(error))
        await storage.close()

        var options = SQLiteStorageOptions()
        options.acceptsLostFiles = true
        let accepting = try SQLiteStorage(folder: folder.url, options: options)
        try await accepting.spend(from: account, key: "new")
        await accepting.close()
    }

    @Test func `a file that cannot be opened for other reasons is not damage`() async throws {
        let folder = TestFolder()
        let account = try await Self.fill(folder)
        let file = try await keepFile(in: folder)
        try folder.replaceByLoop(DataFolder(folder.url).blobName(BlobID(of: Self.content)))
        let inspection = try SQLiteStorage.inspect(folder: folder.url)
        let error = await #expect(throws: StorageError.self) { try await inspection.examine() }
        #expect("\(String(describing: error))".contains(file.lastPathComponent))
        #expect(!isDamage(error))
        await inspection.close()
        let storage = try SQLiteStorage(folder: folder.url)
        guard case .failed = storage.dataCheck else {
            Issue.record("The examination ended with \(storage.dataCheck).")
            return
        }
        try await storage.spend(from: account, key: "new")
        await storage.close()
    }

    @Test func `an unreadable page is damage, but a failed write is not`() {
        for code in [1, 2, 32, 33] as [Int32] {
            let read = SQLFailure(code: SQLITE_IOERR | code << 8, message: "disk I/O error")
            #expect(isDamage(read.asStorageError), "\(code)")
        }
        for code in [3, 4, 12] as [Int32] {
            let write = SQLFailure(code: SQLITE_IOERR | code << 8, message: "disk I/O error")
            #expect(!isDamage(write.asStorageError), "\(code)")
        }
    }

    @Test(arguments: ["a page of zeros", "an index without a row", "a balance"])
    func `damage of the database is found and prevents writes`(kind: String) async throws {
        let folder = TestFolder()
        let account = try await Self.fill(folder)
        switch kind {
        case "a page of zeros":
            let storage = try SQLiteStorage(folder: folder.url)
            let root = try await storage.valueOnWriter(
                "SELECT rootpage FROM sqlite_master WHERE name = 'transfers'"
            )
            await storage.close()
            let page = try #require(root.flatMap { UInt64($0) })
            let handle = try FileHandle(forWritingTo: folder.file("sanguine.sqlite"))
            try handle.seek(toOffset: (page - 1) * 4_096)
            try handle.write(contentsOf: Data(count: 4_096))
            try handle.close()
        case "an index without a row":
            try await Self.alter(
                folder,
                """
                PRAGMA writable_schema = ON;
                UPDATE sqlite_master SET sql = replace(sql, '(account)', '(seq)')
                    WHERE name = 'transfers_by_account';
                """
            )
        default: try await Self.alter(folder, "UPDATE balances SET held = 5")
        }
        #expect(try await !examination(of: folder).damage.isEmpty)
        let storage = try SQLiteStorage(folder: folder.url)
        let error = await #expect(throws: StorageError.self) {
            try await storage.spend(from: account, key: "new")
        }
        #expect(isDamage(error))
        await storage.close()
    }
}

extension SQLiteStorage {
    /// Adds a stored file to an account.
    func add(_ id: BlobID, size: Int, to account: Identifier = .fresh()) async throws {
        let row = BlobRow(
            account: account,
            id: id,
            size: Int64(size),
            type: "image/png",
            createdAt: .zero
        )
        let command = Command(keys: []) { _ in Decision(true, changes: [.put(.blob(row))]) }
        _ = try await perform(command).get()
    }
}
