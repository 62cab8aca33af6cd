import Foundation
import GRDB
import SanguineAuthority
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineSQLite

@Suite("SQLite storage: backups", .bounded(.seconds(120)))
struct FolderCopyTests {
    private func names(in folder: URL) throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: folder.path).sorted()
    }

    @Test func `copies made during commands are complete`() async throws {
        let (folder, copies) = (TestFolder(), TestFolder())
        try copies.create()
        var options = SQLiteStorageOptions()
        options.checkpointPages = 50
        let storage = try SQLiteStorage(folder: folder.url, options: options)
        let accounts = (1...8).map { _ in Identifier.fresh() }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for (number, account) in accounts.enumerated() {
                group.addTask {
                    for key in 1...1_000_000 where !Task.isCancelled {
                        try await storage.spend(from: account, key: "\(number)-\(key)")
                    }
                }
            }
            var last = 0
            for number in 1...10 {
                let target = copies.file("\(number)")
                let report = try await FolderCopy(of: folder.url, to: target).make()
                #expect(report.examination.damage.isEmpty)
                #expect(report.examination.ledger.transfers >= last)
                last = report.examination.ledger.transfers
                #expect(try names(in: target) == ["sanguine.sqlite"])
            }
            group.cancelAll()
            try await group.waitForAll()
        }
        try await storage.checkHealth()
        await storage.close()
        let copy = try SQLiteStorage(folder: copies.file("10"))
        try await copy.spend(from: accounts[0], key: "after")
        #expect(try await copy.verifyLedger().differences.isEmpty)
        await copy.close()
    }

    @Test func `copies made while files are added and removed are complete`() async throws {
        let (folder, copies) = (TestFolder(), TestFolder())
        try copies.create()
        let storage = try SQLiteStorage(folder: folder.url)
        let added = WatchedState(0)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for writer in 1...2 {
                group.addTask {
                    for number in 1...1_000_000 where !Task.isCancelled {
                        let bytes = Array("\(writer)-\(number)".utf8)
                        let id = BlobID(of: bytes)
                        try await storage.blobs.keep(bytes, as: id, at: .zero)
                        guard number % 2 == 0 else {
                            // No account owns it.
                            let later = Timestamp(millisecondsSince1970: 1)
                            #expect(try await storage.blobs.remove(id, keptBefore: later))
                            continue
                        }
                        try await storage.add(id, size: bytes.count)
                        added.withLock { $0 += 1 }
                    }
                }
            }
            var last = 0
            for number in 1...5 {
                try await added.wait(for: "another file") { [last] in $0 > last }
                let target = copies.file("\(number)")
                let report = try await FolderCopy(of: folder.url, to: target).make()
                #expect(report.examination.damage.isEmpty)
                #expect(report.examination.files.count > last)
                last = report.examination.files.count
                let found = try await DamageTests.examination(of: target)
                #expect(found.damage.isEmpty && found.files.count == last)
            }
            group.cancelAll()
            try await group.waitForAll()
        }
        await storage.close()
    }

    @Test(arguments: [0.0, 0.001, 0.4, 0.9])
    func `a truncated copy is refused, and nothing is replaced`(
        part: Double
    ) async throws {
        let (folder, copies, target) = (TestFolder(), TestFolder(), TestFolder())
        try copies.create()
        _ = try await DamageTests.fill(folder, spends: 200)
        let account = try await DamageTests.fill(target)
        let backup = copies.file("backup")
        _ = try await FolderCopy(of: folder.url, to: backup).make()
        let database = backup.appending(path: "sanguine.sqlite")
        let whole = try Data(contentsOf: database)
        try whole.prefix(Int(Double(whole.count) * part)).write(to: database)
        let before = try names(in: target.url)
        let restore = FolderCopy(of: backup, to: target.url, replaces: true, upgrades: true)
        let error = await #expect(throws: (any Error).self) { try await restore.make() }
        let text = String(describing: try #require(error))
        #expect(text.contains(backup.path) && text.contains("another backup"), "\(text)")
        #expect(try names(in: target.url) == before)
        let parent = target.url.deletingLastPathComponent()
        let neighbours = try names(in: parent).filter {
            $0.hasPrefix(target.url.lastPathComponent)
        }
        #expect(neighbours == [target.url.lastPathComponent])
        let storage = try SQLiteStorage(folder: target.url)
        #expect(try await storage.available(account) == 999_997)
        await storage.close()
    }

    @Test func `a copy is private to its owner, and contains the named files`() async throws {
        let (folder, target) = (TestFolder(), TestFolder())
        _ = try await DamageTests.fill(folder)
        try Data("secret".utf8).write(to: folder.file("keys.json"))
        try Data("other".utf8).write(to: folder.file("notes.txt"))
        _ = try await FolderCopy(of: folder.url, to: target.url, with: ["keys.json", "none"]).make()
        #expect(try names(in: target.url) == ["keys.json", "sanguine.sqlite"])
        #expect(try target.mode() == 0o700)
        #expect(try target.mode(of: "keys.json") == 0o600)
        #expect(try target.mode(of: "sanguine.sqlite") == 0o600)
    }

    @Test func `damaged data is not copied, and leaves no files`() async throws {
        let (folder, copies) = (TestFolder(), TestFolder())
        try copies.create()
        _ = try await DamageTests.fill(folder)
        try await DamageTests.alter(folder, "UPDATE balances SET available = 1")
        let copy = FolderCopy(of: folder.url, to: copies.file("a"))
        let error = await #expect(throws: FolderCopyError.self) { try await copy.make() }
        guard case .damaged = error else {
            Issue.record("The error is \(String(describing: error)).")
            return
        }
        #expect(try names(in: copies.url).isEmpty)
    }

    @Test func `a target that is not empty is refused, or moved aside if requested`()
        async throws
    {
        let (folder, copies) = (TestFolder(), TestFolder())
        let account = try await DamageTests.fill(folder)
        let target = copies.file("a")
        try FileManager.default.createDirectory(at: target, withIntermediateDirectories: true)
        try Data("mine".utf8).write(to: target.appending(path: "mine"))
        await #expect(throws: FolderCopyError.notEmpty(path: target.path)) {
            try await FolderCopy(of: folder.url, to: target).make()
        }
        let report = try await FolderCopy(of: folder.url, to: target, replaces: true).make()
        let aside = try #require(report.replaced)
        #expect(try names(in: aside).contains("mine"))
        let storage = try SQLiteStorage(folder: target)
        #expect(try await storage.available(account) == 999_997)
        await #expect(throws: SQLiteStorageError.self) {
            try await FolderCopy(of: folder.url, to: target, replaces: true).make()
        }
        await storage.close()
    }

    @Test func `a file that was deleted during the copy is not in the copy`()
        async throws
    {
        let (folder, target) = (TestFolder(), TestFolder())
        _ = try await DamageTests.fill(folder)
        let storage = try SQLiteStorage(folder: folder.url)
        var ids: [BlobID] = []
        for number in 1...3 as ClosedRange<UInt8> { ids.append(try await storage.keep([number])) }
        let copy = FolderCopy(of: folder.url, to: target.url)
        #expect(try await copy.make().examination.files.count == 3)
        // The state after copying the snapshot: a database without files.
        try FileManager.default.removeItem(at: target.file("blobs"))
        try await storage.onWriter("DELETE FROM blobs WHERE id = x'\(ids[1])'")
        #expect(try await storage.blobs.remove(ids[1], keptBefore: .distant))
        let draft = DataFolder(target.url)
        let copied = try DatabaseQueue(path: draft.databasePath)
        let original = try Connections.reader(
            in: DataFolder(folder.url),
            options: SQLiteStorageOptions(),
            schema: .current
        )
        try await copied.writeWithoutTransaction { copied in
            try original.unsafeRead { try copy.copyBlobs(in: copied, from: $0, to: draft) }
        }
        try original.close()
        try copied.close()
        await storage.close()
        let found = try await examination(of: target)
        #expect(found.damage.isEmpty)
        #expect(found.files.count == 2)
        let copies = ids.map { FileManager.default.fileExists(atPath: draft.blobPath($0)) }
        #expect(copies == [true, false, true])
    }

    @Test func `a file that is missing but still named is damage of the copy`()
        async throws
    {
        let (folder, target) = (TestFolder(), TestFolder())
        _ = try await DamageTests.fill(folder)
        let storage = try SQLiteStorage(folder: folder.url)
        let id = try await storage.keep([1, 2, 3])
        #expect(try await storage.blobs.remove(id, keptBefore: .distant))
        let copy = FolderCopy(of: folder.url, to: target.url)
        let error = await #expect(throws: FolderCopyError.self) { try await copy.make() }
        #expect("\(String(describing: error))".contains("is missing"))
        await storage.close()
    }

    private func examination(of folder: TestFolder) async throws -> DataExamination {
        let inspection = try SQLiteStorage.inspect(folder: folder.url)
        let found = try await inspection.examine()
        await inspection.close()
        return found
    }

    @Test(arguments: 1...Schema.current.version)
    func `a folder of an older version is copied unchanged and upgraded when restored`(
        step: Int
    ) async throws {
        let (folder, backup, restored) = (TestFolder(), TestFolder(), TestFolder())
        try folder.create()
        let queue = try Connections.writer(
            in: DataFolder(folder.url),
            options: SQLiteStorageOptions(),
            mayBeEmpty: true,
            schema: Schema(steps: Array(Schema.current.steps.prefix(step)))
        )
        let report = try await FolderCopy(of: folder.url, to: backup.url).make()
        #expect(report.examination.damage.isEmpty)
        try queue.close()
        let copied = try DatabaseQueue(path: backup.file("sanguine.sqlite").path)
        let found = try await copied.read { try Int.fetchOne($0, sql: "PRAGMA user_version") }
        try copied.close()
        #expect(found == step)
        _ = try await FolderCopy(of: backup.url, to: restored.url, upgrades: true).make()
        #expect(try await examination(of: restored).damage.isEmpty)
    }

    @Test func `a folder of a newer version is not copied`() async throws {
        let (folder, target) = (TestFolder(), TestFolder())
        _ = try await DamageTests.fill(folder)
        let version = Schema.current.version
        try await DamageTests.alter(folder, "PRAGMA user_version = \(version + 1)")
        let refusal = SQLiteStorageError.schemaTooNew(found: version + 1, known: version)
        await #expect(throws: refusal) {
            try await FolderCopy(of: folder.url, to: target.url).make()
        }
        #expect(!FileManager.default.fileExists(atPath: target.url.path))
    }

    @Test func `a mount point is refused as a target before anything is written`()
        async throws
    {
        #if canImport(Darwin)
        let mounted = URL(filePath: "/dev")
        #else
        let mounted = URL(filePath: "/proc")
        #endif
        let folder = TestFolder()
        _ = try await DamageTests.fill(folder)
        let copy = FolderCopy(of: folder.url, to: mounted, replaces: true)
        await #expect(throws: FolderCopyError.mountPoint(path: mounted.path)) {
            try await copy.make()
        }
        #expect(!SystemCall.isMountPoint(folder.url.path))
    }

    @Test func `the folder behind a link is replaced, and the link is preserved`() async throws {
        let (folder, copies) = (TestFolder(), TestFolder())
        let account = try await DamageTests.fill(folder)
        try copies.create()
        let (place, link) = (copies.file("disk/data"), copies.file("link"))
        let manager = FileManager.default
        try manager.createDirectory(at: place, withIntermediateDirectories: true)
        try Data("mine".utf8).write(to: place.appending(path: "mine"))
        try manager.createSymbolicLink(at: link, withDestinationURL: place)
        let report = try await FolderCopy(of: folder.url, to: link, replaces: true).make()
        let aside = try #require(report.replaced)
        #expect(try names(in: aside) == ["mine", "sanguine.lock"])
        #expect(try names(in: copies.file("disk")) == ["data", "data.replaced-1"])
        #expect(try manager.destinationOfSymbolicLink(atPath: link.path) == place.path)
        let storage = try SQLiteStorage(folder: place)
        #expect(try await storage.available(account) == 999_997)
        await storage.close()
    }

    @Test func `two folders exchange their names, and a missing one changes nothing`()
        async throws
    {
        let folder = TestFolder()
        try folder.create()
        let paths = ["a", "b"].map { folder.file($0).path }
        for path in paths {
            let inside = URL(filePath: path).appending(path: "in-\(path.suffix(1))")
            try FileManager.default.createDirectory(at: inside, withIntermediateDirectories: true)
        }
        if try SystemCall.exchange(paths[0], paths[1]) {
            #expect(try names(in: folder.file("a")) == ["in-b"])
            #expect(try names(in: folder.file("b")) == ["in-a"])
        }
        #expect(throws: ChunkedReader.Failure.self) {
            try SystemCall.exchange(paths[0], folder.file("missing").path)
        }
        #expect(try names(in: folder.url) == ["a", "b"])
    }

    @Test func `a copy that is cancelled or fails at its end leaves no files`() async throws {
        let (folder, copies) = (TestFolder(), TestFolder())
        try copies.create()
        _ = try await DamageTests.fill(folder)
        let copy = FolderCopy(of: folder.url, to: copies.file("a"))
        let cancelled = Task { try await copy.make { _ in withUnsafeCurrentTask { $0?.cancel() } } }
        await #expect(throws: FolderCopyError.stopped) { try await cancelled.finished() }
        #expect(!FileManager.default.fileExists(atPath: copies.file("a").path))
        struct Refusal: Error {}
        await #expect(throws: Refusal.self) {
            try await FolderCopy(of: folder.url, to: copies.file("b")).make { _ in throw Refusal() }
        }
        #expect(try !names(in: copies.url).contains { $0.hasSuffix(".incomplete") })
        #expect(!FileManager.default.fileExists(atPath: copies.file("b").path))
    }
}
