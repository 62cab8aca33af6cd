import Foundation

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#elseif canImport(Darwin)
import Darwin
#endif

/// Small files that appear whole or not at all, and are on disk when the call returns.
enum DurableFile {
    /// Puts a file in the place of one that may be there.
    ///
    /// - Throws: `POSIXError`.
    static func write(_ data: Data, to file: URL) throws {
        let draft = try draft(data, beside: file)
        guard rename(draft, file.path) == 0 else {
            defer { unlink(draft) }
            throw POSIXError.last
        }
        try flush(file.deletingLastPathComponent())
    }

    /// Makes a file unless there is one: of several who do so at once one succeeds.
    ///
    /// - Throws: `POSIXError`.
    static func create(_ data: Data, at file: URL) throws {
        let draft = try draft(data, beside: file)
        defer { unlink(draft) }
        if link(draft, file.path) != 0, errno != EEXIST { throw POSIXError.last }
        try flush(file.deletingLastPathComponent())
    }

    private static func draft(_ data: Data, beside file: URL) throws -> String {
        let draft = "\(file.path).\(UUID().uuidString)"
        let descriptor = open(draft, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw POSIXError.last }
        defer { close(descriptor) }
        do {
            // Some hundred bytes: a regular file takes them in one write, or the disk is full.
            let count = data.withUnsafeBytes { systemWrite(descriptor, $0) }
            guard count == data.count else { throw POSIXError(.ENOSPC) }
            guard fsync(descriptor) == 0 else { throw POSIXError.last }
            return draft
        } catch {
            unlink(draft)
            throw error
        }
    }

    private static func flush(_ folder: URL) throws {
        let descriptor = open(folder.path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { throw POSIXError.last }
        defer { close(descriptor) }
        guard fsync(descriptor) == 0 else { throw POSIXError.last }
    }
}

// Outside of the type, whose own `write` would hide the system's.
private func systemWrite(_ descriptor: Int32, _ bytes: UnsafeRawBufferPointer) -> Int {
    bytes.isEmpty ? 0 : write(descriptor, bytes.baseAddress, bytes.count)
}

extension POSIXError {
    fileprivate static var last: POSIXError { POSIXError(Code(rawValue: errno) ?? .EIO) }
}
