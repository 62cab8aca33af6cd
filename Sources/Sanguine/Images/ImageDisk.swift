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

/// The image files of one user, or those that all users share.
///
/// A file holds a line of JSON, which names the image and its rules, and the bytes as they arrived.
/// It is written under another name and renamed, so that a process that ends leaves no half file. A
/// file whose length, checksum or name is wrong is removed, and the image is loaded again.
///
/// Mutable state: `state`, protected by its mutex, which is not held during I/O; the files, by the
/// queue, on which all I/O runs.
final class ImageDisk: Sendable {
    /// A file that was read.
    struct File: Sendable {
        let data: Data
        let freshness: ImageFreshness
        var isFromDisk = true
    }

    /// The first line of a file.
    private struct Head: Codable {
        var key: String
        var bytes: Int
        var checksum: String
        var expiry: Int64?
        var tag: String?
        var modified: String?
    }

    private struct State {
        var files: ImageFiles?
        var writes = 0
        var isEnded = false
        var damaged = 0
        var evicted = 0
        var unwritten = 0
    }

    static let name = "sanguine-images"
    private static let headBytes = 16 << 10
    private static let draftSuffix = ".draft"

    private let folder: URL?
    private let limit: Int64
    private let queue: any SerialQueue
    private let clock: any WallClock
    private let state = Mutex(State())

    /// - Parameters:
    ///   - folder: The folder of the files, which is created when needed; `nil` stores nothing.
    ///   - limit: The maximum number of bytes of all files.
    ///   - queue: The queue for I/O.
    ///   - clock: The time of the last use of a file.
    init(in folder: URL?, limit: Int64, queue: any SerialQueue, clock: any WallClock) {
        self.folder = folder?.appending(path: Self.name)
        (self.limit, self.queue, self.clock) = (limit, queue, clock)
    }

    /// The bytes of the files and their number, as far as they are known; damaged and evicted files
    /// so far, and images that were not written because too many waited or the disk failed.
    var survey: (bytes: Int64, files: Int, damaged: Int, evicted: Int, unwritten: Int) {
        state.withLock { state in
            (
                state.files?.bytes ?? 0, state.files?.count ?? 0, state.damaged, state.evicted,
                state.unwritten
            )
        }
    }

    /// Stops all access; nothing is written after this returns.
    func end() {
        state.withLock { $0.isEnded = true }
        if folder != nil { queue.sync {} }
    }

    /// Whether there is a file of an image, which may be damaged.
    func contains(_ key: ImageFileKey) -> Bool {
        guard let folder else { return false }
        return FileManager.default.fileExists(
            atPath: folder.appending(path: Self.name(of: key)).path
        )
    }

    // MARK: - Reading

    /// Reads the file of an image; `nil` if there is none, or it was damaged.
    func read(_ key: ImageFileKey) async -> File? {
        guard let folder, !state.withLock({ $0.isEnded }) else { return nil }
        return await withCheckedContinuation { continuation in
            queue.async { [self] in continuation.resume(returning: readNow(key, in: folder)) }
        }
    }

    private func readNow(_ key: ImageFileKey, in folder: URL) -> File? {
        guard isOpen(folder) else { return nil }
        let name = Self.name(of: key)
        guard state.withLock({ $0.files?.contains(name) }) == true else { return nil }
        let url = folder.appending(path: name)
        guard let content = try? Data(contentsOf: url), let file = Self.file(content, key) else {
            remove(name, in: folder)
            state.withLock { $0.damaged += 1 }
            return nil
        }
        state.withLock { $0.files?.use(name) }
        touch(url)
        return file
    }

    private static func file(_ content: Data, _ key: ImageFileKey) -> File? {
        let start = content.prefix(headBytes)
        guard let end = start.firstIndex(of: UInt8(ascii: "\n")),
            let head = try? JSONDecoder().decode(Head.self, from: content[..<end])
        else { return nil }
        let data = Data(content[content.index(after: end)...])
        guard head.key == key.text, head.bytes == data.count, head.checksum == checksum(data) else {
            return nil
        }
        var freshness = ImageFreshness()
        freshness.expiry = head.expiry.map { Timestamp(millisecondsSince1970: $0) }
        (freshness.tag, freshness.modified) = (head.tag, head.modified)
        return File(data: data, freshness: freshness)
    }

    // MARK: - Writing

    /// Writes a file in the background.
    func write(_ data: Data, _ freshness: ImageFreshness, for key: ImageFileKey) {
        guard let folder, freshness.isStorable else { return }
        let mayWrite = state.withLock { state in
            guard !state.isEnded else { return false }
            guard state.writes < ImageLimits.waitingWrites else {
                state.unwritten += 1
                return false
            }
            state.writes += 1
            return true
        }
        guard mayWrite else { return }
        queue.async { [self] in
            defer { state.withLock { $0.writes -= 1 } }
            guard isOpen(folder) else { return }
            do {
                try writeNow(data, freshness, for: key, in: folder)
            } catch {
                // The image is in memory, and is loaded again when it is needed later.
                state.withLock { $0.unwritten += 1 }
            }
        }
    }

    private func writeNow(
        _ data: Data,
        _ freshness: ImageFreshness,
        for key: ImageFileKey,
        in folder: URL
    ) throws {
        let head = Head(
            key: key.text,
            bytes: data.count,
            checksum: Self.checksum(data),
            expiry: freshness.expiry?.millisecondsSince1970,
            tag: freshness.tag,
            modified: freshness.modified
        )
        let line = try JSONEncoder().encode(head)
        guard line.count < Self.headBytes else { return }
        let content = line + Data("\n".utf8) + data
        let name = Self.name(of: key)
        try SQLiteFile.makePrivateFolder(folder)
        let draft = folder.appending(path: name + Self.draftSuffix)
        try content.write(to: draft)
        let url = folder.appending(path: name)
        guard rename(draft.path, url.path) == 0 else {
            try? FileManager.default.removeItem(at: draft)
            throw CocoaError(.fileWriteUnknown)
        }
        touch(url)
        let removed = state.withLock { state in
            let removed = state.files?.add(name, bytes: Int64(content.count)) ?? []
            state.evicted += removed.count
            return removed
        }
        for name in removed { remove(name, in: folder) }
    }

    /// Stores other rules for a file that has not changed, in the background.
    func renew(_ freshness: ImageFreshness, for key: ImageFileKey) {
        guard let folder else { return }
        queue.async { [self] in
            guard let file = readNow(key, in: folder) else { return }
            // If this fails, the file is checked again at its next use.
            try? writeNow(file.data, freshness, for: key, in: folder)
        }
    }

    /// Removes the file of an image in the background.
    func remove(_ key: ImageFileKey) {
        guard let folder else { return }
        queue.async { [self] in
            if isOpen(folder) { remove(Self.name(of: key), in: folder) }
        }
    }

    /// Removes all files, before it returns.
    func removeAll() {
        guard let folder else { return }
        queue.sync {
            try? FileManager.default.removeItem(at: folder)
            state.withLock { $0.files = ImageFiles(limit: limit) }
        }
    }

    /// Returns after all writes so far.
    func flush() { if folder != nil { queue.sync {} } }

    // MARK: - Files

    /// Reads the folder at the first use, on the queue.
    ///
    /// - Returns: Whether the files may be used.
    private func isOpen(_ folder: URL) -> Bool {
        let (isEnded, isKnown) = state.withLock { ($0.isEnded, $0.files != nil) }
        guard !isEnded, !isKnown else { return !isEnded }
        let (files, removed) = ImageFiles.restored(Self.list(folder), limit: limit)
        state.withLock { $0.files = files }
        for name in removed { remove(name, in: folder) }
        return true
    }

    /// Returns the files of a folder, the least recently used first; removes drafts of a process
    /// that has ended.
    private static func list(_ folder: URL) -> [(name: String, bytes: Int64)] {
        let manager = FileManager.default
        let names = (try? manager.contentsOfDirectory(atPath: folder.path)) ?? []
        let files = names.compactMap { name -> (name: String, bytes: Int64, used: Date)? in
            let path = folder.appending(path: name).path
            guard !name.hasSuffix(draftSuffix) else {
                try? manager.removeItem(atPath: path)
                return nil
            }
            guard let facts = try? manager.attributesOfItem(atPath: path),
                let size = facts[.size] as? NSNumber
            else { return nil }
            let used = facts[.modificationDate] as? Date ?? .distantPast
            return (name, size.int64Value, used)
        }
        return files.sorted { ($0.used, $0.name) < ($1.used, $1.name) }
            .map { ($0.name, $0.bytes) }
    }

    private func remove(_ name: String, in folder: URL) {
        state.withLock { $0.files?.remove(name) }
        try? FileManager.default.removeItem(at: folder.appending(path: name))
    }

    /// Records the time of a use, by which files are ordered after a restart.
    private func touch(_ url: URL) {
        let now = Date(timeIntervalSince1970: Double(clock.now().millisecondsSince1970) / 1_000)
        // If this fails, the file is evicted earlier.
        try? FileManager.default.setAttributes([.modificationDate: now], ofItemAtPath: url.path)
    }

    /// The name of a file: a hash of its key.
    ///
    /// The key itself is in the file, so two keys with one name only replace each other.
    static func name(of key: ImageFileKey) -> String {
        let text = Data(key.text.utf8)
        let hashes = [ContentHash.seed, ContentHash.otherSeed].map { ContentHash.hash(text, $0) }
        return hashes.map(ContentHash.hex).joined()
    }

    private static func checksum(_ data: Data) -> String { ContentHash.hex(ContentHash.hash(data)) }
}
