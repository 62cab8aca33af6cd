import AsyncHTTPClient
import Foundation
import NIOCore
import NIOHTTP1
import SanguineAuthority
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineServer

@Suite("Files over HTTP", .bounded)
struct BlobRouteTests {
    private let jpeg = SampleFile.jpeg.bytes()

    @Test func `an upload returns the stored file's facts, and the same ones again`()
        async throws
    {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            // The server does not trust the type in the header.
            let reply = try await guest.upload(jpeg, headers: ["Content-Type": "application/json"])
            #expect(reply.status == 201)
            #expect(reply["Content-Type"] == "application/json")
            let facts = try reply.decode(BlobFacts.self)
            #expect((facts.type, facts.width, facts.height) == ("image/jpeg", 30, 40))
            let again = try await guest.upload(jpeg)
            #expect(again.status == 200)
            #expect(try again.decode(BlobFacts.self) == facts)
            // A repetition has the placeholder as well, and so has a resumable upload.
            #expect(facts.placeholder != nil)
            let path = try await guest.begin(jpeg.count)
            #expect(try await guest.patch(path, jpeg, at: 0).status == 204)
            #expect(try await guest.get(path).decode(UploadStatus.self).file == facts)
            let film = try await guest.upload(SampleFile.mp4.bytes())
            #expect(film.status == 201)
            #expect(Set(try film.json.object.keys) == ["id", "size", "type"])
        }
    }

    @Test func `a stored file is returned unchanged and may be cached for a year`() async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            let facts = try await guest.upload(jpeg).decode(BlobFacts.self)
            let path = "/v1/blobs/\(facts.id)"
            let reply = try await guest.get(path, headers: ["Accept-Encoding": "gzip"])
            #expect(reply.status == 200)
            #expect(BlobID(of: reply.bytes).description == facts.id)
            #expect(!reply.bytes.contains(text: SampleFile.place))
            #expect(reply["Content-Type"] == "image/jpeg")
            #expect(reply["Content-Length"] == "\(facts.size)")
            #expect(reply["ETag"] == "\"\(facts.id)\"")
            #expect(reply["Cache-Control"] == "private, max-age=31536000, immutable")
            #expect(reply["X-Content-Type-Options"] == "nosniff")
            #expect(reply["Content-Encoding"] == nil)

            let head = try await guest.send("HEAD", path)
            #expect(head.status == 200 && head.bytes.isEmpty)
            #expect(head["Content-Length"] == "\(facts.size)")
            let tag = ["If-None-Match": "\"another\", \"\(facts.id)\""]
            let known = try await guest.get(path, headers: tag)
            #expect(known.status == 304 && known.bytes.isEmpty)
            #expect(known["ETag"] == "\"\(facts.id)\"")
        }
    }

    @Test func `a long file is sent whole, even above the limit of buffered responses`()
        async throws
    {
        try await LiveServer.with {
            $0.settings.limits.answerBytes = 1 << 20
        } _: { server in
            let guest = try await server.guest()
            // More than an account may have buffered, and not a multiple of a piece.
            let png = SampleFile.png.bytes(filler: 3_000_001)
            let facts = try await guest.upload(png).decode(BlobFacts.self)
            let reply = try await guest.get("/v1/blobs/\(facts.id)")
            #expect(reply.status == 200 && reply.bytes.count == facts.size)
            #expect(BlobID(of: reply.bytes).description == facts.id)
            try await server.waitUntilNothingWaits()
        }
    }

    @Test func `a file is found only by accounts that have uploaded it`()
        async throws
    {
        try await LiveServer.with { server in
            let (ann, ben) = (try await server.guest(), try await server.guest())
            let facts = try await ann.upload(jpeg).decode(BlobFacts.self)
            let path = "/v1/blobs/\(facts.id)"
            #expect(try await ben.get(path).code == "not_found")
            let tag = ["If-None-Match": "\"\(facts.id)\""]
            #expect(try await ben.get(path, headers: tag).code == "not_found")
            #expect(try await server.send("GET", path).code == "unauthenticated")
            let unknown = BlobID(of: [1])
            for id in [unknown.description, "nonsense", "..%2Fkeys.json", facts.id.uppercased()] {
                #expect(try await ann.get("/v1/blobs/\(id)").code == "not_found", "\(id)")
            }
            #expect(try await ben.upload(jpeg).status == 201)
            #expect(try await ben.get(path).status == 200)
        }
    }

    @Test func `a file of another type and an incomplete file are refused`() async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            let text = try await guest.upload(Array("%PDF-1.7".utf8))
            #expect(text.status == 415 && text.code == "unsupported_media_type")
            #expect(text.body.contains("image/png"))
            #expect(try await guest.upload([]).code == "unsupported_media_type")
            #expect(try await guest.upload(Array(jpeg.prefix(30))).code == "malformed_body")
            let coded = try await guest.upload(jpeg, headers: ["Content-Encoding": "gzip"])
            #expect(coded.status == 415 && coded["Accept-Encoding"] == "identity")
        }
    }

    @Test func `a file with too many bytes or pixels is refused`()
        async throws
    {
        try await LiveServer.with {
            $0.settings.limits.blobBytes = 2_000
        } _: { server in
            let guest = try await server.guest()
            let large = try await guest.upload(SampleFile.png.bytes(filler: 2_000))
            #expect(large.status == 413 && large.code == "body_too_large")
            #expect(large.body.contains("2000 bytes"))
            let wide = try await guest.upload(SampleFile.png.bytes(width: 900_000, height: 60))
            #expect(wide.status == 413 && wide.code == "body_too_large")
            #expect(wide.body.contains("60 × 900000"))
            let other = SampleFile.png.bytes(filler: 1_000)
            #expect(try await guest.upload(other).status == 201)
            #expect(LiveServer.Setup().settings.limits.blobBytes == 25 << 20)
        }
    }

    @Test func `a file may be larger than other bodies`() async throws {
        try await LiveServer.with {
            $0.settings.limits.bodyBytes = 1_024
            $0.settings.limits.receivedBytes = 1 << 20
        } _: { server in
            let guest = try await server.guest()
            let png = SampleFile.png.bytes(filler: 2_000_000)
            #expect(try await guest.upload(png).status == 201)
            #expect(
                try await guest.post("/v1/spend", String(repeating: " ", count: 2_000)).code
                    == "body_too_large"
            )
        }
    }

    @Test func `an upload beyond the account's storage is refused`() async throws {
        try await LiveServer.with {
            $0.settings.limits.accountBytes = 1_000
        } _: { server in
            let guest = try await server.guest()
            let full = try await guest.upload(SampleFile.png.bytes(filler: 1_000))
            #expect(full.status == 422 && full.code == "storage_full")
            #expect(try await guest.upload(jpeg).status == 201)
        }
    }

    @Test func `an unauthenticated upload is refused before the file is read`() async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            let nobody = try await guest.upload(jpeg, headers: ["Authorization": "Bearer x"])
            #expect(nobody.code == "unauthenticated")
            let other = ["X-User-Id": "0199f3c8-2f6b-7c1e-9a54-3d2b8e07f6aa"]
            #expect(try await guest.upload(jpeg, headers: other).code == "identity_mismatch")
        }
    }

    @Test func `uploads beyond the shared limit are refused with a time to retry`()
        async throws
    {
        try await LiveServer.with {
            $0.settings.limits.blobBytes = 1 << 20
        } _: { server in
            let (ann, ben) = (try await server.guest(), try await server.guest())
            let half = [UInt8](repeating: 7, count: 600_000)
            let (parts, send) = AsyncStream.makeStream(of: ByteBuffer.self)
            let slow = Task { try await ann.upload(parts: parts, length: 1 << 20) }
            send.yield(ByteBuffer(bytes: half))
            try await eventually("the first half has arrived") { server.files.count == 600_000 }

            let refused = try await ann.upload(SampleFile.png.bytes(filler: 600_000))
            #expect(refused.status == 503 && refused.code == "overloaded")
            #expect(refused["Retry-After"] == "1")
            // Another account can still upload.
            #expect(try await ben.upload(SampleFile.png.bytes(filler: 600_000)).status == 201)
            send.yield(ByteBuffer(bytes: [UInt8](repeating: 7, count: (1 << 20) - 600_000)))
            send.finish()
            #expect(try await slow.finished().status == 415)
            try await eventually("all space is free again") { server.files.count == 0 }
            #expect(try await ann.upload(SampleFile.png.bytes(filler: 600_000)).status == 201)
        }
    }

    @Test func `a file whose bytes are missing is an internal fault`() async throws {
        let storage = FaultyStorage()
        try await LiveServer.with {
            $0.storage = storage
        } _: { server in
            let guest = try await server.guest()
            let facts = try await guest.upload(jpeg).decode(BlobFacts.self)
            let id = try #require(BlobID(facts.id))
            let end = Timestamp(millisecondsSince1970: .max)
            #expect(try await storage.blobs.remove(id, keptBefore: end))
            #expect(try await guest.get("/v1/blobs/\(facts.id)").code == "internal_fault")
        }
    }
}

extension Guest {
    /// Uploads a file.
    func upload(_ file: [UInt8], headers: [String: String] = [:]) async throws -> Reply {
        try await upload(.bytes(ByteBuffer(bytes: file)), headers)
    }

    /// Uploads a file in parts, as they arrive.
    fileprivate func upload(
        parts: AsyncStream<ByteBuffer>,
        length: Int64
    ) async throws -> Reply {
        try await upload(.stream(parts, length: .known(length)), [:])
    }

    private func upload(
        _ body: HTTPClientRequest.Body,
        _ headers: [String: String]
    ) async throws -> Reply {
        var request = HTTPClientRequest(url: "http://127.0.0.1:\(server.ports.http)/v1/blobs")
        request.method = .POST
        request.headers.add(name: "Authorization", value: "Bearer \(session.accessToken)")
        for (name, value) in headers { request.headers.replaceOrAdd(name: name, value: value) }
        request.body = body
        return try await server.send(request)
    }
}

extension JSONValue {
    fileprivate var object: [String: JSONValue] {
        if case .object(let members) = self { members } else { [:] }
    }
}

extension LiveServer {
    fileprivate func waitUntilNothingWaits() async throws {
        try await eventually("no response waits") { answers.count == 0 }
        #expect(answers.count == 0)
    }
}
