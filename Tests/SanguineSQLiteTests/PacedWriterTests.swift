import Foundation
import SanguineAuthority
import SanguineModel
import TestSupport
import Testing

@testable import SanguineSQLite

/// The flushes of large files, which delay the commits of the database.
@Suite("Writing of large files", .bounded)
struct PacedWriterTests {
    /// Writes parts to a file, and returns the sizes of the file at its flushes.
    private func sizes(
        of parts: [[UInt8]],
        in folder: TestFolder,
        flush: @escaping (Int32) -> Int32 = { fsync($0) }
    ) throws -> [Int] {
        try folder.create()
        let path = folder.file("large").path
        let file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0o600)
        try #require(file >= 0)
        defer { close(file) }
        var sizes: [Int] = []
        var writer = PacedWriter(file, path) { file in
            sizes.append(Int(lseek(file, 0, SEEK_END)))
            return flush(file)
        }
        for part in parts { try writer.write(part) }
        try writer.finish()
        return sizes
    }

    @Test(arguments: [1, 7, 100_000, 1 << 20, 3_000_000])
    func `no more than a piece of a file waits to be flushed`(partBytes: Int) throws {
        let folder = TestFolder()
        let content = (0..<3_500_000).map { UInt8(truncatingIfNeeded: $0 / 251) }
        // Single bytes would take long.
        let bytes = partBytes < 100 ? Array(content.prefix(2_000)) : content
        let parts = stride(from: 0, to: bytes.count, by: partBytes).map {
            Array(bytes[$0..<min(bytes.count, $0 + partBytes)])
        }
        let sizes = try sizes(of: parts, in: folder)
        for (before, after) in zip([0] + sizes, sizes) {
            #expect(after - before <= PacedWriter.pieceBytes)
        }
        #expect(sizes.last == bytes.count)
        #expect(try Data(contentsOf: folder.file("large")) == Data(bytes))
    }

    @Test func `no system call writes more than 64 KiB, so that other threads get their turn`()
        throws
    {
        let folder = TestFolder()
        try folder.create()
        let path = folder.file("large").path
        let file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0o600)
        try #require(file >= 0)
        defer { close(file) }
        let content = (0..<200_001).map { UInt8(truncatingIfNeeded: $0 / 251) }
        var sizes: [Int] = []
        // The system may also write a part of what it gets.
        try ChunkedReader.write(content[1...], to: file, path) { file, bytes in
            sizes.append(bytes.count)
            return write(file, bytes.baseAddress, max(1, bytes.count - 1_000))
        }
        #expect(sizes.max() == 1 << 16)
        #expect(try Data(contentsOf: folder.file("large")) == Data(content[1...]))
    }

    @Test func `a failed flush fails the writing`() throws {
        #expect(throws: ChunkedReader.Failure.self) {
            try sizes(of: [[1, 2]], in: TestFolder()) { _ in
                errno = EIO
                return -1
            }
        }
    }

    @Test func `a large file is stored and read as it is`() async throws {
        let folder = TestFolder()
        let storage = try SQLiteStorage(folder: folder.url)
        let content = (0..<2_500_000).map { UInt8(truncatingIfNeeded: $0 / 253) }
        let id = BlobID(of: content)
        try await storage.blobs.keep(content, as: id, at: .init(millisecondsSince1970: 0))
        let read = try await storage.blobs.read(id, from: 0, count: content.count + 9)
        #expect(read == content)
        let end = try await storage.blobs.read(id, from: content.count - 5, count: 9)
        #expect(end == Array(content.suffix(5)))
        #expect(try await storage.blobs.read(id, from: content.count, count: 9) == [])
        await storage.close()
    }
}
