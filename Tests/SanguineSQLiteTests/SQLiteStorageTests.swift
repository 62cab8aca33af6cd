import Foundation
import GRDB
import SanguineAuthority
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineSQLite

/// Opening, closing and reopening a data folder.
@Suite("SQLite storage: the folder", .bounded)
struct SQLiteStorageTests {
    @Test func `reopening finds all answered commands`() async throws {
        let folder = TestFolder()
        let account = Identifier.fresh()
        let first = try SQLiteStorage(folder: folder.url)
        for number in 0..<20 { try await first.spend(from: account, key: "key \(number)") }
        await first.close()

        let second = try SQLiteStorage(folder: folder.url)
        #expect(try await second.available(account) == 999_980)
        #expect(try await second.transfers(of: account, before: nil, limit: 100).count == 21)
        let operation = try await second.load([.operation(account, key: "key 19")])
        #expect(operation.operation(account, key: "key 19") != nil)
        #expect(try await second.verifyLedger().differences == [])
        await second.close()
    }

    @Test func `a clean close leaves a single database file and no log`() async throws {
        let folder = TestFolder()
        let storage = try SQLiteStorage(folder: folder.url)
        try await storage.spend(from: .fresh(), key: "a")
        await storage.close()
        let files = try FileManager.default.contentsOfDirectory(atPath: folder.url.path)
        #expect(Set(files) == ["sanguine.sqlite", "sanguine.lock", "sanguine.history"])
    }

    @Test(arguments: [true, false])
    func `a storage is closed after its body, even after an error`(fails: Bool) async throws {
        struct Failed: Error {}
        let folder = TestFolder()
        let account = Identifier.fresh()
        do {
            let available = try await SQLiteStorage.with(folder: folder.url) { storage in
                try await storage.spend(from: account, key: "a")
                if fails { throw Failed() }
                return try await storage.available(account)
            }
            #expect(available == 999_999 && !fails)
        } catch is Failed {
            #expect(fails)
        }
        // A folder that is still in use cannot be opened again.
        let again = try SQLiteStorage(folder: folder.url)
        #expect(try await again.available(account) == 999_999)
        await again.close()
    }

    @Test func `the folder and its files are accessible only to their owner`() async throws {
        let folder = TestFolder()
        let storage = try SQLiteStorage(folder: folder.url)
        try await storage.spend(from: .fresh(), key: "a")
        #expect(try folder.mode() == 0o700)
        for name in ["", "-wal", "-shm"] {
            #expect(try folder.mode(of: "sanguine.sqlite" + name) == 0o600)
        }
        #expect(try folder.mode(of: "sanguine.lock") == 0o600)
        await storage.close()
    }

    @Test func `a database that others could read is made private`() async throws {
        let folder = TestFolder()
        await (try SQLiteStorage(folder: folder.url)).close()
        try FileManager.default.setAttributes(
            [.posixPermissions: 0o644],
            ofItemAtPath: folder.file("sanguine.sqlite").path
        )
        await (try SQLiteStorage(folder: folder.url)).close()
        #expect(try folder.mode(of: "sanguine.sqlite") == 0o600)
    }

    @Test func `the writer is durable and checkpoints automatically`() async throws {
        let folder = TestFolder()
        let storage = try SQLiteStorage(folder: folder.url)
        #expect(try await storage.valueOnWriter("PRAGMA journal_mode") == "wal")
        #expect(try await storage.valueOnWriter("PRAGMA synchronous") == "2")
        #expect(try await storage.valueOnWriter("PRAGMA fullfsync") == "1")
        #expect(try await storage.valueOnWriter("PRAGMA wal_autocheckpoint") == "4000")
        #expect(try await storage.valueOnWriter("PRAGMA busy_timeout") == "5000")
        await storage.close()
    }

    @Test func `a reader can neither write nor checkpoint`() async throws {
        let folder = TestFolder()
        let storage = try SQLiteStorage(folder: folder.url)
        try await storage.spend(from: .fresh(), key: "a")
        let before = try folder.size(of: "sanguine.sqlite")
        let reader = try Connections.reader(
            in: DataFolder(folder.url),
            options: SQLiteStorageOptions(),
            schema: .current
        )
        #expect(throws: DatabaseError.self) {
            try reader.inDatabase { try $0.execute(sql: "DELETE FROM balances") }
        }
        try? reader.inDatabase { try $0.execute(sql: "PRAGMA wal_checkpoint(TRUNCATE)") }
        try reader.close()
        #expect(try folder.size(of: "sanguine.sqlite") == before)
        #expect(try #require(try folder.size(of: "sanguine.sqlite-wal")) > 0)
        await storage.close()
    }

    @Test func `the ledger cannot be changed by any statement`() async throws {
        let folder = TestFolder()
        let storage = try SQLiteStorage(folder: folder.url)
        try await storage.spend(from: .fresh(), key: "a")
        for sql in [
            "UPDATE transfers SET amount = 0", "DELETE FROM transfers",
            "INSERT OR REPLACE INTO transfers SELECT * FROM transfers",
            "REPLACE INTO transfers SELECT * FROM transfers ORDER BY number DESC LIMIT 1",
        ] {
            let error = await #expect(throws: StorageError.self) {
                try await storage.onWriter(sql)
            }
            #expect(error?.description.contains("append-only") == true)
        }
        #expect(try await storage.verifyLedger().transfers == 2)
        await storage.close()
    }

    @Test func `a folder that cannot be created is refused with an explanation`() throws {
        let folder = TestFolder()
        try folder.create()
        try Data().write(to: folder.file("a-file"))
        let error = #expect(throws: SQLiteStorageError.self) {
            _ = try SQLiteStorage(folder: folder.file("a-file/data"))
        }
        #expect(error?.description.contains("a-file") == true)
    }

    @Test(arguments: ["no database", "no first page", "half a database"])
    func `a database that cannot be opened is reported as damaged with a remedy`(
        damage: String
    ) async throws {
        let (folder, copies) = (TestFolder(), TestFolder())
        try copies.create()
        _ = try await DamageTests.fill(folder)
        let file = folder.file("sanguine.sqlite")
        let whole = try Data(contentsOf: file)
        let left =
            switch damage {
            case "no database": Data(repeating: 7, count: whole.count)
            case "no first page": Data(count: 4_096) + whole.dropFirst(4_096)
            default: whole.prefix(whole.count / 2)
            }
        try left.write(to: file)
        for open in [
            { _ = try SQLiteStorage(folder: folder.url) },
            { _ = try SQLiteStorage.inspect(folder: folder.url) },
        ] {
            let error = #expect(throws: SQLiteStorageError.self) { try open() }
            let said = error?.description ?? ""
            #expect(said.contains("is damaged"), "\(said)")
            #expect(said.contains("'sanguine restore"), "\(said)")
        }
        let copy = FolderCopy(of: folder.url, to: copies.file("copy"))
        let error = await #expect(throws: FolderCopyError.self) { try await copy.make() }
        #expect(error?.description.contains("is damaged") == true, "\(String(describing: error))")
    }

    @Test func `a file that is not a database is refused and not changed`() throws {
        let folder = TestFolder()
        try folder.create()
        let text = Data(String(repeating: "not a database ", count: 100).utf8)
        try text.write(to: folder.file("sanguine.sqlite"))
        #expect(throws: SQLiteStorageError.self) { _ = try SQLiteStorage(folder: folder.url) }
        #expect(try Data(contentsOf: folder.file("sanguine.sqlite")) == text)
    }

    @Test func `a storage that is released without closing releases the folder`() async throws {
        let folder = TestFolder()
        let account = Identifier.fresh()
        do {
            let storage = try SQLiteStorage(folder: folder.url)
            try await storage.spend(from: account, key: "a")
        }
        var reopened: SQLiteStorage?
        try await eventually("the folder is free") {
            do throws(SQLiteStorageError) {
                reopened = try SQLiteStorage(folder: folder.url)
            } catch {
                guard case .locked = error else { throw error }
            }
            return reopened != nil
        }
        #expect(try await reopened?.available(account) == 999_999)
        await reopened?.close()
    }
}

/// Migration steps.
@Suite("SQLite storage: migrations", .bounded)
struct SQLiteMigrationTests {
    private static let next = Schema(
        steps: Schema.current.steps + [
            "ALTER TABLE devices ADD COLUMN model TEXT; CREATE TABLE notes (id BLOB) STRICT;"
        ]
    )

    private func open(_ folder: TestFolder, _ schema: Schema) throws -> SQLiteStorage {
        try SQLiteStorage(folder: folder.url, options: SQLiteStorageOptions(), schema: schema)
    }

    @Test func `an older database is migrated to the newest step with its data`() async throws {
        let folder = TestFolder()
        let account = Identifier.fresh()
        let old = try open(folder, .current)
        try await old.spend(from: account, key: "a")
        await old.close()

        let new = try open(folder, Self.next)
        #expect(try await new.valueOnWriter("PRAGMA user_version") == "\(Self.next.version)")
        #expect(try await new.valueOnWriter("SELECT count(*) FROM notes") == "0")
        #expect(try await new.available(account) == 999_999)
        await new.close()
    }

    @Test func `sessions of an older database go on, and devices open no registered account`()
        async throws
    {
        let folder = TestFolder()
        try DataFolder(folder.url).create()
        let before = Schema(steps: Array(Schema.current.steps.prefix(14)))
        let old = try DatabaseQueue(path: folder.file("sanguine.sqlite").path)
        try await old.writeWithoutTransaction { try before.migrate($0) }
        for (account, kind) in [("01", "guest"), ("02", "registered")] {
            let insertion = """
                INSERT INTO accounts
                    (id, kind, time_zone, language, plan, settings, created_at, seq)
                VALUES (x'\(account)', '\(kind)', 'UTC', 'en', 'free', x'00', 1, 1);
                INSERT INTO devices (id, secret_hash, account, created_at)
                VALUES ('device of \(kind)', x'00', x'\(account)', 0);
                INSERT INTO sessions (id, account, generation, rotated_at, expires_at)
                VALUES (x'\(account)', x'\(account)', 0, 0, 0);
                """
            try await old.writeWithoutTransaction { try $0.execute(sql: insertion) }
        }
        try old.close()

        let new = try open(folder, .current)
        func value(_ columns: String, _ kind: String) async throws -> String? {
            try await new.valueOnWriter(
                """
                SELECT \(columns) FROM accounts JOIN sessions ON sessions.account = accounts.id
                JOIN devices ON devices.account = accounts.id WHERE kind = '\(kind)'
                """
            )
        }
        #expect(try await value("sessions.era = accounts.era", "guest") == "1")
        #expect(try await value("sessions.device", "guest") == "device of guest")
        #expect(try await value("sessions.era = accounts.era", "registered") == "1")
        #expect(try await value("devices.era = accounts.era", "registered") == "0")
        #expect(try await value("sessions.device IS NULL", "registered") == "1")
        await new.close()
    }

    @Test func `a newer database is refused with both versions`() async throws {
        let folder = TestFolder()
        await (try open(folder, Self.next)).close()
        let refusal = SQLiteStorageError.schemaTooNew(
            found: Self.next.version,
            known: Schema.current.version
        )
        #expect(throws: refusal) { _ = try SQLiteStorage(folder: folder.url) }
        // The refusal released the lock, so the error is the same and not `locked`.
        #expect(throws: refusal) { _ = try SQLiteStorage(folder: folder.url) }
        #expect(throws: refusal) { _ = try SQLiteStorage.inspect(folder: folder.url) }
        #expect(refusal.description.contains("schema \(Self.next.version)"))
        await (try open(folder, Self.next)).close()
    }

    @Test func `an older database is not upgraded by an inspection`() async throws {
        let folder = TestFolder()
        await (try open(folder, .current)).close()
        let refusal = SQLiteStorageError.schemaTooOld(
            found: Schema.current.version,
            known: Self.next.version
        )
        #expect(throws: refusal) {
            _ = try SQLiteInspection(folder: DataFolder(folder.url), schema: Self.next)
        }
        await (try open(folder, .current)).close()
    }

    @Test func `a failed step leaves the database unchanged`() async throws {
        let folder = TestFolder()
        await (try open(folder, .current)).close()
        let broken = Schema(
            steps: Schema.current.steps + ["CREATE TABLE half (a) ; INSERT INTO nowhere VALUES (1)"]
        )
        #expect(throws: SQLiteStorageError.self) { _ = try open(folder, broken) }
        let storage = try open(folder, .current)
        let sql = "SELECT count(*) FROM sqlite_schema WHERE name = 'half'"
        #expect(try await storage.valueOnWriter(sql) == "0")
        await storage.close()
    }
}
