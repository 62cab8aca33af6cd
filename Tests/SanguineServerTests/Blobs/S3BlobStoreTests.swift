import SanguineAuthority
import SanguineModel
import SanguineTesting
import Synchronization
import TestSupport
import Testing

@testable import SanguineServer

/// Files in a bucket whose storage, or a proxy in between, deviates from the API.
@Suite("S3 blob store", .bounded)
struct S3BlobStoreTests {
    private static let content = Array("the content of a file".utf8)
    private static let id = BlobID(of: content)
    private static let page = S3Reply(
        status: 200,
        headers: ["content-type": "text/html"],
        body: Array("<html>Sign in</html>".utf8)
    )

    private func moment(_ seconds: Int64) -> Timestamp {
        Timestamp(millisecondsSince1970: 1_790_000_000_000 + seconds * 1_000)
    }

    private func store(_ s3: ScriptedS3) throws -> S3BlobStore { S3BlobStore(try s3.client()) }

    private func list(_ keys: [String], isCut: Bool = false, at: String = "") -> S3Reply {
        let objects = keys.map {
            "<Contents><Key>\($0)</Key><LastModified>\(at)</LastModified></Contents>"
        }
        let text = """
            <ListBucketResult><IsTruncated>\(isCut)</IsTruncated>\(objects.joined())\
            </ListBucketResult>
            """
        return S3Reply(status: 200, body: Array(text.utf8))
    }

    private func key(_ id: BlobID) -> String { "files/\(id.description.prefix(2))/\(id)" }

    @Test func `a response that is cut off is read again`() async throws {
        let s3 = ScriptedS3 { request, number in
            var reply = ScriptedS3.object(Self.content, request)
            if number == 1 { reply.body.removeLast() }
            return reply
        }
        let store = try store(s3)
        #expect(try await store.read(Self.id, from: 0, count: 100) == Self.content)
        #expect(s3.requests.count == 2)
    }

    @Test func `a proxy's page is no file, and no proof that one was stored`() async throws {
        let store = try store(ScriptedS3 { _, _ in Self.page })
        func check(_ error: any Error) -> Bool {
            guard case .failed(let reason) = error as? StorageError else { return false }
            return reason.contains("is not one of an S3 storage")
        }
        await #expect(
            performing: {
                _ = try await store.read(Self.id, from: 0, count: 9)
            },
            throws: check
        )
        await #expect(
            performing: {
                try await store.keep(Self.content, as: Self.id, at: moment(0))
            },
            throws: check
        )
        await #expect(
            performing: {
                _ = try await store.kept(before: moment(0), after: nil, limit: 9)
            },
            throws: check
        )
    }

    @Test(arguments: [
        ScriptedS3.refusal(404, "NoSuchBucket"),
        S3Reply(status: 404, body: Array("<html>Not found</html>".utf8)),
        ScriptedS3.refusal(403, "AccessDenied"),
    ])
    func `a missing bucket, a page and a refusal do not mean that a file is missing`(
        reply: S3Reply
    ) async throws {
        let store = try store(ScriptedS3 { _, _ in reply })
        await #expect(throws: StorageError.self) {
            _ = try await store.read(Self.id, from: 0, count: 9)
        }
    }

    @Test func `a missing file, an empty one and a range behind the end differ`() async throws {
        let missing = try store(ScriptedS3 { _, _ in ScriptedS3.refusal(404, "NoSuchKey") })
        #expect(try await missing.read(Self.id, from: 0, count: 9) == nil)
        let mute = try store(ScriptedS3 { _, _ in S3Reply(status: 404) })
        #expect(try await mute.read(Self.id, from: 0, count: 0) == nil)
        let empty = try store(ScriptedS3 { request, _ in ScriptedS3.object([], request) })
        #expect(try await empty.read(Self.id, from: 0, count: 9) == [])
        #expect(try await empty.read(Self.id, from: .max, count: .max) == [])
    }

    @Test func `a storage that ignores ranges is detected, except at the beginning`()
        async throws
    {
        let large = [UInt8](repeating: 7, count: BlobWindows.windowBytes + 9)
        let s3 = ScriptedS3 { request, _ in
            S3Reply(
                status: 200,
                headers: ["etag": "\"1\"", "content-length": String(large.count)],
                body: Array(large.prefix(request.responseBytes))
            )
        }
        let store = try store(s3)
        #expect(try await store.read(Self.id, from: 0, count: 9)?.count == 9)
        await #expect(throws: StorageError.self) {
            _ = try await store.read(Self.id, from: BlobWindows.windowBytes, count: 9)
        }
    }

    @Test func `a file is stored with its hash, and its time in the metadata`() async throws {
        let s3 = ScriptedS3 { request, _ in
            request.method == "PUT"
                ? S3Reply(status: 200, headers: ["etag": "\"1\""]) : S3Reply(status: 404)
        }
        try await store(s3).keep(Self.content, as: Self.id, at: moment(1))
        let put = try #require(s3.requests.last)
        #expect(put.url == "https://s3.example.com/photos/\(key(Self.id))")
        #expect(put.header("x-amz-content-sha256") == "\(Self.id)")
        #expect(put.header("x-amz-checksum-sha256")?.count == 44)
        #expect(put.header(S3BlobStore.storedHeader) == "1790000001000")
    }

    @Test func `a storage without checksums gets none`() async throws {
        let s3 = ScriptedS3 { request, _ in
            guard request.method == "PUT" else { return S3Reply(status: 404) }
            guard request.header("x-amz-checksum-sha256") == nil else {
                return ScriptedS3.refusal(501, "NotImplemented")
            }
            return S3Reply(status: 200, headers: ["etag": "\"1\""])
        }
        let store = try store(s3)
        try await store.keep(Self.content, as: Self.id, at: moment(0))
        try await store.keep([1], as: BlobID(of: [1]), at: moment(0))
        #expect(s3.requests.map(\.method) == ["HEAD", "PUT", "PUT", "HEAD", "PUT"])
    }

    @Test func `another checksum than that of the content is an error`() async throws {
        let s3 = ScriptedS3 { request, _ in
            request.method == "PUT"
                ? S3Reply(
                    status: 200,
                    headers: ["etag": "\"1\"", "x-amz-checksum-sha256": "AAAA"]
                ) : S3Reply(status: 404)
        }
        let store = try store(s3)
        await #expect(throws: StorageError.self) {
            try await store.keep(Self.content, as: Self.id, at: moment(0))
        }
    }

    @Test func `a copied object has the time of its copy, and a part of one is replaced`()
        async throws
    {
        let s3 = ScriptedS3 { request, _ in
            request.method == "PUT"
                ? S3Reply(status: 200, headers: ["etag": "\"1\""])
                : ScriptedS3.object(Self.content, request)
        }
        let store = try store(s3)
        let copied = try #require(Timestamp("2026-11-21T19:00:00Z"))
        try await store.keep(Self.content, as: Self.id, at: copied)
        #expect(s3.requests.map(\.method) == ["HEAD"])
        try await store.keep(Self.content + [0], as: Self.id, at: copied)
        #expect(s3.requests.map(\.method) == ["HEAD", "HEAD", "PUT"])
    }

    @Test func `old files are listed by the storage's times, recent ones by their own`()
        async throws
    {
        let (old, recent) = (BlobID(of: [1]), BlobID(of: [2]))
        let foreign = ["files/", "files/notes.txt", "files/zz/\(old)", "files/sanguine-check"]
        let (oldKey, recentKey) = (key(old), key(recent))
        let pages = [list(foreign + [oldKey], at: "2026-01-01T00:00:00.000Z")]
        let later = list([recentKey], at: "2026-11-21T19:00:00.000Z")
        let s3 = ScriptedS3 { request, number in
            if request.method == "HEAD" { return ScriptedS3.object([], request) }
            return number == 1 ? pages[0] : later
        }
        let store = try store(s3)
        let now = try #require(Timestamp("2026-11-21T19:30:00Z"))
        #expect(try await store.kept(before: now, after: nil, limit: 9) == [old])
        try #require(s3.requests.count == 1)
        #expect(try await store.kept(before: now, after: old, limit: 9) == [recent])
        #expect(s3.requests.map(\.method) == ["GET", "GET", "HEAD"])
        #expect(s3.requests[1].url.contains("start-after=files%2F"))
    }

    @Test func `a list that begins again ends with an error`() async throws {
        let keys = [key(BlobID(of: [1]))]
        let page = list(keys, isCut: true, at: "2026-01-01T00:00:00.000Z")
        let s3 = ScriptedS3 { _, _ in page }
        let store = try store(s3)
        await #expect(throws: StorageError.self) {
            _ = try await store.kept(before: moment(0), after: nil, limit: 9)
        }
        #expect(s3.requests.count == 2)
    }

    @Test func `readers of small pieces share the requests for larger ones`() async throws {
        let large = (0..<3 * BlobWindows.windowBytes).map { UInt8(truncatingIfNeeded: $0 / 11) }
        let s3 = ScriptedS3 { request, _ in ScriptedS3.object(large, request) }
        let store = try store(s3)
        let piece = 1 << 16
        try await withThrowingTaskGroup { group in
            for _ in 0..<8 {
                group.addTask {
                    for start in stride(from: 0, to: large.count, by: piece) {
                        let read = try await store.read(Self.id, from: start, count: piece)
                        #expect(read == Array(large[start..<start + piece]))
                    }
                }
            }
            try await group.waitForAll()
        }
        #expect(s3.requests.count == 3)
    }

    @Test func `a cancelled reader leaves, and the others get their bytes`() async throws {
        let gate = ManualClock()
        let s3 = ScriptedS3 { request, _ in
            try await gate.sleep(for: .seconds(1))
            return ScriptedS3.object(Self.content, request)
        }
        let store = try store(s3)
        let first = Task { try await store.read(Self.id, from: 0, count: 9) }
        try await gate.waitForSleepers(1)
        let second = Task { try await store.read(Self.id, from: 0, count: 9) }
        first.cancel()
        await #expect(throws: StorageError.self) { _ = try await first.finished() }
        gate.advance(by: .seconds(1))
        #expect(try await second.finished() == Array(Self.content.prefix(9)))
        #expect(s3.requests.count == 1)
    }

    @Test func `the check names the permission that is missing`() async throws {
        let empty = list([])
        let s3 = ScriptedS3 { request, _ in
            request.method == "PUT" ? ScriptedS3.refusal(403, "AccessDenied") : empty
        }
        let store = try store(s3)
        do throws(S3Failure) {
            try await store.check()
            Issue.record("The check of a bucket that cannot be written succeeded.")
        } catch {
            #expect(error.reason(at: store.location).contains("allow s3:PutObject"))
        }
    }

    @Test func `a closed store refuses all work`() async throws {
        let closed = Mutex(0)
        let s3 = ScriptedS3 { _, _ in S3Reply(status: 404) }
        let store = S3BlobStore(try s3.client()) { closed.withLock { $0 += 1 } }
        await store.close()
        await #expect(throws: StorageError.closed) {
            try await store.keep(Self.content, as: Self.id, at: moment(0))
        }
        await #expect(throws: StorageError.closed) {
            _ = try await store.read(Self.id, from: 0, count: 1)
        }
        await #expect(throws: StorageError.closed) {
            _ = try await store.remove(Self.id, keptBefore: moment(0))
        }
        #expect(closed.withLock { $0 } == 1)
        #expect(s3.requests.isEmpty)
    }
}
