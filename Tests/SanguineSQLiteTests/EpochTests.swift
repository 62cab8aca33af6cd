import Foundation
import GRDB
import SanguineAuthority
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineSQLite

/// The epoch of a database.
@Suite("SQLite storage: the epoch", .bounded)
struct EpochTests {
    private func epoch(of folder: TestFolder) async throws -> Epoch {
        let storage = try SQLiteStorage(folder: folder.url)
        await storage.close()
        return storage.epoch
    }

    private func copy(_ folder: TestFolder, to other: TestFolder) throws {
        try FileManager.default.copyItem(at: folder.url, to: other.url)
    }

    @Test func `a database keeps its epoch when it is reopened, even after a crash`()
        async throws
    {
        let folder = TestFolder()
        let first = try await epoch(of: folder)
        #expect(try await epoch(of: folder) == first)
        let storage = try SQLiteStorage(folder: folder.url)
        try await storage.spend(from: .fresh(), key: "a")
        let crashed = try Data(contentsOf: folder.file("sanguine.history"))
        await storage.close()
        // The file as it is after a process ended without a clean close.
        try crashed.write(to: folder.file("sanguine.history"))
        #expect(String(decoding: crashed, as: UTF8.self).hasSuffix(" open\n"))
        #expect(try await epoch(of: folder) == first)
    }

    /// Returns the notices of opening the folder.
    private func notices(of folder: TestFolder) async throws -> [String] {
        let storage = try SQLiteStorage(folder: folder.url)
        await storage.close()
        return storage.notices
    }

    @Test func `a notice explains a new epoch, and is absent otherwise`()
        async throws
    {
        let folder = TestFolder()
        for _ in 1...2 { #expect(try await notices(of: folder) == []) }
        try run("touch \"$1\"", folder.file("sanguine.sqlite"))
        #expect(try await notices(of: folder).first?.contains("it was modified") == true)
        try run("chmod 600 \"$1\"", folder.file("sanguine.sqlite"))
        #expect(try await notices(of: folder).first?.contains("its permissions") == true)
        try run("cp \"$1\" \"$1.new\"; mv \"$1.new\" \"$1\"", folder.file("sanguine.sqlite"))
        #expect(try await notices(of: folder).first?.contains("another file") == true)
        try FileManager.default.removeItem(at: folder.file("sanguine.history"))
        #expect(try await notices(of: folder).first?.contains("unknown") == true)
        #expect(try await notices(of: folder) == [])
    }

    @Test func `a notice says that the history could not be written`() async throws {
        let folder = TestFolder()
        _ = try await epoch(of: folder)
        let history = folder.file("sanguine.history")
        try FileManager.default.removeItem(at: history)
        try FileManager.default.createDirectory(at: history, withIntermediateDirectories: true)
        for _ in 1...2 {
            let notices = try await notices(of: folder)
            #expect(notices.count == 2)
            #expect(notices.last?.contains("sanguine.history") == true)
        }
    }

    @Test func `two databases have different epochs`() async throws {
        #expect(try await epoch(of: TestFolder()) != epoch(of: TestFolder()))
    }

    @Test func `a moved folder keeps its epoch`() async throws {
        let (folder, other) = (TestFolder(), TestFolder())
        let first = try await epoch(of: folder)
        try FileManager.default.moveItem(at: folder.url, to: other.url)
        #expect(try await epoch(of: other) == first)
    }

    @Test func `a copy of a stopped folder that replaces it gets a new epoch`() async throws {
        let (folder, backup) = (TestFolder(), TestFolder())
        let first = try await epoch(of: folder)
        try copy(folder, to: backup)
        #expect(try await epoch(of: folder) == first)
        try FileManager.default.removeItem(at: folder.url)
        try copy(backup, to: folder)
        let second = try await epoch(of: folder)
        #expect(second != first)
        #expect(try await epoch(of: folder) == second, "it is assigned once")
    }

    @Test(arguments: [true, false])
    func `a copy that is written into the old file gets a new epoch`(
        withHistory: Bool
    ) async throws {
        let (folder, backup) = (TestFolder(), TestFolder())
        let first = try await epoch(of: folder)
        try copy(folder, to: backup)
        let storage = try SQLiteStorage(folder: folder.url)
        try await storage.spend(from: .fresh(), key: "a")
        await storage.close()
        for name in ["sanguine.sqlite"] + (withHistory ? ["sanguine.history"] : []) {
            let file = try FileHandle(forWritingTo: folder.file(name))
            let bytes = try Data(contentsOf: backup.file(name))
            try file.truncate(atOffset: 0)
            try file.write(contentsOf: bytes)
            try file.close()
        }
        #expect(try await epoch(of: folder) != first)
    }

    /// Runs a shell command with a time limit of 30 seconds.
    private func run(_ command: String, _ arguments: URL...) throws {
        let process = Process()
        process.executableURL = URL(filePath: "/bin/sh")
        process.arguments = ["-c", command, "sh"] + arguments.map(\.path)
        let end = DispatchSemaphore(value: 0)
        process.terminationHandler = { _ in end.signal() }
        try process.run()
        try #require(end.wait(timeout: .now() + 30) == .success, "the end of \(command)")
        #expect(process.terminationStatus == 0, "\(command)")
    }

    @Test(arguments: [false, true])
    func `a copy with its times that replaces a removed folder gets a new epoch`(
        afterCrash: Bool
    ) async throws {
        // File systems often, but not always, reuse the number of a removed file.
        for _ in 1...5 {
            let (folder, backup) = (TestFolder(), TestFolder())
            let first = try await epoch(of: folder)
            let storage = try SQLiteStorage(folder: folder.url)
            if afterCrash {
                try await storage.spend(from: .fresh(), key: "a")
                try run("cp -a \"$1\" \"$2\"", folder.url, backup.url)
                await storage.close()
            } else {
                await storage.close()
                try run("cp -a \"$1\" \"$2\"", folder.url, backup.url)
            }
            try run("rm -rf \"$1\" && cp -a \"$2\" \"$1\"", folder.url, backup.url)
            let second = try await epoch(of: folder)
            #expect(second != first)
            #expect(try await epoch(of: folder) == second, "it is assigned once")
        }
    }

    @Test func `a copy with its times that is written into the old files gets a new epoch`()
        async throws
    {
        let (folder, backup) = (TestFolder(), TestFolder())
        let first = try await epoch(of: folder)
        try run("cp -a \"$1\" \"$2\"", folder.url, backup.url)
        let storage = try SQLiteStorage(folder: folder.url)
        try await storage.spend(from: .fresh(), key: "a")
        await storage.close()
        try run("cp -p \"$2\"/* \"$1\"", folder.url, backup.url)
        #expect(try await epoch(of: folder) != first)
    }

    @Test func `reading a stopped folder preserves its epoch`() async throws {
        let (folder, backup) = (TestFolder(), TestFolder())
        let first = try await epoch(of: folder)
        let inspection = try SQLiteStorage.inspect(folder: folder.url)
        _ = try await inspection.examine()
        await inspection.close()
        _ = try await FolderCopy(of: folder.url, to: backup.url).make()
        try run("cat \"$1\"/* > /dev/null", folder.url)
        #expect(try await epoch(of: folder) == first)
    }

    @Test func `a database without its history file is treated as a copy`() async throws {
        let folder = TestFolder()
        let first = try await epoch(of: folder)
        try FileManager.default.removeItem(at: folder.file("sanguine.history"))
        #expect(try await epoch(of: folder) != first)
        let second = try await epoch(of: folder)
        try Data("what is this".utf8).write(to: folder.file("sanguine.history"))
        #expect(try await epoch(of: folder) != second)
    }

    @Test func `a new epoch can be assigned only to a stopped folder`() async throws {
        let folder = TestFolder()
        #expect(throws: SQLiteStorageError.self) {
            try SQLiteStorage.assignNewEpoch(at: folder.url)
        }
        let account = Identifier.fresh()
        let storage = try SQLiteStorage(folder: folder.url)
        try await storage.spend(from: account, key: "a")
        #expect(throws: SQLiteStorageError.self) {
            try SQLiteStorage.assignNewEpoch(at: folder.url)
        }
        await storage.close()
        let assigned = try SQLiteStorage.assignNewEpoch(at: folder.url)
        #expect(assigned != storage.epoch)
        let again = try SQLiteStorage(folder: folder.url)
        #expect(again.epoch == assigned)
        #expect(try await again.available(account) == 999_999)
        await again.close()
    }

    @Test func `upgrading a database of an older version assigns an epoch`() async throws {
        let folder = TestFolder()
        try folder.create()
        let old = Schema(steps: Array(Schema.current.steps.prefix(6)))
        let queue = try Connections.writer(
            in: DataFolder(folder.url),
            options: SQLiteStorageOptions(),
            mayBeEmpty: true,
            schema: old
        )
        try queue.close()
        let first = try await epoch(of: folder)
        #expect(try await epoch(of: folder) == first)
    }
}
