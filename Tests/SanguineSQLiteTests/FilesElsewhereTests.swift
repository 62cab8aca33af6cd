import Foundation
import SanguineAuthority
import SanguineModel
import TestSupport
import Testing

@testable import SanguineSQLite

/// A data folder with its files in another store, such as a bucket.
@Suite("SQLite storage: files elsewhere", .bounded)
struct FilesElsewhereTests {
    private static let content = Array("the content of a file".utf8)
    private static let id = BlobID(of: content)

    private var elsewhere: SQLiteStorageOptions {
        var options = SQLiteStorageOptions()
        options.storesFilesElsewhere = true
        return options
    }

    /// Adds an account with a file that is not in the folder.
    private func addFile(to storage: SQLiteStorage) async throws {
        let row = BlobRow(
            account: .fresh(),
            id: Self.id,
            size: Int64(Self.content.count),
            type: "image/png",
            createdAt: Timestamp(millisecondsSince1970: 0)
        )
        let command = Command(keys: []) { _ throws(Problem) in
            Decision((), changes: [.put(.blob(row))])
        }
        try await storage.perform(command).get()
    }

    @Test func `files that are elsewhere are not missing`() async throws {
        let folder = TestFolder()
        let first = try SQLiteStorage(folder: folder.url, options: elsewhere)
        try await addFile(to: first)
        await first.close()
        #expect(try folder.mode(of: "sanguine.blobs") == 0o600)

        let second = try SQLiteStorage(folder: folder.url, options: elsewhere)
        // A damaged folder accepts no write.
        try await addFile(to: second)
        #expect(second.dataCheck == .done)
        await second.close()
        let inspection = try SQLiteStorage.inspect(folder: folder.url)
        let report = try await inspection.examine()
        await inspection.close()
        #expect(report.files.areElsewhere)
        #expect(report.damage.isEmpty)
    }

    @Test func `a copy of the folder remembers that its files are elsewhere`() async throws {
        let (folder, copies) = (TestFolder(), TestFolder())
        try copies.create()
        let storage = try SQLiteStorage(folder: folder.url, options: elsewhere)
        try await addFile(to: storage)
        await storage.close()
        let target = copies.file("copy")
        let report = try await FolderCopy(of: folder.url, to: target).make()
        #expect(report.examination.files.areElsewhere)
        let names = try FileManager.default.contentsOfDirectory(atPath: target.path)
        #expect(Set(names) == ["sanguine.blobs", "sanguine.sqlite"])
    }

    @Test func `the place of files cannot change while there are files in the old one`()
        async throws
    {
        let here = TestFolder()
        let first = try SQLiteStorage(folder: here.url)
        let moment = Timestamp(millisecondsSince1970: 0)
        try await first.blobs.keep(Self.content, as: Self.id, at: moment)
        await first.close()
        #expect(throws: SQLiteStorageError.filesHere(folder: DataFolder(here.url).path)) {
            _ = try SQLiteStorage(folder: here.url, options: elsewhere)
        }
        try FileManager.default.removeItem(at: here.file("blobs"))
        await (try SQLiteStorage(folder: here.url, options: elsewhere)).close()
        #expect(throws: SQLiteStorageError.filesElsewhere(folder: DataFolder(here.url).path)) {
            _ = try SQLiteStorage(folder: here.url)
        }
        try FileManager.default.removeItem(at: here.file("sanguine.blobs"))
        await (try SQLiteStorage(folder: here.url)).close()
    }

    @Test func `the place of files cannot change while the old one cannot be listed`()
        async throws
    {
        let here = TestFolder()
        let first = try SQLiteStorage(folder: here.url)
        let moment = Timestamp(millisecondsSince1970: 0)
        try await first.blobs.keep(Self.content, as: Self.id, at: moment)
        await first.close()
        try here.replaceByLoop("blobs/\(Self.id.description.prefix(2))")
        #expect {
            _ = try SQLiteStorage(folder: here.url, options: elsewhere)
        } throws: { error in
            guard case .failed(let reason) = error as? SQLiteStorageError else { return false }
            return reason.contains("blobs")
        }
        #expect(!DataFolder(here.url).hasFilesElsewhere)
    }
}
