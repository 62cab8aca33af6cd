import Foundation
import SanguineAuthority
import SanguineModel
import Synchronization
import TestSupport
import Testing

@testable import SanguineSQLite

/// Records the answered commands, and copies the files as a crash would leave them.
private final class CrashScene: Sendable {
    private struct State {
        var answered: [String] = []
        var answeredAtCrash: Set<String>?
    }

    private let state = Mutex(State())
    private let folder: TestFolder
    private let copy: TestFolder
    private let trigger: Int

    init(from folder: TestFolder, to copy: TestFolder, answered trigger: Int) {
        self.folder = folder
        self.copy = copy
        self.trigger = trigger
    }

    var answeredAtCrash: Set<String>? { state.withLock { $0.answeredAtCrash } }

    func wasAnswered(_ key: String) {
        state.withLock { $0.answered.append(key) }
    }

    /// Copies the files after enough commands were answered.
    ///
    /// Call it on the writer's thread.
    @Sendable func shoot() {
        state.withLock { state in
            guard state.answeredAtCrash == nil, state.answered.count >= trigger else { return }
            do {
                try folder.copyDatabase(to: copy)
                state.answeredAtCrash = Set(state.answered)
            } catch {
                Issue.record(error)
            }
        }
    }
}

/// The files after a crash, and inspections of them.
@Suite("SQLite storage: crash and inspection", .bounded(.seconds(300)))
struct CrashTests {
    /// Copies the files during a transaction, after earlier commands were answered.
    ///
    /// A failure contains the number of answered commands. With small logs the copy is made before,
    /// during and after checkpoints.
    @Test(arguments: [1, 2, 50, 333, 700], [2, 40, 4_000])
    func `after a crash every answered command is stored once`(
        answered: Int,
        checkpointPages: Int
    ) async throws {
        let (folder, copy) = (TestFolder(), TestFolder())
        var options = SQLiteStorageOptions()
        options.batchedCommands = 16
        options.checkpointPages = checkpointPages
        let storage = try SQLiteStorage(folder: folder.url, options: options)
        let accounts = (0..<5).map { _ in Identifier.fresh() }
        let scene = CrashScene(from: folder, to: copy, answered: answered)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for caller in 0..<20 {
                group.addTask {
                    for turn in 0..<45 {
                        let key = "\(caller).\(turn)"
                        try await storage.spend(
                            from: accounts[caller % 5],
                            key: key,
                            whileDeciding: scene.shoot
                        )
                        scene.wasAnswered(key)
                    }
                }
            }
            try await group.waitForAll()
        }
        await storage.close()
        let keys = try #require(scene.answeredAtCrash)

        let survivor = try SQLiteStorage(folder: copy.url)
        let report = try await survivor.verifyLedger()
        #expect(report.differences == [])
        var operations = 0
        for caller in 0..<20 {
            for turn in 0..<45 {
                let (account, key) = (accounts[caller % 5], "\(caller).\(turn)")
                let loaded = try await survivor.load([.operation(account, key: key)])
                if loaded.operation(account, key: key) != nil {
                    operations += 1
                } else {
                    #expect(!keys.contains(key), "\(key) was answered and is missing")
                }
            }
        }
        // One grant for each account, and one spend for each operation.
        #expect(report.transfers == operations + report.accounts)
        await survivor.close()
    }

    @Test func `an inspection works next to a server, and sees its commits`() async throws {
        let folder = TestFolder()
        let account = Identifier.fresh()
        let storage = try SQLiteStorage(folder: folder.url)
        try await storage.spend(from: account, key: "a")
        let inspection = try SQLiteStorage.inspect(folder: folder.url)
        #expect(try await inspection.examine().ledger.transfers == 2)
        try await storage.spend(from: account, key: "b")
        #expect(try await inspection.examine().ledger.transfers == 3)
        let loaded = try await inspection.load([.balance(account), .account(account)])
        #expect(loaded.balance(account)?.available == 999_998)
        #expect(try await inspection.transfers(of: account, limit: 10).count == 3)
        #expect(try await inspection.account(email: "nobody@example.org") == nil)
        await inspection.close()
        await #expect(throws: StorageError.closed) {
            try await inspection.load([.balance(account)])
        }
        await #expect(throws: StorageError.closed) { try await inspection.examine().ledger }
        try await storage.spend(from: account, key: "c")
        await storage.close()
    }

    @Test func `an inspection after a crash reads the log without changing it`() async throws {
        let (folder, copy) = (TestFolder(), TestFolder())
        let account = Identifier.fresh()
        let storage = try SQLiteStorage(folder: folder.url)
        try await storage.spend(from: account, key: "a")
        try await storage.writer.run { _ throws(SQLFailure) in
            do {
                try folder.copyDatabase(to: copy)
            } catch {
                throw SQLFailure(code: 0, message: "\(error)")
            }
        }
        await storage.close()
        let names = ["sanguine.sqlite", "sanguine.sqlite-wal"]
        let before = try names.map { try Data(contentsOf: copy.file($0)) }
        let inspection = try SQLiteStorage.inspect(folder: copy.url)
        #expect(
            try await inspection.examine().ledger
                == .init(accounts: 1, transfers: 2, differences: [])
        )
        await inspection.close()
        #expect(try names.map { try Data(contentsOf: copy.file($0)) } == before)
        #expect(!FileManager.default.fileExists(atPath: copy.file("sanguine.lock").path))
    }

    @Test func `an inspection finds an inserted fault`() async throws {
        let folder = TestFolder()
        let account = Identifier.fresh()
        let storage = try SQLiteStorage(folder: folder.url)
        try await storage.spend(from: account, key: "a")
        try await storage.onWriter("UPDATE balances SET available = available + 1")
        await storage.close()
        let inspection = try SQLiteStorage.inspect(folder: folder.url)
        let report = try await inspection.examine().ledger
        #expect(report.differences.map(\.account) == [account])
        await inspection.close()
    }

    @Test func `an inspection of no data is refused and creates nothing`() throws {
        let folder = TestFolder()
        let path = DataFolder(folder.url).path
        #expect(throws: SQLiteStorageError.noData(folder: path)) {
            _ = try SQLiteStorage.inspect(folder: folder.url)
        }
        #expect(!FileManager.default.fileExists(atPath: path))
        try folder.create()
        #expect(throws: SQLiteStorageError.noData(folder: path)) {
            _ = try SQLiteStorage.inspect(folder: folder.url)
        }
        #expect(try FileManager.default.contentsOfDirectory(atPath: path) == [])
    }

    @Test func `a damaged row results in an error message instead of a crash`() async throws {
        let folder = TestFolder()
        let account = Identifier.fresh()
        let storage = try SQLiteStorage(folder: folder.url)
        try await storage.spend(from: account, key: "a")
        try await storage.onWriter("UPDATE operations SET state = 77")
        let error = await #expect(throws: StorageError.self) {
            try await storage.load([.operation(account, key: "a")])
        }
        #expect(error?.description.contains("operation's state") == true)
        #expect(try await storage.available(account) == 999_999)
        await storage.close()
    }
}
