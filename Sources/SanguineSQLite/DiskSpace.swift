import Foundation

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#elseif canImport(Darwin)
import Darwin
#endif

/// The space that the file system of a folder reports.
struct DiskSpace: Hashable, Sendable {
    /// The number of bytes that this process can still write.
    let freeBytes: Int64
    /// Whether the file system is mounted read-only.
    let isReadOnly: Bool

    /// Queries the system, or returns `nil` if it reports nothing.
    init?(of path: String) {
        var status = statvfs()
        guard statvfs(path, &status) == 0 else { return nil }
        let blocks = UInt64(status.f_bavail)
        let bytes = blocks.multipliedReportingOverflow(by: UInt64(status.f_frsize))
        freeBytes = Int64(clamping: bytes.overflow ? .max : bytes.partialValue)
        isReadOnly = status.f_flag & UInt(ST_RDONLY) != 0
    }
}
