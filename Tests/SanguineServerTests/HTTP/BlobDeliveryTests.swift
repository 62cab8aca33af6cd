import Foundation
import SanguineAuthority
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineServer

/// Ranges, deletion, and URLs without a token.
@Suite("Delivery of files over HTTP", .bounded)
struct BlobDeliveryTests {
    private static let collections = [
        RecordCollection("posts", access: .everyone, blobs: ["photo"]),
        RecordCollection("pages", access: .everyone, blobs: [.publicly("cover")]),
    ]

    private func withServer(_ body: (LiveServer) async throws -> Void) async throws {
        try await LiveServer.with {
            $0.settings.collections = Self.collections
            $0.settings.http.corsOrigins = ["https://app.example.org"]
        } _: { server in
            try await body(server)
        }
    }

    /// Creates a record that names a file.
    private func name(
        _ file: String,
        _ collection: String,
        _ member: String,
        by guest: Guest,
        id: String = "one"
    ) async throws -> PushResult {
        let operation = Identifier(at: SystemWallClock().now())
        let body = """
            {"device":"a-device-of-16-and-more","operations":[{"id":"\(operation)","sequence":1,\
            "lane":"l","mutator":"record.create","arguments":{"collection":"\(collection)",\
            "id":"\(id)","fields":{"\(member)":"\(file)"}}}]}
            """
        let reply = try await guest.post("/v1/sync/push", body, key: nil)
        return try #require(try reply.decode(PushAnswer.self).results.first)
    }

    @Test func `a range is answered with its bytes, also in the middle of a long file`()
        async throws
    {
        try await withServer { server in
            let guest = try await server.guest()
            let facts = try await guest.upload(SampleFile.png.bytes(filler: 300_000))
                .decode(BlobFacts.self)
            let path = "/v1/blobs/\(facts.id)"
            let whole = try await guest.get(path)
            #expect(whole["Accept-Ranges"] == "bytes")
            for (text, part) in [
                ("bytes=0-0", 0..<1), ("bytes=65530-200000", 65_530..<200_001),
                ("bytes=-5", facts.size - 5..<facts.size),
                ("bytes=\(facts.size - 1_000)-", facts.size - 1_000..<facts.size),
            ] {
                let reply = try await guest.get(path, headers: ["Range": text])
                #expect(reply.status == 206, "\(text)")
                #expect(reply.bytes == Array(whole.bytes[part]), "\(text)")
                #expect(reply["Content-Length"] == "\(part.count)", "\(text)")
                let range = "bytes \(part.lowerBound)-\(part.upperBound - 1)/\(facts.size)"
                #expect(reply["Content-Range"] == range, "\(text)")
                #expect(reply["ETag"] == "\"\(facts.id)\"", "\(text)")
            }
        }
    }

    @Test func `a range outside of the file is refused with the file's size`() async throws {
        try await withServer { server in
            let guest = try await server.guest()
            let facts = try await guest.upload(SampleFile.jpeg.bytes()).decode(BlobFacts.self)
            let range = ["Range": "bytes=\(facts.size)-"]
            let reply = try await guest.get("/v1/blobs/\(facts.id)", headers: range)
            #expect(reply.status == 416 && reply.code == "range_not_satisfiable")
            #expect(reply["Content-Range"] == "bytes */\(facts.size)")
            #expect(reply["Cache-Control"] == "no-store")
        }
    }

    @Test func `several ranges, another tag and HEAD give the whole file`() async throws {
        try await withServer { server in
            let guest = try await server.guest()
            let facts = try await guest.upload(SampleFile.jpeg.bytes()).decode(BlobFacts.self)
            let path = "/v1/blobs/\(facts.id)"
            let several = try await guest.get(path, headers: ["Range": "bytes=0-1,3-4"])
            #expect(several.status == 200 && several.bytes.count == facts.size)
            let changed = ["Range": "bytes=0-1", "If-Range": "\"another\""]
            #expect(try await guest.get(path, headers: changed).status == 200)
            let same = ["Range": "bytes=0-1", "If-Range": "\"\(facts.id)\""]
            #expect(try await guest.get(path, headers: same).bytes.count == 2)
            let head = try await guest.send("HEAD", path, headers: ["Range": "bytes=0-1"])
            #expect(head.status == 200 && head["Content-Length"] == "\(facts.size)")
            let known = ["Range": "bytes=0-1", "If-None-Match": "\"\(facts.id)\""]
            #expect(try await guest.get(path, headers: known).status == 304)
        }
    }

    @Test func `a file is returned only with a tag that 'If-Match' accepts`() async throws {
        try await withServer { server in
            let guest = try await server.guest()
            let facts = try await guest.upload(SampleFile.jpeg.bytes()).decode(BlobFacts.self)
            let path = "/v1/blobs/\(facts.id)"
            for accepted in ["\"\(facts.id)\"", "\"other\" , \"\(facts.id)\"", "*"] {
                let reply = try await guest.get(path, headers: ["If-Match": accepted])
                #expect(reply.status == 200, "\(accepted)")
            }
            // The comparison is strong, so a weak tag accepts nothing.
            for refused in ["\"other\"", "W/\"\(facts.id)\"", facts.id] {
                let reply = try await guest.get(path, headers: ["If-Match": refused])
                #expect(reply.status == 412 && reply.code == "precondition_failed", "\(refused)")
                #expect(reply["Cache-Control"] == "no-store", "\(refused)")
            }
        }
    }

    @Test func `'If-Match' is decided before other conditions, and for HEAD and DELETE too`()
        async throws
    {
        try await withServer { server in
            let guest = try await server.guest()
            let facts = try await guest.upload(SampleFile.jpeg.bytes()).decode(BlobFacts.self)
            let path = "/v1/blobs/\(facts.id)"
            let tag = "\"\(facts.id)\""
            let other = ["If-Match": "\"other\""]
            let known = ["If-None-Match": tag, "Range": "bytes=\(facts.size)-"]
            let both = other.merging(known) { first, _ in first }
            #expect(try await guest.get(path, headers: both).status == 412)
            #expect(try await guest.send("HEAD", path, headers: other).status == 412)
            #expect(try await guest.send("DELETE", path, headers: other).status == 412)
            let unchanged = ["If-Match": tag, "If-None-Match": tag]
            #expect(try await guest.get(path, headers: unchanged).status == 304)
            let part = ["If-Match": tag, "Range": "bytes=0-1"]
            #expect(try await guest.get(path, headers: part).status == 206)
            #expect(try await guest.send("DELETE", path, headers: ["If-Match": tag]).status == 204)
            // A file that is missing is `not_found`, not a failed precondition.
            #expect(try await guest.get(path, headers: other).status == 404)
        }
    }

    @Test func `public files and thumbnails honour 'If-Match' with their own tags`() async throws {
        try await withServer { server in
            let guest = try await server.guest()
            let png = SampleFile.png.bytes(width: 300, height: 200, orientation: 1)
            let facts = try await guest.upload(png).decode(BlobFacts.self)
            #expect(try await name(facts.id, "pages", "cover", by: guest).status == .applied)
            let file = ["If-Match": "\"\(facts.id)\""]
            let thumbnail = ["If-Match": "\"\(facts.id)-96\""]
            for path in ["/v1/blobs/\(facts.id)", "/v1/public/blobs/\(facts.id)"] {
                #expect(try await guest.get(path, headers: file).status == 200, "\(path)")
                #expect(try await guest.get(path, headers: thumbnail).status == 412, "\(path)")
                let small = path + "?w=100"
                #expect(try await guest.get(small, headers: thumbnail).status == 200, "\(path)")
                #expect(try await guest.get(small, headers: file).status == 412, "\(path)")
            }
        }
    }

    @Test func `a deleted file is gone, and a repeated deletion succeeds`() async throws {
        try await withServer { server in
            let (ann, ben) = (try await server.guest(), try await server.guest())
            let facts = try await ann.upload(SampleFile.jpeg.bytes()).decode(BlobFacts.self)
            let path = "/v1/blobs/\(facts.id)"
            // Another account's deletion changes nothing, and tells nothing.
            #expect(try await ben.send("DELETE", path).status == 204)
            #expect(try await ann.get(path).status == 200)
            for _ in 1...2 {
                let reply = try await ann.send("DELETE", path)
                #expect(reply.status == 204 && reply.bytes.isEmpty)
            }
            #expect(try await ann.get(path).code == "not_found")
            #expect(try await ann.send("DELETE", "/v1/blobs/nonsense").code == "not_found")
            #expect(try await ann.upload(SampleFile.jpeg.bytes()).status == 201)
        }
    }

    @Test func `a file of a public member is served without a token, for shared caches`()
        async throws
    {
        try await withServer { server in
            let guest = try await server.guest()
            let facts = try await guest.upload(SampleFile.jpeg.bytes()).decode(BlobFacts.self)
            let path = "/v1/public/blobs/\(facts.id)"
            #expect(try await server.send("GET", path).code == "not_found")
            #expect(try await name(facts.id, "pages", "cover", by: guest).status == .applied)

            let origin = ["Origin": "https://elsewhere.example"]
            let reply = try await server.send("GET", path, headers: origin)
            #expect(reply.status == 200 && reply.bytes.count == facts.size)
            #expect(reply["Cache-Control"] == "public, max-age=31536000, immutable")
            #expect(reply["ETag"] == "\"\(facts.id)\"")
            #expect(reply["Content-Type"] == "image/jpeg")
            #expect(reply["X-Content-Type-Options"] == "nosniff")
            #expect(reply["Access-Control-Allow-Origin"] == "*")
            #expect(reply["Cross-Origin-Resource-Policy"] == "cross-origin")
            #expect(reply["Set-Cookie"] == nil && reply["Vary"] == nil)
            let tag = ["If-None-Match": "\"\(facts.id)\""]
            #expect(try await server.send("GET", path, headers: tag).status == 304)
            let part = try await server.send("GET", path, headers: ["Range": "bytes=0-9"])
            #expect(part.status == 206 && part.bytes.count == 10)
            #expect(try await server.send("GET", path + "?w=5").code == "malformed_request")

            let link = try await guest.get("/v1/blobs/\(facts.id)/link").decode(BlobLink.self)
            #expect(link == BlobLink(url: path))
            // A personal answer of the same file stays out of shared caches.
            let own = try await guest.get("/v1/blobs/\(facts.id)")
            #expect(own["Cache-Control"] == "private, max-age=31536000, immutable")
            #expect(own["Access-Control-Allow-Origin"] == nil)
        }
    }

    @Test func `the cache of a browser does not serve a personal file to the next user`()
        async throws
    {
        try await withServer { server in
            let guest = try await server.guest()
            let png = SampleFile.png.bytes(width: 300, height: 200)
            let facts = try await guest.upload(png).decode(BlobFacts.self)
            let path = "/v1/blobs/\(facts.id)"
            let known = ["If-None-Match": "\"\(facts.id)\""]
            let replies = [
                try await guest.get(path), try await guest.get(path + "?w=100"),
                try await guest.get(path, headers: ["Range": "bytes=0-9"]),
                try await guest.get(path, headers: known),
            ]
            #expect(replies.map(\.status) == [200, 200, 206, 304])
            #expect(replies.allSatisfy { $0["Vary"]?.contains("Authorization") == true })
        }
    }

    @Test func `a thumbnail is kept by the caches that may keep its file`() async throws {
        try await withServer { server in
            let guest = try await server.guest()
            let png = SampleFile.png.bytes(width: 300, height: 200, orientation: 1)
            let facts = try await guest.upload(png).decode(BlobFacts.self)
            let path = "/v1/public/blobs/\(facts.id)?w=100"
            #expect(try await server.send("GET", path).code == "not_found")
            let signed = try await guest.get("/v1/blobs/\(facts.id)/link").decode(BlobLink.self)
            let linked = try await server.send("GET", signed.url + "&w=100")
            #expect(linked["Content-Type"] == "image/jpeg")
            #expect(linked["Cache-Control"]?.hasPrefix("private, max-age=") == true)

            #expect(try await name(facts.id, "pages", "cover", by: guest).status == .applied)
            let reply = try await server.send("GET", path)
            #expect(reply.status == 200 && reply.bytes == linked.bytes)
            #expect(reply["Cache-Control"] == "public, max-age=31536000, immutable")
            #expect(reply["ETag"] == "\"\(facts.id)-96\"")
            #expect(reply["Access-Control-Allow-Origin"] == "*")
            #expect(reply["Cross-Origin-Resource-Policy"] == "cross-origin")
            let tag = ["If-None-Match": "\"\(facts.id)-96\""]
            #expect(try await server.send("GET", path, headers: tag).status == 304)
        }
    }

    @Test func `a thumbnail has no ranges, and HEAD has its length`() async throws {
        try await withServer { server in
            let guest = try await server.guest()
            let png = SampleFile.png.bytes(width: 300, height: 200, orientation: 1)
            let facts = try await guest.upload(png).decode(BlobFacts.self)
            let path = "/v1/blobs/\(facts.id)"
            let part = ["Range": "bytes=0-9"]
            let whole = try await guest.get(path + "?w=100", headers: part)
            #expect(whole.status == 200 && whole.bytes.count > 10)
            #expect(whole["Accept-Ranges"] == nil && whole["Content-Range"] == nil)
            let head = try await guest.send("HEAD", path + "?w=100")
            #expect(head.status == 200 && head.bytes.isEmpty)
            #expect(head["Content-Length"] == "\(whole.bytes.count)")
            #expect(head["ETag"] == whole["ETag"])
            // An image that fits is the file itself.
            let original = try await guest.get(path + "?w=300", headers: part)
            #expect(original.status == 206 && original.bytes.count == 10)
        }
    }

    @Test func `a signed link opens a private file until its end`() async throws {
        try await withServer { server in
            let (ann, ben) = (try await server.guest(), try await server.guest())
            let facts = try await ann.upload(SampleFile.jpeg.bytes()).decode(BlobFacts.self)
            let path = "/v1/blobs/\(facts.id)/link"
            #expect(try await ben.get(path).code == "not_found")
            #expect(try await name(facts.id, "posts", "photo", by: ann).status == .applied)
            let reply = try await ben.get(path)
            #expect(reply["Cache-Control"] == "no-store")
            let link = try reply.decode(BlobLink.self)
            #expect(link.expiresAt != nil)
            let file = try await server.send("GET", link.url)
            #expect(file.status == 200 && file.bytes.count == facts.size)
            let caching = file["Cache-Control"] ?? ""
            #expect(caching.hasPrefix("private, max-age=") && caching.hasSuffix(", immutable"))
            let forged = link.url.replacing("signature=", with: "signature=A")
            #expect(try await server.send("GET", forged).code == "not_found")
            let unsigned = "/v1/public/blobs/\(facts.id)"
            #expect(try await server.send("GET", unsigned).code == "not_found")
            server.setup.wall.advance(by: .seconds(4_501))
            #expect(try await server.send("GET", link.url).code == "not_found")
        }
    }

    @Test func `a record that names another account's file is refused`() async throws {
        try await withServer { server in
            let (ann, ben) = (try await server.guest(), try await server.guest())
            let facts = try await ann.upload(SampleFile.jpeg.bytes()).decode(BlobFacts.self)
            let refused = try await name(facts.id, "pages", "cover", by: ben)
            #expect(refused.problem?.code == .invalidContent)
            let open = "/v1/public/blobs/\(facts.id)"
            #expect(try await server.send("GET", open).code == "not_found")
        }
    }
}
