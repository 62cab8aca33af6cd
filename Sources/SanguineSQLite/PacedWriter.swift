import Foundation

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#elseif canImport(Darwin)
import Darwin
#endif

/// Writes a new file of any size without delaying the commits of the database.
///
/// A file system flushes files one after the other, and a commit that waits for a flush of 20 MB
/// takes three times as long (measured on ext4). So the file is flushed after every
/// ``pieceBytes``, and a commit waits for one piece at most.
struct PacedWriter {
    /// The number of bytes that are flushed at a time: 1 MiB.
    static let pieceBytes = 1 << 20

    private let file: Int32
    private let path: String
    private let flushFile: (Int32) -> Int32
    private var unflushed = 0

    /// Creates a writer to an open file.
    ///
    /// - Parameters:
    ///   - file: The descriptor, which the caller closes.
    ///   - path: The path of the file, for errors.
    ///   - flush: Flushes a descriptor and returns 0, or another number for an error. Default:
    ///     `fsync`.
    init(_ file: Int32, _ path: String, flush: @escaping (Int32) -> Int32 = { fsync($0) }) {
        (self.file, self.path) = (file, path)
        flushFile = flush
    }

    /// Writes bytes after the previous ones.
    mutating func write(_ bytes: [UInt8]) throws(ChunkedReader.Failure) {
        var start = 0
        while start < bytes.count {
            let end = min(bytes.count, start + Self.pieceBytes - unflushed)
            try ChunkedReader.write(bytes[start..<end], to: file, path)
            unflushed += end - start
            start = end
            if unflushed == Self.pieceBytes { try flush() }
        }
    }

    /// Flushes the last piece, and the file's attributes.
    mutating func finish() throws(ChunkedReader.Failure) { try flush() }

    private mutating func flush() throws(ChunkedReader.Failure) {
        guard flushFile(file) == 0 else { throw ChunkedReader.Failure(path) }
        unflushed = 0
    }
}
