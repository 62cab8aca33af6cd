import Foundation

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#elseif canImport(Darwin)
import Darwin
#endif

/// Writes small files that appear as a whole or not at all, and are flushed to disk when the call
/// returns.
enum DurableFile {
    /// Writes a file, and replaces an existing one.
    ///
    /// - Throws: `POSIXError`.
    static func write(_ data: Data, to file: URL) throws {
        // Opened first, so that a process without a free descriptor changes nothing.
        let folder = try open(folder: file.deletingLastPathComponent())
        defer { close(folder) }
        let draft = try draft(data, beside: file)
        guard rename(draft, file.path) == 0 else {
            defer { unlink(draft) }
            throw POSIXError.last
        }
        guard fsync(folder) == 0 else { throw POSIXError.last }
    }

    /// Creates a file unless it exists; of several concurrent calls, one succeeds.
    ///
    /// - Throws: `POSIXError`.
    static func create(_ data: Data, at file: URL) throws {
        let folder = try open(folder: file.deletingLastPathComponent())
        defer { close(folder) }
        let draft = try draft(data, beside: file)
        defer { unlink(draft) }
        if link(draft, file.path) != 0, errno != EEXIST { throw POSIXError.last }
        guard fsync(folder) == 0 else { throw POSIXError.last }
    }

    /// Flushes the names of a folder's files to disk.
    ///
    /// - Throws: `POSIXError`.
    static func flush(folder: URL) throws {
        let descriptor = try open(folder: folder)
        defer { close(descriptor) }
        guard fsync(descriptor) == 0 else { throw POSIXError.last }
    }

    private static func draft(_ data: Data, beside file: URL) throws -> String {
        let draft = "\(file.path).\(UUID().uuidString)"
        let descriptor = systemCreate(draft)
        guard descriptor >= 0 else { throw POSIXError.last }
        defer { close(descriptor) }
        do {
            // It is a few hundred bytes: a regular file takes them in one write unless the disk is
            // full.
            let count = data.withUnsafeBytes { systemWrite(descriptor, $0) }
            guard count == data.count else { throw POSIXError(.ENOSPC) }
            guard fsync(descriptor) == 0 else { throw POSIXError.last }
            return draft
        } catch {
            unlink(draft)
            throw error
        }
    }

    private static func open(folder: URL) throws -> Int32 {
        let descriptor = systemOpen(folder.path)
        guard descriptor >= 0 else { throw POSIXError.last }
        return descriptor
    }
}

// Outside of the type, because its own `open` and `write` would hide the system's.
private func systemOpen(_ folder: String) -> Int32 { open(folder, O_RDONLY | O_CLOEXEC) }

private func systemCreate(_ draft: String) -> Int32 {
    open(draft, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
}

private func systemWrite(_ descriptor: Int32, _ bytes: UnsafeRawBufferPointer) -> Int {
    bytes.isEmpty ? 0 : write(descriptor, bytes.baseAddress, bytes.count)
}

extension POSIXError {
    fileprivate static var last: POSIXError { POSIXError(Code(rawValue: errno) ?? .EIO) }
}
