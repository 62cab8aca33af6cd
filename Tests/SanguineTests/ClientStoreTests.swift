import Foundation
import GRDB
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

@Suite("Client store", .bounded)
struct ClientStoreTests {
    private let folder = TemporaryFolder()

    private func makeStore(entryLimitBytes: Int64 = 1_000_000) throws -> ClientStore {
        let log = StoreLog(logger: .silent)
        return try ClientStore(folder: folder.url, entryLimitBytes: entryLimitBytes, log: log)
    }

    private var file: URL { folder.url.appending(path: StoreFile.name) }

    private func entry(_ key: String, bytes: Int = 10, at seconds: Int64 = 0) -> StoredEntry {
        StoredEntry(
            key: key,
            asOf: Timestamp(millisecondsSince1970: seconds * 1_000),
            keptUntil: Timestamp(millisecondsSince1970: .max),
            value: Data(repeating: 7, count: bytes)
        )
    }

    private func execute(_ sql: String) throws {
        let database = try DatabaseQueue(path: file.path)
        try database.write { try $0.execute(sql: sql) }
        try database.close()
    }

    @Test func `a state survives its store`() throws {
        let first = try makeStore()
        try first.setState("session", Data("a".utf8))
        try first.setState("gone", Data("b".utf8))
        try first.setState("gone", nil)
        first.close()
        let second = try makeStore()

        #expect(try second.state("session") == Data("a".utf8))
        #expect(try second.state("gone") == nil)
        #expect(second.log.report == StoreReport(place: .disk))
    }

    @Test func `nothing is created before the first write`() throws {
        let store = try makeStore()
        #expect(try store.state("session") == nil && store.entry("e") == nil)
        try store.setState("session", nil)
        try store.removeEntries(keptUntil: Timestamp(millisecondsSince1970: 0))
        #expect(!FileManager.default.fileExists(atPath: folder.url.path))
        try store.setState("session", Data("a".utf8))
        #expect(FileManager.default.fileExists(atPath: file.path))
        #expect(try store.state("session") == Data("a".utf8))
    }

    @Test func `a state written by another process in the meantime is read`() throws {
        let (first, second) = (try makeStore(), try makeStore())
        #expect(try first.state("session") == nil)
        try second.setState("session", Data("a".utf8))
        #expect(try first.state("session") == Data("a".utf8))
    }

    @Test func `a store that is closed before its first use stays closed`() throws {
        let store = try makeStore()
        store.close()
        #expect(throws: StoreError.closed) { try store.setState("session", Data("a".utf8)) }
        #expect(throws: StoreError.closed) { try store.state("session") }
        #expect(!FileManager.default.fileExists(atPath: folder.url.path))
    }

    @Test func `an entry's day is stored with its end`() throws {
        var daily = entry("daily")
        let tokyo = try #require(TimeZone(identifier: "Asia/Tokyo"))
        daily.day = LocalDay(containing: daily.asOf, in: tokyo)
        let first = try makeStore()
        try first.applyEntries([.put(daily)])
        first.close()

        #expect(try makeStore().entry("daily") == daily)
    }

    @Test func `the file and folder are accessible only to the user`() throws {
        let store = try makeStore()
        try store.setState("session", Data("a".utf8))
        let manager = FileManager.default

        for (path, mode) in [(folder.url.path, 0o700), (file.path, 0o600)] {
            let attributes = try manager.attributesOfItem(atPath: path)
            #expect((attributes[.posixPermissions] as? NSNumber)?.intValue == mode)
        }
    }

    @Test func `a damaged row is dropped and counted, and the others are kept`() throws {
        let first = try makeStore()
        try first.setState("session", Data("a".utf8))
        try first.setState("balance", Data("b".utf8))
        try first.applyEntries([.put(entry("e")), .put(entry("f"))])
        first.close()
        try execute(
            """
            UPDATE state SET data = x'00' WHERE name = 'session';
            UPDATE entry SET value = x'00' WHERE key = 'e';
            """
        )
        let second = try makeStore()

        #expect(try second.state("session") == nil)
        #expect(try second.state("balance") == Data("b".utf8))
        #expect(try second.entry("e") == nil)
        #expect(try second.entry("f") == entry("f"))
        #expect(second.log.report.droppedRows == 2)
        #expect(try second.state("session") == nil)
        #expect(second.log.report.droppedRows == 2)
    }

    @Test func `a file that is not a database is set aside and reported`() throws {
        try FileManager.default.createDirectory(
            at: folder.url,
            withIntermediateDirectories: true
        )
        let rubbish = Data(repeating: 0x5A, count: 5_000)
        try rubbish.write(to: file)
        let store = try makeStore()
        try store.setState("session", Data("a".utf8))

        #expect(try store.state("session") == Data("a".utf8))
        #expect(store.log.report.place == .disk)
        #expect(store.log.report.failure != nil)
        let aside = try #require(store.log.report.movedAside.first)
        #expect(try Data(contentsOf: aside) == rubbish)
    }

    @Test func `a database that is damaged during use is replaced`() throws {
        let store = try makeStore()
        for number in 1...200 {
            try store.applyEntries([.put(entry("e\(number)", bytes: 2_000))])
        }
        let handle = try FileHandle(forUpdating: file)
        let size = try handle.seekToEnd()
        // The file's change counter, without which SQLite would trust its cached pages.
        try handle.seek(toOffset: 24)
        try handle.write(contentsOf: Data([0, 0, 0xFF, 0xFF]))
        try handle.seek(toOffset: 100)
        try handle.write(contentsOf: Data(repeating: 0xFF, count: Int(size) - 100))
        try handle.close()
        for number in 1...200 { _ = try? store.entry("e\(number)") }
        try store.setState("session", Data("a".utf8))

        #expect(try store.state("session") == Data("a".utf8))
        #expect(store.log.report.movedAside.count == 1)
    }

    @Test func `a file of a newer version is kept for that version`() throws {
        let first = try makeStore()
        try first.setState("session", Data("a".utf8))
        first.close()
        try execute("PRAGMA user_version = 99")
        let second = try makeStore()

        #expect(try second.state("session") == nil)
        #expect(
            second.log.report.movedAside.first?.lastPathComponent.hasSuffix("schema-99") == true
        )
        #expect(second.log.report.failure?.contains("newer version") == true)
    }

    @Test func `without a usable folder the store works in memory and reports it`() throws {
        try FileManager.default.createDirectory(
            at: folder.url,
            withIntermediateDirectories: true
        )
        try Data().write(to: file)
        let below = file.appending(path: "below")
        let store = try ClientStore(folder: below, log: StoreLog(logger: .silent))
        try store.setState("session", Data("a".utf8))

        #expect(try store.state("session") == Data("a".utf8))
        #expect(store.log.report.place == .memoryInsteadOfDisk)
        #expect(store.log.report.failure != nil)
    }

    @Test func `the oldest entries are removed first when the disk limit is reached`() throws {
        let store = try makeStore(entryLimitBytes: 10_000)
        for number in 1...30 {
            let row = entry("e\(number)", bytes: 1_000, at: Int64(number))
            try store.applyEntries([.put(row)])
        }

        #expect(try store.entry("e30") != nil)
        #expect(try store.entry("e1") == nil)
        let kept = try (1...30).filter { try store.entry("e\($0)") != nil }
        #expect(kept.count <= 9 && kept.count >= 7)
        #expect(kept == Array((31 - kept.count)...30))
    }

    @Test func `an unreadable row is removed, but not the row that replaced it`() throws {
        let store = try makeStore()
        let (old, new) = (entry("e"), entry("e", at: 1))
        try store.applyEntries([.put(old)])
        store.dropEntry(old)
        #expect(try store.entry("e") == nil)
        try store.applyEntries([.put(new)])
        store.dropEntry(old)

        #expect(try store.entry("e") == new)
        #expect(store.log.report.droppedRows == 2)
    }

    @Test func `a removed entry is gone, and others are kept`() throws {
        let store = try makeStore()
        try store.applyEntries([.put(entry("e")), .put(entry("f"))])
        try store.applyEntries([.remove(key: "e")])

        #expect(try store.entry("e") == nil)
        #expect(try store.entry("f") == entry("f"))
    }

    @Test func `a closed store throws an error`() throws {
        let store = try makeStore()
        store.close()
        #expect(throws: StoreError.closed) { try store.state("session") }
        #expect(throws: StoreError.closed) { try store.setState("session", nil) }
    }
}

@Suite("Stored values", .bounded)
struct DiskTierTests {
    private let folder = TemporaryFolder()

    @Test func `a value is available at once after the next launch, with its age`() async throws {
        let first = try TestClient(network: .profiles(), folder: folder)
        let fetched = first.wall.now()
        _ = try await first.client.value(of: .profile("ada"))
        first.client.close()
        let wall = ManualWallClock(fetched + .seconds(200))
        let second = try TestClient(network: .profiles(), wall: wall, folder: folder)

        #expect(second.client.cached(.profile("ada")) == Profile(name: "ada 1"))
        #expect(second.client.snapshot(of: .profile("ada")).age(at: wall.now()) == .seconds(200))
        #expect(try await second.client.value(of: .profile("ada")).name == "ada 1")
        #expect(second.network.requests.isEmpty)
        wall.advance(by: .seconds(100))
        _ = try await second.client.value(of: .profile("ada"))
        #expect(second.network.requests.count == 1)
    }

    @Test func `a value kept only in memory is lost with the process`() async throws {
        let first = try TestClient(network: .profiles(), folder: folder)
        _ = try await first.client.value(of: .fleeting("ada"))
        first.client.close()
        let second = try TestClient(folder: folder)

        #expect(second.client.cached(.fleeting("ada")) == nil)
    }

    @Test func `an invalidated value is still stale after the next launch`() async throws {
        let first = try TestClient(network: .profiles(), folder: folder)
        _ = try await first.client.value(of: .profile("ada"))
        first.client.invalidate(.profile("ada"))
        first.client.close()
        let second = try TestClient(network: .profiles(), folder: folder)

        #expect(second.client.cached(.profile("ada"))?.name == "ada 1")
        _ = try await second.client.value(of: .profile("ada"))
        #expect(second.network.requests.count == 1)
    }

    @Test func `a value evicted from memory is read from disk`() async throws {
        let test = try TestClient(network: .profiles(), folder: folder) { $0.memoryBytes = 1_500 }
        for number in 1...20 { _ = try await test.client.value(of: .profile("p\(number)")) }

        #expect(test.client.cached(.profile("p1"))?.name == "p1 1")
        #expect(test.client.cached(.profile("p20"))?.name == "p20 20")
        #expect(test.client.queries.entries.memoryCost <= 1_500)
    }

    @Test func `a row of a type that has changed is dropped and fetched again`() async throws {
        let first = try TestClient(folder: folder)
        first.network.script(.json(["old": 1]))
        let before = ValueQuery<[String: Int]>("profile", "ada", policy: .forever.stored(.onDisk)) {
            try await $0.get("profiles/ada")
        }
        _ = try await first.client.value(of: before)
        first.client.close()
        let second = try TestClient(network: .profiles(), folder: folder)

        #expect(second.client.cached(.profile("ada")) == nil)
        #expect(second.client.storeReport.droppedRows == 1)
        #expect(try await second.client.value(of: .profile("ada")).name == "ada 1")
    }
}
