import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineServer

/// `GET /v1/blobs/{id}?w=&h=` on a real server.
@Suite("Thumbnails over HTTP", .bounded)
struct ThumbnailRouteTests {
    @Test func `a thumbnail fits, and may be cached for a year`() async throws {
        try await LiveServer.with { server in
            let guest = try await server.guest()
            let png = SampleFile.png.bytes(width: 300, height: 200, orientation: 1)
            let facts = try await guest.upload(png).decode(BlobFacts.self)
            let path = "/v1/blobs/\(facts.id)"
            let reply = try await guest.get(path + "?w=100")
            #expect(reply.status == 200)
            #expect(reply["Content-Type"] == "image/jpeg")
            #expect(reply.bytes.starts(with: [0xFF, 0xD8, 0xFF]))
            #expect(reply["ETag"] == "\"\(facts.id)-96\"")
            #expect(reply["Cache-Control"] == "private, max-age=31536000, immutable")
            #expect(reply["X-Content-Type-Options"] == "nosniff")
            let scaled = try await guest.upload(reply.bytes).decode(BlobFacts.self)
            #expect((scaled.width, scaled.height) == (96, 64))
            #expect(try await guest.get(path + "?w=127&h=900").bytes == reply.bytes)

            let tag = ["If-None-Match": "\"\(facts.id)-96\""]
            let known = try await guest.get(path + "?w=100", headers: tag)
            #expect(known.status == 304 && known.bytes.isEmpty)
            #expect(try await guest.get(path + "?w=300").bytes.count == facts.size)
        }
    }

    @Test func `a thumbnail of a video, or of a wrong size, is refused`() async throws {
        try await LiveServer.with { server in
            let (ann, ben) = (try await server.guest(), try await server.guest())
            let film = try await ann.upload(SampleFile.mp4.bytes()).decode(BlobFacts.self)
            let refused = try await ann.get("/v1/blobs/\(film.id)?w=100")
            #expect(refused.status == 422 && refused.code == "invalid_content")
            #expect(refused.body.contains("video"))
            let image = try await ann.upload(SampleFile.jpeg.bytes()).decode(BlobFacts.self)
            for query in ["w=", "w=1", "h=x", "w=64&h=-1"] {
                let reply = try await ann.get("/v1/blobs/\(image.id)?\(query)")
                #expect(reply.status == 400 && reply.code == "malformed_request", "\(query)")
            }
            #expect(try await ben.get("/v1/blobs/\(image.id)?w=32").status == 404)
        }
    }
}
