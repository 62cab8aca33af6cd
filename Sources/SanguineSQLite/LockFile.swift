import Foundation
import Synchronization

/// Prevents a data folder from being opened twice, in another process or in this one.
///
/// The kernel's lock (`flock`) ends with the process in any case, so a file that a crashed process
/// left behind does not lock anything. The file contains the owner's process id, for the error
/// message. It is never removed: a process that had just opened it would lock a file that others
/// cannot see. Because it may be removed manually, the folder itself is locked as well.
///
/// Mutable state: `descriptors`, guarded by its mutex; empty once released.
final class LockFile: Sendable {
    private let descriptors: Mutex<[Int32]>

    init(in folder: DataFolder) throws(SQLiteStorageError) {
        let path = folder.lockPath
        let file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        guard file >= 0 else { throw .failed("\(path): \(String(cString: strerror(errno)))") }
        guard flock(file, LOCK_EX | LOCK_NB) == 0 else {
            let reason = errno
            let owner = Self.processID(in: file)
            Foundation.close(file)
            guard reason == EWOULDBLOCK else {
                throw .failed("\(path): \(String(cString: strerror(reason)))")
            }
            throw .locked(folder: folder.path, process: owner)
        }
        let directory = open(folder.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard directory >= 0, flock(directory, LOCK_EX | LOCK_NB) == 0 else {
            let reason = errno
            Foundation.close(file)
            if directory >= 0 { Foundation.close(directory) }
            guard reason == EWOULDBLOCK else {
                throw .failed("\(folder.path): \(String(cString: strerror(reason)))")
            }
            throw .locked(folder: folder.path, process: nil)
        }
        let text = Array("\(getpid())\n".utf8)
        // Without the process id the lock still holds, and only the other process's message lacks
        // it.
        _ = ftruncate(file, 0)
        _ = pwrite(file, text, text.count, 0)
        descriptors = Mutex([file, directory])
    }

    deinit { release() }

    /// Releases the lock; further calls do nothing.
    func release() {
        let open = descriptors.withLock { descriptors -> [Int32] in
            defer { descriptors = [] }
            return descriptors
        }
        for descriptor in open {
            // A child process that was just forked shares the descriptor until it executes.
            flock(descriptor, LOCK_UN)
            Foundation.close(descriptor)
        }
    }

    /// Returns the process that has the folder open.
    ///
    /// It acquires the lock for a moment, in shared mode.
    static func holder(of folder: DataFolder) -> SQLiteFolderFacts.Holder {
        let file = open(folder.lockPath, O_RDONLY | O_CLOEXEC)
        guard file >= 0 else { return .nobody }
        defer { Foundation.close(file) }
        guard flock(file, LOCK_SH | LOCK_NB) != 0, errno == EWOULDBLOCK else { return .nobody }
        return .process(processID(in: file))
    }

    private static func processID(in file: Int32) -> Int32? {
        var bytes = [UInt8](repeating: 0, count: 20)
        let count = pread(file, &bytes, bytes.count, 0)
        guard count > 0 else { return nil }
        let text = String(decoding: bytes[..<count], as: UTF8.self)
        return Int32(text.trimmingCharacters(in: .whitespacesAndNewlines))
    }
}
