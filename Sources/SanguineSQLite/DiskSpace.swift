import Foundation

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#elseif canImport(Darwin)
import Darwin
#endif

/// What the file system of a folder says of itself.
struct DiskSpace: Hashable, Sendable {
    /// Bytes that this process can still write.
    let freeBytes: Int64
    /// Whether nothing at all can be written, because it is mounted so.
    let isReadOnly: Bool

    /// Asks the system, or returns `nil` if it does not say.
    init?(of path: String) {
        var status = statvfs()
        guard statvfs(path, &status) == 0 else { return nil }
        let blocks = UInt64(status.f_bavail)
        let bytes = blocks.multipliedReportingOverflow(by: UInt64(status.f_frsize))
        freeBytes = Int64(clamping: bytes.overflow ? .max : bytes.partialValue)
        isReadOnly = status.f_flag & UInt(ST_RDONLY) != 0
    }
}
