import Foundation
import SanguineAuthority
import SanguineModel
import Synchronization

/// Stores the bytes of files in an S3 storage: `<prefix>ab/abcdef…`, each named by its content.
///
/// The names are those of the folder `blobs` in a data folder, so that its files can be copied into
/// the bucket. The time at which a file was last stored is in its metadata; for copied files, it is
/// the time of the copy. The storage compares the content with its SHA-256 before it keeps a file.
///
/// No other server may use the same bucket and prefix: the times are compared and changed in two
/// steps. Objects with other names are ignored and preserved.
///
/// Invariants:
/// 1. A file is stored, and removed, by one task at a time, so that no file is removed that was
///    just stored again.
/// 2. The windows contain no bytes of a file after its removal has ended.
///
/// Mutable state: the objects, as above; `sendsChecksum` and `isClosed`, atomic; `turns` and
/// `windows` guard their own.
final class S3BlobStore: BlobStore {
    /// The header of the time at which a file was last stored, in milliseconds since 1970.
    static let storedHeader = "x-amz-meta-sanguine-stored"
    /// The difference between two clocks beyond which a storage refuses signatures, and more.
    ///
    /// A file that was written before this time is listed without a question for its exact time.
    static let clockDifference = Duration.seconds(3_600)
    /// The number of files whose exact times are asked for at the same time.
    static let headsAtOnce = 8
    /// The maximum number of keys in a page of a list.
    static let pageKeys = 1_000
    /// The maximum number of bytes that are read at once: 512 MiB, twice the largest file.
    static let readBytes = 1 << 29
    /// The key of the object that ``check()`` writes.
    static let checkKey = "sanguine-check"

    private let client: S3Client
    private let onClose: @Sendable () async -> Void
    private let turns = BlobTurns()
    private let windows: BlobWindows
    private let sendsChecksum = Atomic(true)
    private let isClosed = Atomic(false)

    /// Creates a store.
    ///
    /// - Parameters:
    ///   - client: Sends the requests.
    ///   - onClose: Called by ``close()``.
    init(_ client: S3Client, onClose: @escaping @Sendable () async -> Void = {}) {
        self.client = client
        self.onClose = onClose
        windows = BlobWindows()
    }

    /// The bucket and its storage.
    var location: S3Location { client.location }

    func keep(
        _ bytes: [UInt8],
        as id: BlobID,
        at moment: Timestamp
    ) async throws(StorageError) {
        try checkOpen()
        // Unstructured, because a caller that hangs up must not abort the write.
        let work = Task { () -> Result<Void, S3Failure> in
            await self.turns.perform(id) { await self.store(bytes, as: id, at: moment) }
        }
        try await result(work.value)
    }

    func read(
        _ id: BlobID,
        from offset: Int,
        count: Int
    ) async throws(StorageError) -> [UInt8]? {
        try checkOpen()
        let (offset, count) = (max(0, offset), max(0, count))
        let width = BlobWindows.windowBytes
        guard count > 0, count <= width, offset <= Self.readBytes else {
            return try await result(load(id, offset, count))
        }
        var bytes: [UInt8] = []
        while bytes.count < count {
            let position = offset + bytes.count
            let window = BlobWindows.Key(id: id, number: position / width)
            let loaded = try await result(
                windows.window(window) {
                    await self.load(id, window.number * width, width)
                }
            )
            // A file that was removed in the meantime has no beginning either.
            guard let loaded else { return nil }
            bytes += loaded.dropFirst(position % width).prefix(count - bytes.count)
            guard loaded.count == width else { break }
        }
        return bytes
    }

    func kept(
        before moment: Timestamp,
        after id: BlobID?,
        limit: Int
    ) async throws(StorageError) -> [BlobID] {
        try checkOpen()
        do throws(S3Failure) {
            var found: [BlobID] = []
            var last = id.map { key(of: $0) } ?? location.prefix
            while found.count < limit {
                let page = try await page(after: last)
                found += try await old(page, before: moment, limit: limit - found.count)
                guard page.isCut, let end = page.objects.last?.key else { break }
                last = end
            }
            return found
        } catch {
            throw error.storageError(at: location)
        }
    }

    @discardableResult
    func remove(_ id: BlobID, keptBefore moment: Timestamp) async throws(StorageError) -> Bool {
        try checkOpen()
        return try await result(
            turns.perform(id) {
                do throws(S3Failure) {
                    guard let known = try await self.properties(id), known.storedAt < moment else {
                        return .success(false)
                    }
                    try await self.delete(self.key(of: id))
                    self.windows.drop(id)
                    return .success(true)
                } catch {
                    return .failure(error)
                }
            }
        )
    }

    /// Checks that the bucket can be listed, and that objects can be written, read and deleted.
    ///
    /// - Parameter name: The name of the object that is written. Default: ``checkKey``.
    /// - Throws: The first failure.
    func check(key name: String = S3BlobStore.checkKey) async throws(S3Failure) {
        _ = try await page(after: location.prefix, keys: 1)
        let content = Array("Sanguine checks whether this bucket can be used.".utf8)
        let key = location.prefix + name
        try await put(content, as: BlobID(of: content), key: key, at: nil)
        let read = try await get(key, 0, content.count)
        guard read == content else {
            throw .unreadable("it returned another content than was written")
        }
        try await delete(key)
    }

    /// The names of a document with the state of versioning: that of Amazon, and that of moto.
    private static let versioningNames = [
        "VersioningConfiguration", "GetBucketVersioningResponse",
    ]

    /// Returns the status of the bucket's versioning; `nil` if it was never set.
    func versioningStatus() async throws(S3Failure) -> String? {
        var message = S3Message(.versioning, "GET")
        message.query = [("versioning", "")]
        let isDocument: @Sendable (S3Reply) throws(S3Failure) -> Void = { reply throws(S3Failure) in
            guard let name = S3Document(reply.body)?.name, Self.versioningNames.contains(name)
            else {
                throw .unreadable("it has no state of versioning")
            }
        }
        return S3Document(try await client.perform(message, validate: isDocument).body)?["Status"]
    }

    /// Closes the connections; running and later calls fail.
    func close() async {
        isClosed.store(true, ordering: .releasing)
        await onClose()
    }

    private func checkOpen() throws(StorageError) {
        guard !isClosed.load(ordering: .acquiring) else { throw .closed }
    }

    private func result<Value>(
        _ result: Result<Value, S3Failure>
    ) throws(StorageError) -> Value {
        do throws(S3Failure) {
            return try result.get()
        } catch {
            throw error.storageError(at: location)
        }
    }
}

// The requests.
extension S3BlobStore {
    /// The properties of a stored file.
    private struct Properties {
        var storedAt: Timestamp
        var size: Int
    }

    private func key(of id: BlobID) -> String {
        let name = id.description
        return "\(location.prefix)\(name.prefix(2))/\(name)"
    }

    /// Returns the file of a key; `nil` for objects that are none of this store.
    private func id(of key: String) -> BlobID? {
        guard key.hasPrefix(location.prefix) else { return nil }
        let id = BlobID(String(key.dropFirst(location.prefix.count + 3)))
        return id.flatMap { self.key(of: $0) == key ? $0 : nil }
    }

    private func store(
        _ bytes: [UInt8],
        as id: BlobID,
        at moment: Timestamp
    ) async -> Result<Void, S3Failure> {
        do throws(S3Failure) {
            let known = try await properties(id)
            let isWhole = known?.size == bytes.count
            if let known, isWhole, known.storedAt >= moment { return .success(()) }
            let latest = max(moment, known?.storedAt ?? moment)
            try await put(bytes, as: id, key: key(of: id), at: latest)
            if !isWhole { windows.drop(id) }
            return .success(())
        } catch {
            return .failure(error)
        }
    }

    private func properties(_ id: BlobID) async throws(S3Failure) -> Properties? {
        let reply = try await client.perform(
            S3Message(.get, "HEAD", key: key(of: id)),
            expecting: [404],
            validate: Self.checkObject
        )
        guard reply.isSuccess else { return nil }
        let copied = reply.headers["last-modified"].flatMap { HTTPDate.moment($0) }
        let stored = reply.headers[Self.storedHeader].flatMap { Int64($0) }
            .map { Timestamp(millisecondsSince1970: $0) }
        guard let storedAt = stored ?? copied,
            let size = reply.headers["content-length"].flatMap({ Int($0) })
        else { throw .unreadable("an object has no time, or no size") }
        return Properties(storedAt: storedAt, size: size)
    }

    private func put(
        _ bytes: [UInt8],
        as id: BlobID,
        key: String,
        at moment: Timestamp?
    ) async throws(S3Failure) {
        var message = S3Message(.put, "PUT", key: key)
        message.body = bytes
        message.contentHash = id.description
        message.headers = [("content-type", "application/octet-stream")]
        if let moment {
            message.headers.append((Self.storedHeader, String(moment.millisecondsSince1970)))
        }
        let checksum = Data(id.bytes).base64EncodedString()
        let plain = message
        message.headers.append((Self.checksumHeader, checksum))
        let check: @Sendable (S3Reply) throws(S3Failure) -> Void = { reply throws(S3Failure) in
            try Self.checkObject(reply)
            guard [nil, checksum].contains(reply.headers[Self.checksumHeader]) else {
                throw .unreadable("the checksum of a stored object is wrong")
            }
        }
        guard sendsChecksum.load(ordering: .relaxed) else {
            _ = try await client.perform(plain, validate: check)
            return
        }
        do throws(S3Failure) {
            _ = try await client.perform(message, validate: check)
        } catch .refused(let refusal) where refusal.status == 501 {
            // Older storages know no checksums. The signature contains the same hash.
            _ = try await client.perform(plain, validate: check)
            sendsChecksum.store(false, ordering: .relaxed)
        }
    }

    private func load(
        _ id: BlobID,
        _ offset: Int,
        _ count: Int
    ) async -> Result<[UInt8]?, S3Failure> {
        do throws(S3Failure) {
            // A range cannot be empty, and storages differ in what they do with enormous ones.
            guard count > 0, offset <= Self.readBytes else {
                return .success(try await properties(id) == nil ? nil : [])
            }
            return .success(try await get(key(of: id), offset, min(count, Self.readBytes)))
        } catch {
            return .failure(error)
        }
    }

    private func get(
        _ key: String,
        _ offset: Int,
        _ count: Int
    ) async throws(S3Failure) -> [UInt8]? {
        var message = S3Message(.get, "GET", key: key)
        message.headers = [("range", "bytes=\(offset)-\(offset + count - 1)")]
        message.responseBytes = count
        let reply = try await client.perform(message, expecting: [404, 416]) {
            reply throws(S3Failure) in
            guard reply.isSuccess else { return }
            try Self.checkObject(reply)
            try Self.checkLength(of: reply, offset, count)
        }
        switch reply.status {
        case 404: return nil
        case 416: return []  // Also the answer for an empty file.
        default: return Array(reply.body.prefix(count))
        }
    }

    private func delete(_ key: String) async throws(S3Failure) {
        _ = try await client.perform(S3Message(.delete, "DELETE", key: key), expecting: [404])
    }

    /// Reads a page of the list of objects, in the order of their keys.
    ///
    /// Pages continue after a key and not by a token, which some storages forget to send.
    private func page(
        after last: String,
        keys: Int = S3BlobStore.pageKeys
    ) async throws(S3Failure) -> S3Page {
        var message = S3Message(.list, "GET")
        message.query = [
            ("list-type", "2"), ("max-keys", String(keys)), ("prefix", location.prefix),
            ("encoding-type", "url"),
        ]
        if last != location.prefix { message.query.append(("start-after", last)) }
        let reply = try await client.perform(message) { reply throws(S3Failure) in
            guard S3Page(reply.body) != nil else { throw .unreadable("a list is not complete") }
        }
        guard let page = S3Page(reply.body) else { throw .unreadable("a list is not complete") }
        // Otherwise a storage that ignores the parameter would be listed for ever.
        guard page.objects.allSatisfy({ Self.isOrdered(last, $0.key) }) else {
            throw .unreadable("a list does not continue after a key")
        }
        return page
    }

    private static func isOrdered(_ last: String, _ key: String) -> Bool {
        key == last ? last.hasSuffix("/") : last.utf8.lexicographicallyPrecedes(key.utf8)
    }

    /// Returns the files of a page that were last stored before the moment.
    ///
    /// A list has the times of the storage's clock only, so recent ones are asked for.
    private func old(
        _ page: S3Page,
        before moment: Timestamp,
        limit: Int
    ) async throws(S3Failure) -> [BlobID] {
        let sure = moment - Self.clockDifference
        var files: [(id: BlobID, isOld: Bool)] = []
        for object in page.objects {
            guard let id = id(of: object.key) else { continue }
            files.append((id, object.writtenAt.map { $0 < sure } ?? false))
        }
        var found: [BlobID] = []
        var rest = files[...]
        while found.count < limit, !rest.isEmpty {
            let part = rest.prefix(Self.headsAtOnce)
            rest = rest.dropFirst(part.count)
            let unknown = part.filter { !$0.isOld }.map(\.id)
            let times = try await times(unknown)
            found += part.filter { $0.isOld || times[$0.id].map { $0 < moment } ?? false }
                .map(\.id)
        }
        return Array(found.prefix(limit))
    }

    /// Returns the times of those files that still exist.
    private func times(_ ids: [BlobID]) async throws(S3Failure) -> [BlobID: Timestamp] {
        let results = await withTaskGroup(of: (BlobID, Result<Timestamp?, S3Failure>).self) {
            group in
            for id in ids {
                group.addTask {
                    do throws(S3Failure) {
                        return (id, .success(try await self.properties(id)?.storedAt))
                    } catch {
                        return (id, .failure(error))
                    }
                }
            }
            return await group.reduce(into: [:]) { $0[$1.0] = $1.1 }
        }
        var times: [BlobID: Timestamp] = [:]
        for (id, result) in results { times[id] = try result.get() }
        return times
    }

    /// Checks that a response is about an object: a proxy's page, too, may have the status 200.
    private static let checkObject: @Sendable (S3Reply) throws(S3Failure) -> Void = {
        reply throws(S3Failure) in
        guard !reply.isSuccess || reply.headers["etag"] != nil else {
            throw .unreadable("it has no ETag")
        }
    }

    /// Checks that a response has all bytes of its range.
    private static func checkLength(
        of reply: S3Reply,
        _ offset: Int,
        _ count: Int
    ) throws(S3Failure) {
        let announced: Int?
        if reply.status == 206 {
            guard let range = reply.headers["content-range"].flatMap(contentRange),
                range.lowerBound == offset
            else { throw .unreadable("it has another range") }
            announced = range.count
        } else {
            guard offset == 0 else { throw .unreadable("it ignores byte ranges") }
            announced = reply.headers["content-length"].flatMap { Int($0) }
        }
        guard reply.body.count >= min(count, announced ?? 0) else {
            throw .unreadable("it was cut off")
        }
    }

    /// Parses `bytes 0-9/443`.
    private static func contentRange(_ text: String) -> ClosedRange<Int>? {
        guard text.hasPrefix("bytes ") else { return nil }
        let ends = text.dropFirst(6).prefix { $0 != "/" }.split(separator: "-").map { Int($0) }
        guard ends.count == 2, let first = ends[0], let last = ends[1], 0 <= first, first <= last
        else { return nil }
        return first...last
    }

    private static let checksumHeader = "x-amz-checksum-sha256"
}
