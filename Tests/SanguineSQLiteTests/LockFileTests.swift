import Foundation
import SanguineAuthority
import SanguineModel
import TestSupport
import Testing

@testable import SanguineSQLite

/// The lock of a data folder.
@Suite("SQLite storage: lock file", .bounded)
struct LockFileTests {
    @Test func `removing the lock file does not release the lock`() async throws {
        let folder = TestFolder()
        let storage = try SQLiteStorage(folder: folder.url)
        try FileManager.default.removeItem(at: folder.url.appending(path: "sanguine.lock"))

        #expect(throws: SQLiteStorageError.self) {
            _ = try SQLiteStorage(folder: folder.url)
        }
        await storage.close()
        await (try SQLiteStorage(folder: folder.url)).close()
    }

    @Test func `a second opening is refused and names the process`() async throws {
        let folder = TestFolder()
        let storage = try SQLiteStorage(folder: folder.url)
        let refusal = #expect(throws: SQLiteStorageError.self) {
            _ = try SQLiteStorage(folder: folder.url)
        }
        guard case .locked(_, let process) = refusal else {
            Issue.record("It was refused with \(String(describing: refusal)).")
            return
        }
        #expect(process == ProcessInfo.processInfo.processIdentifier)
        #expect(refusal?.description.contains("Stop it first") == true)
        // The first one is not affected.
        try await storage.spend(from: .fresh(), key: "a")
        await storage.close()
    }

    @Test func `closing releases the lock`() async throws {
        let folder = TestFolder()
        let account = Identifier.fresh()
        for number in 1...3 {
            let storage = try SQLiteStorage(folder: folder.url)
            let left = try await storage.spend(from: account, key: "\(number)")
            #expect(left == 1_000_000 - Int64(number))
            await storage.close()
        }
    }

    @Test func `the lock file of a crashed process locks nothing`() async throws {
        let folder = TestFolder()
        try folder.create()
        try Data("4194000\n".utf8).write(to: folder.file("sanguine.lock"))
        let storage = try SQLiteStorage(folder: folder.url)
        let text = try String(contentsOf: folder.file("sanguine.lock"), encoding: .utf8)
        #expect(text == "\(ProcessInfo.processInfo.processIdentifier)\n")
        await storage.close()
    }

    @Test func `a lock file without a process id still locks`() throws {
        let folder = DataFolder(TestFolder().url)
        try folder.create()
        defer { try? FileManager.default.removeItem(atPath: folder.path) }
        let lock = try LockFile(in: folder)
        try Data().write(to: URL(filePath: folder.lockPath))
        let refusal = SQLiteStorageError.locked(folder: folder.path, process: nil)
        #expect(throws: refusal) { _ = try LockFile(in: folder) }
        lock.release()
        lock.release()
        _ = try LockFile(in: folder)
    }
}
