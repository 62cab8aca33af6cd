import Foundation
import Synchronization

/// Stores forms with files while they are sent; its files belong to this process and are removed
/// after sending, or at the next launch after a crash.
///
///     <folder>/
///       <run>.lock    locked as long as the process lives that uses the folder next to it
///       <run>/        its files
///
/// Mutable state: `run`, protected by its mutex, which is held while the folder is created.
final class UploadSpool: Sendable {
    /// A file that is being assembled or sent.
    struct File: Sendable {
        let url: URL

        /// Removes the file.
        func remove() {
            // If this fails, the next launch removes it.
            try? FileManager.default.removeItem(at: url)
        }
    }

    private struct Run {
        let url: URL
        let lock: LockFile

        var isThere: Bool {
            FileManager.default.fileExists(atPath: url.path + UploadSpool.lockSuffix)
        }
    }

    /// The name of the folder among a client's other files.
    static let name = "sanguine-uploads"
    private static let lockSuffix = ".lock"

    private let folder: URL
    private let run = Mutex<Run?>(nil)

    /// Creates a spool; nothing is created on disk until it is used.
    ///
    /// - Parameter folder: The client's folder; `nil` for a client without files, which uses the
    ///   system's folder for temporary files during a request.
    init(in folder: URL?) {
        self.folder = (folder ?? FileManager.default.temporaryDirectory).appending(path: Self.name)
    }

    deinit { end() }

    /// Removes everything, because nothing more will be sent.
    func end() {
        run.withLock { run in
            if let run { Self.remove(run.url, run.lock) }
            run = nil
        }
    }

    /// Creates a file that only this user can read.
    ///
    /// - Throws: The system's error.
    func makeFile() throws -> (file: File, handle: FileHandle) {
        let folder = try run.withLock { run in
            if let run, run.isThere { return run.url }
            // All local data was erased in the meantime.
            run?.lock.close()
            run = nil
            let fresh = try Self.begin(in: self.folder)
            run = fresh
            return fresh.url
        }
        try SQLiteFile.makePrivateFolder(folder)
        let file = File(url: folder.appending(path: UUID().uuidString))
        try Data().write(to: file.url, options: .withoutOverwriting)
        do {
            return (file, try FileHandle(forWritingTo: file.url))
        } catch {
            file.remove()
            throw error
        }
    }

    /// Removes the files of processes that have ended.
    func removeLeftovers() {
        let manager = FileManager.default
        let names = (try? manager.contentsOfDirectory(atPath: folder.path)) ?? []
        for name in names where name.hasSuffix(Self.lockSuffix) {
            guard let lock = LockFile(folder.appending(path: name).path) else { continue }
            guard lock.tryLock() else {
                lock.close()
                continue
            }
            let run = folder.appending(path: String(name.dropLast(Self.lockSuffix.count)))
            Self.remove(run, lock)
        }
    }

    private static func begin(in folder: URL) throws -> Run {
        try SQLiteFile.makePrivateFolder(folder)
        while true {
            let run = folder.appending(path: UUID().uuidString)
            guard let lock = LockFile(run.path + lockSuffix) else {
                throw CocoaError(.fileWriteNoPermission)
            }
            let isLocked = lock.lock(within: ClientLimits.fileLockWait)
            let begun = Run(url: run, lock: lock)
            // A process that starts may have removed it as a leftover before it was locked.
            if isLocked, begun.isThere { return begun }
            lock.close()
        }
    }

    private static func remove(_ run: URL, _ lock: LockFile) {
        // If the removal fails, the next launch tries again.
        if (try? FileManager.default.removeItem(at: run)) != nil
            || !FileManager.default.fileExists(atPath: run.path)
        {
            try? FileManager.default.removeItem(atPath: run.path + lockSuffix)
        }
        lock.close()
    }
}
