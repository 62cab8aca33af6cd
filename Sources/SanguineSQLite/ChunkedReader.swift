import Foundation
import GRDBSQLite
import SanguineAuthority

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#elseif canImport(Darwin)
import Darwin
#endif

/// Reads files in pieces, in constant memory.
enum ChunkedReader {
    /// The size of a piece: 256 KiB.
    static let pieceBytes = 1 << 18

    /// The system's error for an operation on a file.
    struct Failure: Error {
        let code: Int32
        let path: String

        /// Captures the error of the last system call.
        init(_ path: String) {
            code = errno
            self.path = path
        }

        var reason: String { String(cString: strerror(code)) }

        /// Whether the disk or the file system lost data.
        ///
        /// Any other error implies nothing about the file: too many files may be open, or the user
        /// may not read it.
        var isDamage: Bool {
            #if canImport(Darwin)
            [EIO, ENXIO, EBADMSG].contains(code)
            #else
            [EIO, ENXIO, EBADMSG, EUCLEAN].contains(code)
            #endif
        }

        /// The corresponding error of SQLite.
        var asSQLFailure: SQLFailure {
            SQLFailure(
                code: isDamage ? SQLFailure.unreadableDisk : SQLITE_CANTOPEN,
                message: "\(path): \(reason)"
            )
        }

        /// The corresponding error of the storage.
        var asStorageError: StorageError {
            switch code {
            case ENOSPC, EDQUOT: .full("\(path): \(reason)")
            case EROFS: .readOnly("\(path): \(reason)")
            default: .failed("\(path): \(reason)")
            }
        }
    }

    /// Returns the names of the entries of a folder, in no order; none if it does not exist.
    ///
    /// - Throws: The error of a folder that cannot be listed to its end, which must not count as
    ///   an empty one.
    static func names(in path: String) throws(Failure) -> [String] {
        guard let entries = opendir(path) else {
            guard errno == ENOENT else { throw Failure(path) }
            return []
        }
        defer { closedir(entries) }
        guard let offset = MemoryLayout<dirent>.offset(of: \.d_name) else {
            preconditionFailure("The name of an entry is a stored member.")
        }
        var names: [String] = []
        while true {
            // The end and an error differ only in this number.
            errno = 0
            guard let entry = readdir(entries) else { break }
            // Not read as a member: the record of a short name is shorter than the declared one.
            let name = UnsafeRawPointer(entry).advanced(by: offset)
                .assumingMemoryBound(to: CChar.self)
            names.append(String(cString: name))
        }
        guard errno == 0 else { throw Failure(path) }
        return names.filter { $0 != "." && $0 != ".." }
    }

    /// Returns a part of a file: fewer bytes at its end, none if it does not exist.
    static func read(_ path: String, from offset: Int, _ count: Int) throws(Failure) -> [UInt8] {
        let file = open(path, O_RDONLY | O_CLOEXEC)
        guard file >= 0 else {
            guard errno == ENOENT else { throw Failure(path) }
            return []
        }
        defer { Foundation.close(file) }
        return try read(file, path, from: offset, count)
    }

    /// Returns a part of an open file: fewer bytes at its end.
    static func read(
        _ file: Int32,
        _ path: String,
        from offset: Int,
        _ count: Int
    ) throws(Failure) -> [UInt8] {
        // Not filled with zeros first, which takes as long as reading megabytes from memory.
        var result = Result<Int, Failure>.success(0)
        let bytes = [UInt8](unsafeUninitializedCapacity: count) { buffer, done in
            result = fill(UnsafeMutableRawBufferPointer(buffer), of: file, path, from: offset)
            done = (try? result.get()) ?? 0
        }
        _ = try result.get()
        return bytes
    }

    /// Reads a file from beginning to end.
    ///
    /// - Parameters:
    ///   - path: The file.
    ///   - body: Called with each piece.
    /// - Returns: The size of the file in bytes.
    /// - Throws: ``Failure``, or the error that the body throws.
    @discardableResult
    static func forEach(_ path: String, _ body: ([UInt8]) throws -> Void) throws -> Int64 {
        let file = open(path, O_RDONLY | O_CLOEXEC)
        guard file >= 0 else { throw Failure(path) }
        defer { Foundation.close(file) }
        var offset = 0
        while true {
            let piece = try read(file, path, from: offset, pieceBytes)
            guard !piece.isEmpty else { return Int64(offset) }
            try body(piece)
            offset += piece.count
        }
    }

    /// Writes all bytes at the current position of the file.
    ///
    /// - Parameters:
    ///   - bytes: The bytes.
    ///   - file: The descriptor.
    ///   - path: The path of the file, for errors.
    ///   - call: Writes bytes and returns their number. Default: `write`. No call gets more than
    ///     ``LongWork/systemCallBytes``.
    /// - Throws: ``Failure``.
    static func write(
        _ bytes: ArraySlice<UInt8>,
        to file: Int32,
        _ path: String,
        call: (Int32, UnsafeRawBufferPointer) -> Int = {
            Foundation.write($0, $1.baseAddress, $1.count)
        }
    ) throws(Failure) {
        var done = bytes.startIndex
        while done < bytes.endIndex {
            let end = min(bytes.endIndex, done + LongWork.systemCallBytes)
            let count = bytes[done..<end].withUnsafeBytes { call(file, $0) }
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { throw Failure(path) }
            done += count
        }
    }

    /// Flushes the names in a folder.
    static func flush(_ folder: String) throws(Failure) {
        let file = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard file >= 0 else { throw Failure(folder) }
        defer { Foundation.close(file) }
        guard fsync(file) == 0 else { throw Failure(folder) }
    }

    /// Returns the number of bytes read, which is smaller than the buffer at the end of the file.
    private static func fill(
        _ buffer: UnsafeMutableRawBufferPointer,
        of file: Int32,
        _ path: String,
        from offset: Int
    ) -> Result<Int, Failure> {
        var done = 0
        while done < buffer.count {
            let count = pread(
                file,
                buffer.baseAddress.map { $0 + done },
                min(buffer.count - done, LongWork.systemCallBytes),
                off_t(offset + done)
            )
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { return .failure(Failure(path)) }
            if count == 0 { break }
            done += count
        }
        return .success(done)
    }
}

extension ChunkedReader.Failure: CustomStringConvertible {
    /// The error, and what to do about it.
    var description: String { "\(path): \(reason). Check the disk and the folder's permissions." }
}
