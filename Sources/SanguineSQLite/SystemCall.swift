import Foundation

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#elseif canImport(Darwin)
import Darwin
#endif

/// System calls that Swift's modules of the C libraries do not declare on Linux.
///
/// They are looked up by name. If the C library or the kernel lacks one, the result is `nil`, and
/// the caller continues without it.
enum SystemCall {
    /// The properties that distinguish a file from others, and its states from each other.
    struct FileFacts: Equatable {
        /// The file's number on its disk, which may be reused after the file is removed.
        var inode: UInt64
        /// The creation time; 0 if the file system does not report it.
        ///
        /// On Linux programs cannot set it.
        var madeAt: Int64
        /// The time of the last change of the content; programs can set it.
        var writtenAt: Int64
        /// The time of the last change of the content, owner, permissions or times; 0 if the system
        /// does not report it.
        ///
        /// Programs cannot set it.
        var changedAt: Int64
    }

    /// Returns a file's properties, with times in nanoseconds since 1970, or `nil` if it does not
    /// exist.
    static func facts(of path: String) -> FileFacts? {
        #if canImport(Darwin)
        var status = stat()
        guard stat(path, &status) == 0 else { return nil }
        func nanoseconds(_ time: timespec) -> Int64 {
            Int64(time.tv_sec) &* 1_000_000_000 &+ Int64(time.tv_nsec)
        }
        return FileFacts(
            inode: UInt64(status.st_ino),
            madeAt: nanoseconds(status.st_birthtimespec),
            writtenAt: nanoseconds(status.st_mtimespec),
            changedAt: nanoseconds(status.st_ctimespec)
        )
        #else
        guard let words = statx(path) else {
            // Without the system call only these are available.
            let facts = try? FileManager.default.attributesOfItem(atPath: path)
            guard let facts, let inode = facts[.systemFileNumber] as? NSNumber,
                let date = facts[.modificationDate] as? Date
            else { return nil }
            let writtenAt = Int64((date.timeIntervalSince1970 * 1_000_000_000).rounded())
            return FileFacts(
                inode: inode.uint64Value,
                madeAt: 0,
                writtenAt: writtenAt,
                changedAt: 0
            )
        }
        func nanoseconds(_ index: Int) -> Int64 {
            Int64(bitPattern: words[index]) &* 1_000_000_000
                &+ Int64(UInt32(truncatingIfNeeded: words[index + 1]))
        }
        return FileFacts(
            inode: words[4],
            madeAt: words[0] & statxBirth == 0 ? 0 : nanoseconds(10),
            writtenAt: nanoseconds(14),
            changedAt: nanoseconds(12)
        )
        #endif
    }

    /// Returns whether the folder is a mount point, which cannot be renamed.
    static func isMountPoint(_ path: String) -> Bool {
        #if !canImport(Darwin)
        // This also detects a folder that is mounted from the same disk.
        if let words = statx(path), words[7] & statxMountRoot != 0 {
            return words[1] & statxMountRoot != 0
        }
        #endif
        guard let own = disk(of: path), let parent = disk(of: path + "/..") else { return false }
        return own != parent
    }

    /// Returns the number of a file's disk.
    private static func disk(of path: String) -> NSNumber? {
        let attributes = try? FileManager.default.attributesOfItem(atPath: path)
        return attributes?[.systemNumber] as? NSNumber
    }

    /// Exchanges the names of two folders in one step.
    ///
    /// - Returns: `false` if the file system does not support it.
    static func exchange(_ path: String, _ other: String) throws(ChunkedReader.Failure) -> Bool {
        #if canImport(Darwin)
        let result = renamex_np(path, other, UInt32(RENAME_SWAP))
        let lacking = [ENOTSUP, ENOSYS, EINVAL]
        #else
        guard let symbol = dlsym(nil, "renameat2") else { return false }
        // The C libraries declare the function with these parameters (`renameat2(2)`).
        let call = unsafeBitCast(symbol, to: Rename.self)
        let result = call(AT_FDCWD, path, AT_FDCWD, other, renameExchange)
        let lacking = [EINVAL, ENOSYS, EOPNOTSUPP]
        #endif
        if result == 0 { return true }
        guard lacking.contains(errno) else { throw ChunkedReader.Failure(other) }
        return false
    }

    #if !canImport(Darwin)
    private typealias Rename =
        @convention(c) (
            Int32, UnsafePointer<CChar>, Int32, UnsafePointer<CChar>, UInt32
        ) -> Int32
    private typealias Statx =
        @convention(c) (
            Int32, UnsafePointer<CChar>, Int32, UInt32, UnsafeMutableRawPointer
        ) -> Int32

    private static let renameExchange: UInt32 = 2
    private static let statxBirth: UInt64 = 0x800
    private static let statxMountRoot: UInt64 = 0x2000

    /// Returns the 256 bytes of `struct statx` as 64-bit words; see `linux/stat.h`.
    ///
    /// The first of two halves is the low one: Swift supports only little-endian systems.
    private static func statx(_ path: String) -> [UInt64]? {
        guard let symbol = dlsym(nil, "statx") else { return nil }
        var words = [UInt64](repeating: 0, count: 32)
        // The C libraries declare the function with these parameters (`statx(2)`).
        let call = unsafeBitCast(symbol, to: Statx.self)
        let basicAndBirth: UInt32 = 0xFFF
        return call(AT_FDCWD, path, 0, basicAndBirth, &words) == 0 ? words : nil
    }
    #endif
}
