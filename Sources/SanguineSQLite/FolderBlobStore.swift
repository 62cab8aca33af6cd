import Foundation
import SanguineAuthority
import SanguineModel
import Synchronization

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#elseif canImport(Darwin)
import Darwin
#endif

/// Stores the bytes of files in a folder: `blobs/ab/abcdef…`, each named by its content.
///
/// A file is written completely under another name, flushed and renamed, and then its folder is
/// flushed. So a file always has the content that its name identifies, and a stored file survives a
/// loss of power. Its modification time is the time at which it was last stored.
///
/// Work runs on ``threads`` separate threads, so that a slow disk blocks nothing else. Callers must
/// limit the amount of waiting work.
///
/// Invariants:
/// 1. A file is moved into its folder, or stored again, and removed under one lock, so that no file
///    is removed that was just stored again.
/// 2. No file changes after ``close()``, or after damage is found.
///
/// Mutable state: the files, as above; two atomic numbers.
final class FolderBlobStore: BlobStore {
    /// The number of threads: 4.
    static let threads = 4

    private let folder: DataFolder
    private let damage: FoundDamage
    private let queues: [DispatchQueue]
    private let turn = Atomic(0)
    private let draft = Atomic(0)
    private let isClosed = Atomic(false)
    private let filesLock = Mutex(())

    /// Opens the folder, which no other store may use, and removes incomplete files of earlier
    /// processes.
    init(_ folder: DataFolder, damage: FoundDamage = FoundDamage()) {
        self.folder = folder
        self.damage = damage
        queues = (1...Self.threads).map { DispatchQueue(label: "sanguine.blobs.\($0)") }
        // Files that cannot be removed do no harm.
        try? FileManager.default.removeItem(atPath: drafts)
    }

    var thumbnailFolder: String? { folder.path + "/thumbnails" }

    private var drafts: String { folder.blobsPath + "/incoming" }

    private func paths(of id: BlobID) -> (folder: String, file: String) {
        let file = folder.blobPath(id)
        return (URL(filePath: file).deletingLastPathComponent().path, file)
    }

    func keep(
        _ bytes: [UInt8],
        as id: BlobID,
        at moment: Timestamp
    ) async throws(StorageError) {
        try damage.check()
        try await perform { [self] () throws(ChunkedReader.Failure) in
            let paths = paths(of: id)
            for path in [folder.blobsPath, drafts, paths.folder] { try makeFolder(path) }
            let isThere = try filesLock.withLock { _ throws(ChunkedReader.Failure) in
                try keepAgain(paths.file, bytes.count, moment)
            }
            if !isThere {
                let path = "\(drafts)/\(draft.add(1, ordering: .relaxed).newValue)"
                do throws(ChunkedReader.Failure) {
                    try write(bytes, to: path, at: moment)
                    try filesLock.withLock { _ throws(ChunkedReader.Failure) in
                        try check(rename(path, paths.file), paths.file)
                    }
                } catch {
                    unlink(path)
                    throw error
                }
            }
            // This also applies to an existing file: the process that moved it here may have
            // crashed before the flush.
            try ChunkedReader.flush(paths.folder)
        }
    }

    func read(
        _ id: BlobID,
        from offset: Int,
        count: Int
    ) async throws(StorageError) -> [UInt8]? {
        try await perform { [self] () throws(ChunkedReader.Failure) in
            let path = paths(of: id).file
            let file = open(path, O_RDONLY | O_CLOEXEC)
            guard file >= 0 else {
                if errno == ENOENT { return nil }
                throw ChunkedReader.Failure(path)
            }
            defer { Foundation.close(file) }
            return try bytes(of: file, path, from: max(0, offset), count: max(0, count))
        }
    }

    func kept(
        before moment: Timestamp,
        after id: BlobID?,
        limit: Int
    ) async throws(StorageError) -> [BlobID] {
        try await perform { [self] () throws(ChunkedReader.Failure) in
            var found: [BlobID] = []
            let first = id.map { String($0.description.prefix(2)) } ?? ""
            for name in try folder.blobFolders() where name >= first {
                let path = "\(folder.blobsPath)/\(name)"
                let ids = try ChunkedReader.names(in: path).compactMap { BlobID($0) }.sorted()
                for file in ids where id.map({ $0 < file }) ?? true {
                    guard found.count < limit else { return found }
                    guard let at = keptAt(paths(of: file).file), at < moment else { continue }
                    found.append(file)
                }
            }
            return found
        }
    }

    @discardableResult
    func remove(_ id: BlobID, keptBefore moment: Timestamp) async throws(StorageError) -> Bool {
        try damage.check()
        return try await perform { [self] () throws(ChunkedReader.Failure) in
            let path = paths(of: id).file
            return try filesLock.withLock { _ throws(ChunkedReader.Failure) in
                guard let at = keptAt(path), at < moment else { return false }
                try check(unlink(path), path)
                return true
            }
        }
    }

    /// Returns when the running work is done; further work is refused.
    func close() async {
        isClosed.store(true, ordering: .releasing)
        for queue in queues {
            await withCheckedContinuation { caller in queue.async { caller.resume() } }
        }
    }

    /// Performs the body on one of the threads, even if the calling task is cancelled.
    private func perform<Value: Sendable>(
        _ body: @escaping @Sendable () throws(ChunkedReader.Failure) -> Value
    ) async throws(StorageError) -> Value {
        let turn = turn.wrappingAdd(1, ordering: .relaxed).oldValue
        let queue = queues[Int(UInt(bitPattern: turn) % UInt(queues.count))]
        let result = await withCheckedContinuation {
            (caller: CheckedContinuation<Result<Value, StorageError>, Never>) in
            queue.async { [self] in
                guard !isClosed.load(ordering: .acquiring) else {
                    return caller.resume(returning: .failure(.closed))
                }
                do throws(ChunkedReader.Failure) {
                    caller.resume(returning: .success(try body()))
                } catch {
                    caller.resume(returning: .failure(error.asStorageError))
                }
            }
        }
        return try result.get()
    }
}

// Each of these makes one system call, or a few.
extension FolderBlobStore {
    /// Updates the time of an existing file.
    ///
    /// - Returns: Whether the complete file exists.
    private func keepAgain(
        _ path: String,
        _ size: Int,
        _ moment: Timestamp
    ) throws(ChunkedReader.Failure) -> Bool {
        guard let at = keptAt(path), DataFolder.size(of: path) == size else { return false }
        let times = [max(at, moment), max(at, moment)].map(\.systemTime)
        try check(utimensat(AT_FDCWD, path, times, 0), path)
        return true
    }

    private func write(
        _ bytes: [UInt8],
        to path: String,
        at moment: Timestamp
    ) throws(ChunkedReader.Failure) {
        let file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard file >= 0 else { throw ChunkedReader.Failure(path) }
        defer { Foundation.close(file) }
        var writer = PacedWriter(file, path)
        try writer.write(bytes)
        try check(futimens(file, [moment.systemTime, moment.systemTime]), path)
        try writer.finish()
    }

    private func bytes(
        of file: Int32,
        _ path: String,
        from start: Int,
        count: Int
    ) throws(ChunkedReader.Failure) -> [UInt8] {
        let size = lseek(file, 0, SEEK_END)
        guard size >= 0 else { throw ChunkedReader.Failure(path) }
        return try ChunkedReader.read(
            file,
            path,
            from: start,
            min(count, max(0, Int(size) - start))
        )
    }

    /// Creates a folder for its owner, unless it exists, and flushes its parent folder.
    private func makeFolder(_ path: String) throws(ChunkedReader.Failure) {
        guard mkdir(path, 0o700) != 0 else {
            return try ChunkedReader.flush(URL(filePath: path).deletingLastPathComponent().path)
        }
        guard errno == EEXIST else { throw ChunkedReader.Failure(path) }
    }

    /// Returns the time at which a file was last stored, or `nil` if it does not exist.
    private func keptAt(_ path: String) -> Timestamp? {
        let attributes = try? FileManager.default.attributesOfItem(atPath: path)
        guard let date = attributes?[.modificationDate] as? Date else { return nil }
        return Timestamp(
            millisecondsSince1970: Int64((date.timeIntervalSince1970 * 1_000).rounded())
        )
    }

    private func check(_ result: Int32, _ path: String) throws(ChunkedReader.Failure) {
        guard result == 0 else { throw ChunkedReader.Failure(path) }
    }
}

extension Timestamp {
    /// The system's representation of the time, also before 1970.
    fileprivate var systemTime: timespec {
        let (seconds, rest) = millisecondsSince1970.quotientAndRemainder(dividingBy: 1_000)
        let isBefore = rest < 0
        return timespec(
            tv_sec: time_t(isBefore ? seconds - 1 : seconds),
            tv_nsec: Int(isBefore ? rest + 1_000 : rest) * 1_000_000
        )
    }
}
