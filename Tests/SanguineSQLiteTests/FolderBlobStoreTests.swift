import Foundation
import SanguineAuthority
import SanguineModel
import TestSupport
import Testing

@testable import SanguineSQLite

/// The contents of the folder of files, also after a crash.
@Suite("SQLite storage: files", .bounded)
struct FolderBlobStoreTests {
    private let content = Array("the content of a file".utf8)
    private var id: BlobID { BlobID(of: content) }

    private func moment(_ seconds: Int64) -> Timestamp {
        Timestamp(millisecondsSince1970: seconds * 1_000)
    }

    private func place(_ id: BlobID) -> String {
        "blobs/\(id.description.prefix(2))/\(id)"
    }

    @Test func `a file is named by its content and accessible only to its owner`() async throws {
        let folder = TestFolder()
        let storage = try SQLiteStorage(folder: folder.url)
        #expect(!FileManager.default.fileExists(atPath: folder.file("blobs").path))
        try await storage.blobs.keep(content, as: id, at: moment(0))

        #expect(try Data(contentsOf: folder.file(place(id))) == Data(content))
        #expect(try folder.mode(of: place(id)) == 0o600)
        for name in ["blobs", "blobs/incoming", "blobs/\(id.description.prefix(2))"] {
            #expect(try folder.mode(of: name) == 0o700, "\(name)")
        }
        let drafts = folder.file("blobs/incoming").path
        #expect(try FileManager.default.contentsOfDirectory(atPath: drafts) == [])
        await storage.close()
        #expect(SQLiteFolderFacts(of: folder.url).fileModes.values.allSatisfy { $0 & 0o077 == 0 })
    }

    @Test func `reopening preserves complete files and removes incomplete ones`()
        async throws
    {
        let folder = TestFolder()
        let first = try SQLiteStorage(folder: folder.url)
        try await first.blobs.keep(content, as: id, at: moment(0))
        await first.close()
        let draft = folder.file("blobs/incoming/7")
        try Data([1, 2]).write(to: draft)

        let second = try SQLiteStorage(folder: folder.url)
        #expect(try await second.blobs.read(id, from: 0, count: 100) == content)
        #expect(!FileManager.default.fileExists(atPath: draft.path))
        let other = BlobID(of: [1])
        try await second.blobs.keep([1], as: other, at: moment(1))
        #expect(try await second.blobs.kept(before: moment(9), after: nil, limit: 9).count == 2)
        await second.close()
    }

    @Test func `an incomplete file is rewritten when its content is stored again`()
        async throws
    {
        let folder = TestFolder()
        let storage = try SQLiteStorage(folder: folder.url)
        try await storage.blobs.keep(content, as: id, at: moment(0))
        try Data(content.dropLast()).write(to: folder.file(place(id)))
        try await storage.blobs.keep(content, as: id, at: moment(1))
        #expect(try await storage.blobs.read(id, from: 0, count: 100) == content)
        await storage.close()
    }

    @Test func `unknown files in the folder are ignored and preserved`() async throws {
        let folder = TestFolder()
        let storage = try SQLiteStorage(folder: folder.url)
        try await storage.blobs.keep(content, as: id, at: moment(0))
        let notes = folder.file("blobs/\(id.description.prefix(2))/notes.txt")
        try Data([1]).write(to: notes)
        #expect(try await storage.blobs.kept(before: moment(9), after: nil, limit: 9) == [id])
        #expect(FileManager.default.fileExists(atPath: notes.path))
        await storage.close()
    }

    @Test func `a folder that cannot store files reports the reason`() async throws {
        let folder = TestFolder()
        let storage = try SQLiteStorage(folder: folder.url)
        // A file in the folder's path also stops processes with all permissions.
        try Data([1]).write(to: folder.file("blobs"))
        await #expect {
            try await storage.blobs.keep(content, as: id, at: moment(0))
        } throws: { error in
            guard case .failed(let reason) = error as? StorageError else { return false }
            return reason.contains("blobs")
        }
        await storage.close()
    }

    @Test(arguments: ["blobs", "blobs/5e"])
    func `a folder that cannot be listed is an error, not an empty folder`(
        name: String
    ) async throws {
        let folder = TestFolder()
        let storage = try SQLiteStorage(folder: folder.url)
        try await storage.blobs.keep(content, as: id, at: moment(0))
        try FileManager.default.createDirectory(
            at: folder.file("blobs/5e"),
            withIntermediateDirectories: true
        )
        try folder.replaceByLoop(name)
        await #expect {
            try await storage.blobs.kept(before: moment(9), after: nil, limit: 9)
        } throws: { error in
            guard case .failed(let reason) = error as? StorageError else { return false }
            return reason.contains(name)
        }
        await storage.close()
    }

    @Test func `a file whose name is not one of a folder of files is no error`() async throws {
        let folder = TestFolder()
        let storage = try SQLiteStorage(folder: folder.url)
        try await storage.blobs.keep(content, as: id, at: moment(0))
        try Data([1]).write(to: folder.file("blobs/.x"))
        #expect(try await storage.blobs.kept(before: moment(9), after: nil, limit: 9) == [id])
        await storage.close()
    }

    @Test func `timestamps before 1970 are supported`() async throws {
        let folder = TestFolder()
        let storage = try SQLiteStorage(folder: folder.url)
        let early = Timestamp(millisecondsSince1970: -1_500)
        try await storage.blobs.keep(content, as: id, at: early)
        let later = Timestamp(millisecondsSince1970: -1_499)
        #expect(try await storage.blobs.kept(before: early, after: nil, limit: 9) == [])
        #expect(try await storage.blobs.kept(before: later, after: nil, limit: 9) == [id])
        await storage.close()
    }
}
