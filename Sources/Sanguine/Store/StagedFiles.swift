import Foundation
import SanguineModel
import Synchronization

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#elseif canImport(Darwin)
import Darwin
#endif

/// The files of a user that wait for their upload, next to the outbox and as durable as that.
///
/// The folder's name begins with that of the outbox, so that it is kept and removed with it. A file
/// is copied under another name, flushed and renamed, so it exists as a whole or not at all.
///
/// Invariant: there are at most ``ClientLimits/stagedFiles`` files of at most
/// ``ClientLimits/stagedBytes`` together, or ``ClientLimits/stagedBytesInMemory`` without a folder;
/// those of the user's earlier stays may exceed that.
///
/// Mutable state: `state`, protected by its mutex, which is not held while a file is copied.
final class StagedFiles: Sendable {
    private struct State {
        /// The sizes of the files, including those that are being copied; `nil` before the first
        /// use.
        var sizes: [String: Int64]?
        /// The files of a client without a folder.
        var memory: [String: Data] = [:]
    }

    private static let name = OutboxFile.name + "-files"
    private static let draftSuffix = ".draft"
    private static let chunk = 1 << 20

    private let folder: URL?
    private let state = Mutex(State())

    /// - Parameter folder: The user's folder; `nil` keeps the files in memory.
    init(in folder: URL?) { self.folder = folder?.appending(path: Self.name) }

    /// The limit of the files' total size in bytes.
    private var limit: Int64 {
        folder == nil ? ClientLimits.stagedBytesInMemory : ClientLimits.stagedBytes
    }

    // MARK: - Reading

    /// Whether there are no files.
    var isEmpty: Bool { state.withLock { sizes(&$0).isEmpty } }

    /// Whether a file exists.
    func contains(_ id: String) -> Bool { state.withLock { sizes(&$0)[id] != nil } }

    /// Returns the content of a file; `nil` if it is gone.
    ///
    /// - Throws: ``SanguineError/store(_:)`` if it exists and cannot be read now, such as before
    ///   the device is unlocked.
    func body(of id: String, type: String) throws(SanguineError) -> RequestBody? {
        guard contains(id) else { return nil }
        guard let folder else {
            return state.withLock { $0.memory[id] }.map { .data($0, type: type) }
        }
        let url = folder.appending(path: id)
        if url.readableFileSize != nil { return .file(url, type: type) }
        guard FileManager.default.fileExists(atPath: url.path) else { return nil }
        throw .unreadableStagedFile
    }

    /// Returns the bytes of a file; `nil` if it is gone or larger than an image may be.
    func data(of id: String) -> Data? {
        let size = state.withLock { sizes(&$0)[id] }
        guard let size, size <= ImageLimits.fileBytes else { return nil }
        guard let folder else { return state.withLock { $0.memory[id] } }
        return try? Data(contentsOf: folder.appending(path: id))
    }

    // MARK: - Writing

    /// Copies a file, which is flushed to disk when this returns.
    ///
    /// - Throws: ``SanguineError``: `body_too_large` or `storage_full` beyond the limits,
    ///   `malformed_body` if it cannot be read, `store` if the disk failed. Nothing is left then.
    func add(_ body: RequestBody, as id: String) throws(SanguineError) {
        let size = Int64(body.knownBytes ?? 0)
        try reserve(size, for: id)
        do throws(SanguineError) {
            switch body.content {
            case .data(let data): try write(id) { append in try append(data) }
            case .file(let url): try copy(url, size, as: id)
            case .parts: throw .invalidDeclaration("Upload bytes or a file, not a form.")
            }
        } catch {
            remove(id)
            throw error
        }
    }

    private func reserve(_ size: Int64, for id: String) throws(SanguineError) {
        guard size <= limit else {
            throw .problem(.stagedFileTooLarge(limit, isInMemory: folder == nil))
        }
        let isAccepted = state.withLock { state in
            let sizes = sizes(&state)
            guard sizes.count < ClientLimits.stagedFiles,
                sizes.values.reduce(size, +) <= limit
            else { return false }
            state.sizes?[id] = size
            return true
        }
        guard isAccepted else { throw .problem(.tooManyStagedFiles(limit)) }
    }

    private func copy(_ url: URL, _ size: Int64, as id: String) throws(SanguineError) {
        guard url.readableFileSize == size, let source = try? FileHandle(forReadingFrom: url) else {
            throw .fileIsGone(url)
        }
        defer { try? source.close() }  // It was only read.
        var rest = size
        try write(id) { append in
            while let part = try source.read(upToCount: Self.chunk), !part.isEmpty {
                rest -= Int64(part.count)
                guard rest >= 0 else { break }  // It grows while it is copied.
                try append(part)
            }
        }
        guard rest == 0 else { throw .fileIsGone(url) }
    }

    /// Writes a file in parts.
    private func write(
        _ id: String,
        _ body: ((Data) throws -> Void) throws -> Void
    ) throws(SanguineError) {
        do {
            guard let folder else {
                var content = Data()
                try body { content += $0 }
                let whole = content
                return state.withLock { $0.memory[id] = whole }
            }
            // The folder of a user who has left must not appear again.
            guard FileManager.default.fileExists(atPath: folder.deletingLastPathComponent().path)
            else { throw CocoaError(.fileNoSuchFile) }
            try SQLiteFile.makePrivateFolder(folder)
            let draft = folder.appending(path: id + Self.draftSuffix)
            defer { try? FileManager.default.removeItem(at: draft) }
            try Data().write(to: draft)
            let handle = try FileHandle(forWritingTo: draft)
            defer { try? handle.close() }
            try body { try handle.write(contentsOf: $0) }
            try handle.synchronize()
            guard rename(draft.path, folder.appending(path: id).path) == 0 else {
                throw CocoaError(.fileWriteUnknown)
            }
            try DurableFile.flush(folder: folder)
            // The folder itself may be new.
            try DurableFile.flush(folder: folder.deletingLastPathComponent())
        } catch {
            throw .store(.writeFailed("a file to be uploaded: \(error)"))
        }
    }

    /// Adds the files of an earlier stay, which stay where they are as well.
    ///
    /// - Parameters:
    ///   - other: The files of the earlier stay.
    ///   - ids: The files to add. Default: all.
    /// - Throws: The system's error.
    func add(filesOf other: StagedFiles, only ids: Set<String>? = nil) throws {
        let files = other.state.withLock { state in (other.sizes(&state), state.memory) }
        let known = state.withLock { sizes(&$0) }
        for (id, size) in files.0 where known[id] == nil && ids?.contains(id) != false {
            if let folder, let source = other.folder {
                try SQLiteFile.makePrivateFolder(folder)
                let url = folder.appending(path: id)
                // No second copy of the bytes, and no half file.
                try FileManager.default.linkItem(at: source.appending(path: id), to: url)
            }
            state.withLock { state in
                state.sizes?[id] = size
                state.memory[id] = files.1[id]
            }
        }
        if let folder, !files.0.isEmpty { try DurableFile.flush(folder: folder) }
    }

    /// Removes a file.
    func remove(_ id: String) {
        state.withLock { state in
            _ = sizes(&state)
            state.sizes?[id] = nil
            state.memory[id] = nil
            // If this fails, the next launch removes it.
            if let folder { try? FileManager.default.removeItem(at: folder.appending(path: id)) }
        }
    }

    /// Removes all files that no operation needs.
    func keep(only needed: Set<String>) {
        let others = state.withLock { sizes(&$0) }.keys.filter { !needed.contains($0) }
        for id in others { remove(id) }
    }

    /// Returns the sizes of the files, which are read from disk at the first use; drafts of a
    /// process that has ended are removed.
    private func sizes(_ state: inout State) -> [String: Int64] {
        if let sizes = state.sizes { return sizes }
        var sizes: [String: Int64] = [:]
        let names = folder.flatMap { try? FileManager.default.contentsOfDirectory(atPath: $0.path) }
        // A folder that cannot be read now is read again.
        if names == nil, let folder, FileManager.default.fileExists(atPath: folder.path) {
            return sizes
        }
        for name in names ?? [] {
            guard let url = folder?.appending(path: name) else { continue }
            if LocalFile.isValid(name) {
                sizes[name] = url.readableFileSize ?? 0
            } else {
                try? FileManager.default.removeItem(at: url)
            }
        }
        state.sizes = sizes
        return sizes
    }
}

extension SanguineError {
    /// A file that waits for its upload exists and cannot be read now.
    static let unreadableStagedFile = SanguineError.store(
        .readFailed("a file to be uploaded is not readable")
    )
}

extension Problem {
    /// A file is larger than all files together that can wait for their upload.
    fileprivate static func stagedFileTooLarge(_ limit: Int64, isInMemory: Bool) -> Problem {
        let choice = isInMemory ? "Turn off 'isInMemory', or choose" : "Choose"
        let place = isInMemory ? " in memory" : ""
        return Problem(
            .bodyTooLarge,
            "\(choice) a smaller file: at most \(limit >> 20) MiB can wait\(place)."
        )
    }

    /// A file is not accepted because too many others wait for their upload.
    fileprivate static func tooManyStagedFiles(_ limit: Int64) -> Problem {
        Problem(
            .storageFull,
            """
            Connect to the network, or discard uploads: at most \(ClientLimits.stagedFiles) files \
            of \(limit >> 20) MiB together can wait.
            """
        )
    }
}
