import Foundation
import SanguineAuthority
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineSQLite

/// Transactions of many commands, including failed ones.
@Suite("SQLite storage: group commit", .bounded)
struct GroupCommitTests {
    private let folder = TestFolder()

    @Test(arguments: [(300, 1), (512, 1), (513, 2), (1_200, 3)])
    func `waiting commands share a commit`(commands: Int, commits: Int) async throws {
        let storage = try SQLiteStorage(folder: folder.url)
        let account = Identifier.fresh()
        let gate = try await storage.blockWriter()
        let calls = (0..<commands).map { number in
            Task { try await storage.spend(from: account, key: "key \(number)") }
        }
        try await storage.untilQueued(commands)
        gate.open()
        var answers: Set<Int64> = []
        for call in calls { answers.insert(try await call.finished()) }
        #expect(answers.count == commands)
        #expect(storage.writer.commits == commits)
        #expect(storage.writer.commands == commands)
        #expect(try await storage.verifyLedger().differences == [])
        await storage.close()
    }

    @Test(arguments: ["ABORT", "FAIL", "ROLLBACK"])
    func `a command that cannot be stored does not affect others`(how: String) async throws {
        let storage = try SQLiteStorage(folder: folder.url)
        try await storage.onWriter(
            """
            CREATE TEMP TRIGGER poison BEFORE INSERT ON transfers WHEN NEW.reason = 'poison'
            BEGIN SELECT RAISE(\(how), 'poisoned'); END
            """
        )
        let account = Identifier.fresh()
        let gate = try await storage.blockWriter()
        let calls = (0..<40).map { number in
            Task {
                try await storage.spend(
                    from: account,
                    key: "key \(number)",
                    reason: number % 13 == 5 ? "poison" : ""
                )
            }
        }
        try await storage.untilQueued(40)
        gate.open()
        var stored: Set<Int64> = []
        for (number, call) in calls.enumerated() {
            if number % 13 == 5 {
                let error = await #expect(throws: StorageError.self) { try await call.finished() }
                guard case .failed(let reason) = error else {
                    Issue.record("It failed with \(String(describing: error)).")
                    continue
                }
                #expect(reason.contains("poisoned"))
            } else {
                stored.insert(try await call.finished())
            }
        }
        // 5, 18 and 31 are poisoned; the others were applied in sequence, without gaps.
        #expect(stored == Set(999_963...999_999))
        #expect(try await storage.available(account) == 999_963)
        #expect(try await storage.verifyLedger().differences == [])
        await storage.close()
    }

    @Test func `a refusal in a group changes nothing and does not delay others`() async throws {
        let storage = try SQLiteStorage(folder: folder.url)
        let account = Identifier.fresh()
        let gate = try await storage.blockWriter()
        let calls = (0..<10).map { number in
            Task { try await storage.spend(from: account, key: "key \(number / 2)") }
        }
        try await storage.untilQueued(10)
        gate.open()
        var refusals = 0
        for call in calls {
            do { _ = try await call.finished() } catch is Problem { refusals += 1 }
        }
        #expect(refusals == 5, "each second command saw the first one's uncommitted operation")
        #expect(storage.writer.commits == 1)
        #expect(try await storage.available(account) == 999_995)
        await storage.close()
    }

    @Test func `a failed commit fails all of its commands and leaves nothing cached`()
        async throws
    {
        let storage = try SQLiteStorage(folder: folder.url)
        let account = Identifier.fresh()
        try await storage.spend(from: account, key: "before")
        // A foreign key that is checked only at the commit.
        try await storage.onWriter(
            """
            PRAGMA foreign_keys = ON;
            CREATE TABLE parent (id INTEGER PRIMARY KEY);
            CREATE TABLE child (id INTEGER REFERENCES parent DEFERRABLE INITIALLY DEFERRED);
            CREATE TEMP TRIGGER late BEFORE INSERT ON transfers WHEN NEW.reason = 'late'
            BEGIN INSERT INTO child VALUES (1); END
            """
        )
        let gate = try await storage.blockWriter()
        let calls = ["late", "innocent"].map { reason in
            Task { try await storage.spend(from: account, key: reason, reason: reason) }
        }
        try await storage.untilQueued(2)
        gate.open()
        for call in calls {
            let error = await #expect(throws: StorageError.self) { try await call.finished() }
            guard case .failed(let reason) = error else {
                Issue.record("It failed with \(String(describing: error)).")
                continue
            }
            #expect(reason.contains("FOREIGN KEY"))
        }
        #expect(storage.cache.loaded([.balance(account)]) == nil)
        #expect(try await storage.available(account) == 999_999)
        #expect(try await storage.spend(from: account, key: "innocent") == 999_998)
        #expect(try await storage.verifyLedger().differences == [])
        await storage.close()
    }

    @Test func `only an I/O error during a commit leaves the outcome unknown`() {
        for code in [10, 10 | 4 << 8, 10 | 8 << 8] as [Int32] {
            let failure = SQLFailure(code: code, message: "disk I/O error")
            #expect(failure.asCommitError == .unknownOutcome("disk I/O error (SQLite \(code))"))
        }
        let full = SQLFailure(code: 13, message: "database or disk is full")
        #expect(full.asCommitError == .full("database or disk is full (SQLite 13)"))
        let other = SQLFailure(code: 19, message: "constraint failed")
        #expect(other.asCommitError == .failed("constraint failed (SQLite 19)"))
    }

    @Test func `a full disk fails only commands that need space, until there is some`()
        async throws
    {
        let storage = try SQLiteStorage(folder: folder.url)
        let account = Identifier.fresh()
        try await storage.spend(from: account, key: "before")
        // SQLite responds as if the disk were full.
        try await storage.onWriter("PRAGMA max_page_count = 1")
        let large = OperationRow(
            account: account,
            key: "large",
            fingerprint: [UInt8](repeating: 1, count: 1 << 16),
            state: .running(hold: nil),
            at: .zero
        )
        let store = Command(keys: []) { _ throws(Problem) in
            Decision((), changes: [.put(.operation(large))])
        }
        let error = await #expect(throws: StorageError.self) {
            _ = try await storage.perform(store)
        }
        #expect(error?.description.contains("full") == true)
        #expect(
            try await storage.load([.operation(account, key: "large")]).operation(
                account,
                key: "large"
            ) == nil
        )
        #expect(try await storage.available(account) == 999_999)

        try await storage.onWriter("PRAGMA max_page_count = 1000000")
        try await storage.perform(store).get()
        try await storage.spend(from: account, key: "after")
        #expect(try await storage.verifyLedger().differences == [])
        await storage.close()
    }

    @Test func `a full queue refuses new commands with a retry time and keeps the queued ones`()
        async throws
    {
        var options = SQLiteStorageOptions()
        options.queuedCommands = 3
        options.retryAfterSeconds = 7
        let storage = try SQLiteStorage(folder: folder.url, options: options)
        let account = Identifier.fresh()
        let gate = try await storage.blockWriter()
        let calls = (0..<3).map { number in
            Task { try await storage.spend(from: account, key: "key \(number)") }
        }
        try await storage.untilQueued(3)
        await #expect(throws: StorageError.overloaded(retryAfterSeconds: 7)) {
            try await storage.spend(from: account, key: "one too many")
        }
        gate.open()
        for call in calls { _ = try await call.finished() }
        #expect(try await storage.available(account) == 999_997)
        await storage.close()
    }

    @Test func `an account gets only its share of the queue, which is released by answers`()
        async throws
    {
        var options = SQLiteStorageOptions()
        options.queuedCommands = 5
        options.queuedCommandsPerAccount = 2
        let storage = try SQLiteStorage(folder: folder.url, options: options)
        let (greedy, other) = (Identifier.fresh(), Identifier.fresh())
        let gate = try await storage.blockWriter()
        let calls = (0..<2).map { number in
            Task { try await storage.spend(from: greedy, key: "key \(number)") }
        }
        try await storage.untilQueued(2)
        await #expect(throws: StorageError.overloaded(retryAfterSeconds: 1)) {
            try await storage.spend(from: greedy, key: "one too many")
        }
        let theirs = (0..<2).map { number in
            Task { try await storage.spend(from: other, key: "key \(number)") }
        }
        try await storage.untilQueued(4)
        gate.open()
        for call in calls + theirs { _ = try await call.finished() }
        #expect(try await storage.spend(from: greedy, key: "again") == 999_997)
        await storage.close()
    }

    @Test func `reads over the limit are refused`() async throws {
        var options = SQLiteStorageOptions()
        options.queuedReads = 0
        let storage = try SQLiteStorage(folder: folder.url, options: options)
        let account = Identifier.fresh()
        try await storage.spend(from: account, key: "a")
        await #expect(throws: StorageError.overloaded(retryAfterSeconds: 1)) {
            try await storage.load([.hold(account)])
        }
        #expect(try await storage.available(account) == 999_999, "memory needs no connection")
        await storage.close()
    }
}
