import Foundation

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#elseif canImport(Darwin)
import Darwin
#endif

/// Calls of the system that Swift's modules of the C libraries do not declare on Linux.
///
/// They are looked up by name. Where the C library or the kernel does not have one, the answer is
/// `nil`, and the caller does without.
enum SystemCall {
    /// What tells one file from another, and one state of it from the next.
    struct FileFacts: Equatable {
        /// The file's number on its disk, which a new file may get once the old one is removed.
        var inode: UInt64
        /// When the file was made; 0 if the file system does not say.
        ///
        /// On Linux no program can set it.
        var madeAt: Int64
        /// When the content was last written; programs can set it.
        var writtenAt: Int64
        /// When the content, owner, permissions or times were last changed; 0 if the system does
        /// not say.
        ///
        /// No program can set it.
        var changedAt: Int64
    }

    /// Returns the facts of a file, with times in nanoseconds since 1970; `nil` if there is none.
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
            // Without the call there are only these.
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

    /// Whether something is mounted at the folder, so that it cannot be renamed.
    static func isMountPoint(_ path: String) -> Bool {
        #if !canImport(Darwin)
        // Also of a folder that is mounted from the same disk.
        if let words = statx(path), words[7] & statxMountRoot != 0 {
            return words[1] & statxMountRoot != 0
        }
        #endif
        guard let own = disk(of: path), let parent = disk(of: path + "/..") else { return false }
        return own != parent
    }

    /// The number of the disk that a file is on.
    private static func disk(of path: String) -> NSNumber? {
        let attributes = try? FileManager.default.attributesOfItem(atPath: path)
        return attributes?[.systemNumber] as? NSNumber
    }

    /// Lets two folders change their names in one step.
    ///
    /// - Returns: Whether it was done; `false` if the file system cannot do it.
    static func exchange(_ path: String, _ other: String) throws(Piecewise.Failure) -> Bool {
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
        guard lacking.contains(errno) else { throw Piecewise.Failure(other) }
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

    /// Returns the 256 bytes of `struct statx` as words of 64 bits; see `linux/stat.h`.
    ///
    /// Of two halves the first is the low one: no system with another order of bytes has Swift.
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
