import Foundation
import SanguineAuthority
import SanguineModel
import Synchronization

/// Keeps thumbnails in a folder, and those used last in memory.
///
/// A thumbnail is found by the hash of its image and its size. It can be made again, so a failure
/// to read or write one is no error. When the folder is full, those unused for longest are removed.
///
/// Files are read and written on one thread. A file is written completely under another name and
/// flushed before it is renamed.
///
/// Mutable state: `state`, guarded by its mutex; the files, changed only on the thread.
package final class ThumbnailCache: Sendable {
    /// The maximum size of all files in bytes: 512 MiB.
    package static let diskBytes = 512 << 20
    /// The maximum number of files: 100,000.
    ///
    /// The names of all files are in memory, and smaller ones would be more.
    package static let thumbnails = 100_000
    /// The maximum size of the thumbnails in memory in bytes: 16 MiB.
    package static let memoryBytes = 16 << 20

    /// The name of a thumbnail.
    struct Key: Hashable, Sendable {
        let image: BlobID
        let side: Int
    }

    fileprivate struct Entry {
        var bytes: Int
        var type: String
        /// Larger numbers were used later.
        var use: UInt64
        /// The thumbnail, if it is in memory.
        var thumbnail: Thumbnail?
    }

    fileprivate struct State {
        var entries: [Key: Entry] = [:]
        var use: UInt64 = 0
        var diskBytes = 0
        var memoryBytes = 0
        var isScanned = false
    }

    private let folder: URL?
    private let limits: (disk: Int, memory: Int, count: Int)
    private let state = Mutex(State())
    private let queue = DispatchQueue(label: "sanguine.thumbnails", qos: .utility)

    /// Creates a cache.
    ///
    /// - Parameters:
    ///   - folder: The folder of the files, which is created if needed; `nil` to keep thumbnails in
    ///     memory only.
    ///   - disk: The maximum size of all files in bytes.
    ///   - memory: The maximum size of the thumbnails in memory in bytes.
    ///   - count: The maximum number of thumbnails.
    init(
        in folder: URL?,
        disk: Int = diskBytes,
        memory: Int = memoryBytes,
        count: Int = thumbnails
    ) {
        self.folder = folder
        limits = (folder == nil ? 0 : disk, memory, count)
    }

    /// The number of thumbnails.
    var count: Int { state.withLock(\.entries.count) }

    /// The sizes of all files, and of the thumbnails in memory, in bytes.
    var bytes: (disk: Int, memory: Int) {
        state.withLock { ($0.diskBytes, $0.memoryBytes) }
    }

    /// Returns a thumbnail that is in memory.
    func remembered(_ key: Key) -> Thumbnail? {
        state.withLock { state in
            guard let thumbnail = state.entries[key]?.thumbnail else { return nil }
            state.touch(key)
            return thumbnail
        }
    }

    /// Returns a thumbnail; `nil` if it must be made.
    func find(_ key: Key) async -> Thumbnail? {
        if let thumbnail = remembered(key) { return thumbnail }
        guard folder != nil else { return nil }
        return await perform { [self] in
            scan()
            guard let type = state.withLock({ $0.entries[key]?.type }), let url = url(key, type)
            else { return nil }
            guard let data = try? Data(contentsOf: url), !data.isEmpty else {
                remove([key])
                return nil
            }
            let thumbnail = Thumbnail(bytes: Array(data), type: type)
            record(thumbnail, key)
            return thumbnail
        }
    }

    /// Stores a thumbnail.
    func store(_ thumbnail: Thumbnail, _ key: Key) async {
        await perform { [self] in
            scan()
            if let url = url(key, thumbnail.type) { try? Self.write(thumbnail.bytes, to: url) }
            record(thumbnail, key)
        }
    }

    /// Removes all thumbnails of an image.
    func remove(of image: BlobID) async {
        await perform { [self] in
            scan()
            remove(WireLimits.imageSides.map { Key(image: image, side: $0) })
        }
    }

    // MARK: - On the thread

    private func perform<Value: Sendable>(_ body: @escaping @Sendable () -> Value) async -> Value {
        await withCheckedContinuation { caller in
            queue.async { caller.resume(returning: body()) }
        }
    }

    private static let extensions = ["image/jpeg": "jpg", "image/webp": "webp"]

    private func url(_ key: Key, _ type: String) -> URL? {
        guard let name = Self.extensions[type] else { return nil }
        let id = key.image.description
        return folder?.appending(path: "\(id.prefix(2))/\(id).\(key.side).\(name)")
    }

    /// Reads the names and sizes of the files once.
    private func scan() {
        guard let folder, !state.withLock({ $0.isScanned }) else { return }
        let keys: [URLResourceKey] = [.fileSizeKey]
        let files = FileManager.default.enumerator(at: folder, includingPropertiesForKeys: keys)
        while let url = files?.nextObject() as? URL {
            let parts = url.lastPathComponent.split(separator: ".")
            guard parts.count == 3, let image = BlobID(String(parts[0])), let side = Int(parts[1]),
                let type = Self.extensions.first(where: { $0.value == parts[2] })?.key,
                let size = try? url.resourceValues(forKeys: [.fileSizeKey]).fileSize
            else { continue }
            let key = Key(image: image, side: side)
            state.withLock { state in
                state.entries[key] = Entry(bytes: size, type: type, use: 0, thumbnail: nil)
                state.diskBytes += size
            }
        }
        state.withLock { $0.isScanned = true }
    }

    /// Records a thumbnail that was read or written, and removes others if there are too many.
    private func record(_ thumbnail: Thumbnail, _ key: Key) {
        let (isOnDisk, limits) = (folder != nil, limits)
        let excess = state.withLock { state -> [Key] in
            state.drop(key, isOnDisk)
            let size = thumbnail.bytes.count
            state.entries[key] = Entry(
                bytes: size,
                type: thumbnail.type,
                use: 0,
                thumbnail: thumbnail
            )
            state.touch(key)
            state.memoryBytes += size
            if isOnDisk { state.diskBytes += size }
            state.forget(above: limits.memory, isOnDisk)
            return state.oldest(above: isOnDisk ? limits.disk : .max, limits.count)
        }
        remove(excess)
    }

    private func remove(_ keys: [Key]) {
        for key in keys {
            guard let entry = state.withLock({ $0.drop(key, folder != nil) }),
                let url = url(key, entry)
            else { continue }
            try? FileManager.default.removeItem(at: url)
        }
    }

    private static func write(_ bytes: [UInt8], to url: URL) throws {
        let parent = url.deletingLastPathComponent()
        try FileManager.default.createDirectory(
            at: parent,
            withIntermediateDirectories: true,
            attributes: [.posixPermissions: 0o700]
        )
        let draft = url.appendingPathExtension("new")
        try Data(bytes).write(to: draft)
        let file = try FileHandle(forWritingTo: draft)
        try file.synchronize()
        try file.close()
        try? FileManager.default.removeItem(at: url)
        try FileManager.default.moveItem(at: draft, to: url)
    }
}

extension ThumbnailCache.State {
    fileprivate mutating func touch(_ key: ThumbnailCache.Key) {
        use += 1
        entries[key]?.use = use
    }

    /// Removes an entry, and returns its type.
    @discardableResult
    fileprivate mutating func drop(_ key: ThumbnailCache.Key, _ isOnDisk: Bool) -> String? {
        guard let entry = entries.removeValue(forKey: key) else { return nil }
        if entry.thumbnail != nil { memoryBytes -= entry.bytes }
        if isOnDisk { diskBytes -= entry.bytes }
        return entry.type
    }

    /// Keeps at most nine tenths of the limit in memory if it is exceeded, so that this is rare.
    fileprivate mutating func forget(above limit: Int, _ isOnDisk: Bool) {
        guard memoryBytes > limit else { return }
        let loaded = entries.filter { $0.value.thumbnail != nil }
        for (key, entry) in loaded.sorted(by: { $0.value.use < $1.value.use }) {
            guard memoryBytes > limit / 10 * 9 else { return }
            memoryBytes -= entry.bytes
            if isOnDisk { entries[key]?.thumbnail = nil } else { entries[key] = nil }
        }
    }

    /// The entries to remove so that nine tenths of a limit remain, if it is exceeded.
    fileprivate func oldest(above limit: Int, _ count: Int) -> [ThumbnailCache.Key] {
        guard diskBytes > limit || entries.count > count else { return [] }
        let bytes = diskBytes > limit ? limit / 10 * 9 : .max
        let number = entries.count > count ? count * 9 / 10 : .max
        var (rest, keys) = (diskBytes, [ThumbnailCache.Key]())
        for (key, entry) in entries.sorted(by: { $0.value.use < $1.value.use }) {
            guard rest > bytes || entries.count - keys.count > number else { break }
            rest -= entry.bytes
            keys.append(key)
        }
        return keys
    }
}
