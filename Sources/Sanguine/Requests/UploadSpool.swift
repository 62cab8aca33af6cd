import Foundation
import Synchronization

/// Where a form with files is put together before it is sent: files of this process, which are
/// removed as soon as they were sent, and at the next start after a crash.
///
///     <folder>/
///       <run>.lock    locked as long as the process lives that uses the folder beside it
///       <run>/        its files
///
/// Mutable state: `run`, by its mutex, which is held while the folder is made.
final class UploadSpool: Sendable {
    /// A file that is being put together, or sent.
    struct File: Sendable {
        let url: URL

        /// Removes it.
        func remove() {
            // If that fails, it goes at the next start.
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

    /// The name of the folder beside a client's other files.
    static let name = "sanguine-uploads"
    private static let lockSuffix = ".lock"

    private let folder: URL
    private let run = Mutex<Run?>(nil)

    /// Creates a spool; nothing is made on disk before it is used.
    ///
    /// - Parameter folder: A client's folder; `nil` for one that keeps nothing there: its files lie
    ///   in the system's folder for temporary files while they are sent.
    init(in folder: URL?) {
        self.folder = (folder ?? FileManager.default.temporaryDirectory).appending(path: Self.name)
    }

    deinit { end() }

    /// Removes everything: nothing is sent any more.
    func end() {
        run.withLock { run in
            if let run { Self.remove(run.url, run.lock) }
            run = nil
        }
    }

    /// A new file, which nobody else can read.
    ///
    /// - Throws: What the system said.
    func makeFile() throws -> (file: File, handle: FileHandle) {
        let folder = try run.withLock { run in
            if let run, run.isThere { return run.url }
            // Everything local was erased meanwhile.
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

    /// Removes what processes have left that have died.
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
            // Another process that starts may have taken it for a dead one's before it was locked.
            if isLocked, begun.isThere { return begun }
            lock.close()
        }
    }

    private static func remove(_ run: URL, _ lock: LockFile) {
        // What cannot be removed now is tried again at the next start.
        if (try? FileManager.default.removeItem(at: run)) != nil
            || !FileManager.default.fileExists(atPath: run.path)
        {
            try? FileManager.default.removeItem(atPath: run.path + lockSuffix)
        }
        lock.close()
    }
}
