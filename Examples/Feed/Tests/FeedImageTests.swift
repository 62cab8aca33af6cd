import FeedApp
import FeedModel
import Foundation
import Sanguine
import SanguineTesting
import TestSupport
import Testing

/// The rows of the README about pictures, with the real server.
@Suite("Pictures of the feed", .bounded(.seconds(120)))
struct FeedImageTests {
    @Test func `pictures in memory are bounded, and each is requested once`() async throws {
        try await FeedWorld.with { world in
            let client = try world.client()
            let files = try await Self.upload(45, to: client)
            // Each picture in each size counts as one.
            let shown = files.flatMap { file in
                ImageLimits.sides.map { (file, ImageSize(width: $0, height: $0)) }
            }
            var (most, mostBytes) = (0, 0)
            for (file, size) in shown {
                _ = try await client.images.image(.file(file), fitting: size)
                let statistics = client.images.statistics
                most = max(most, statistics.memoryImages)
                mostBytes = max(mostBytes, statistics.memoryBytes)
            }
            let requests = client.images.statistics.requests
            try #require(shown.count > ImageLimits.memoryImages && most == ImageLimits.memoryImages)
            #expect(mostBytes <= ImageLimits.memoryBytes && requests == shown.count)
            // Evicted ones are on disk.
            _ = try await client.images.image(.file(files[0]), fitting: shown[0].1)
            #expect(client.images.statistics.requests == requests)
            client.close()

            // With less memory, the bytes are the limit.
            let small = try world.client { $0.images.memoryBytes = 5_000 }
            var bytes = 0
            for (file, size) in shown.prefix(60) {
                _ = try await small.images.image(.file(file), fitting: size)
                bytes = max(bytes, small.images.statistics.memoryBytes)
            }
            #expect(bytes > 0 && bytes <= 5_000)
            #expect(small.images.statistics.evictedFromMemory > 0)
            printFigure(
                "K3",
                ours: """
                    \(most) of \(shown.count) pictures in memory, \(requests) requests; at most \
                    \(bytes) bytes of 5000
                    """,
                theirs: "at most 500 pictures or 100 MB"
            )
            small.close()
        }
    }

    /// Stores drawings, and returns their ids.
    private static func upload(
        _ count: Int,
        to client: SanguineClient
    ) async throws -> [String] {
        var files: [String] = []
        for number in 0..<count {
            let drawing = Drawing(UInt64(number), width: 30, height: 20)
            files.append(try await client.upload(drawing.photo.file).id)
        }
        return files
    }

    @Test func `a thumbnail comes first, and a late one never replaces the picture`() async throws {
        try await FeedWorld.with { world in
            try await world.publish([Drawing(1), Drawing(2)])
            let network = GatedNetwork()
            let client = try world.client { $0.transport = network }
            let screen = await FeedScreen(client)
            await screen.refresh()
            let posts = await screen.posts
            try #require(posts.count == 2)
            // The record has the placeholder, so the first frame needs no request.
            let picture = await screen.picture(of: posts[0])
            #expect(await picture.placeholder?.bytes.count ?? 0 <= 29)
            #expect(await picture.placeholder != nil)

            network.hold { $0.isForFile() }
            await picture.appear()
            try await network.waitForHeld(2)
            network.release { $0.isForFile(side: ImageLimits.thumbnailSide) }
            try await eventually("the thumbnail") { await picture.phase == .thumbnail }
            let first = await picture.image?.width ?? 0
            network.release { _ in true }
            try await eventually("the picture") { await picture.phase == .ready }
            let second = await picture.image?.width ?? 0
            #expect(first == ImageLimits.thumbnailSide && second == 600)
            // A row that comes back has the picture in its first frame.
            #expect(await screen.picture(of: posts[0]).phase == .ready)

            // The other way round: the thumbnail is late.
            let other = await screen.picture(of: posts[1])
            await other.appear()
            try await network.waitForHeld(2)
            network.release { !$0.isForFile(side: ImageLimits.thumbnailSide) }
            try await eventually("the other picture") { await other.phase == .ready }
            network.release()
            try await client.waitUntilIdle()
            let last = await other.image
            #expect(last?.width == 600 && last?.isThumbnail == false)
            printFigure(
                "K10",
                ours: """
                    \(first) px, then \(second) px; after a late thumbnail, still \
                    \(last?.width ?? 0) px
                    """
            )
            client.close()
        }
    }

    @Test func `a published picture is fit for a CDN`() async throws {
        try await FeedWorld.with { world in
            let client = try world.client()
            let screen = try await world.screen(client)
            // Noise, which is as large as a photo.
            let noise = SampleFile.png.bytes(width: 300, height: 300, filler: 90_000)
            let photo = Photo(.data(Data(noise), type: "image/png"), placeholder: nil)
            let post = try await screen.publish("Picture", photo: photo)
            // It is public when a record names it, not before.
            try await client.synchronize()
            let file = try #require(client.record(Post.self, post.id)?.photo)
            let path = "/v1/public/blobs/\(file)"
            let whole = try await Self.get(world, path)
            #expect(whole.status == 200)
            let tag = try #require(whole.header("ETag"))
            let rules = try #require(whole.header("Cache-Control"))
            #expect(rules.contains("immutable") && rules.contains("public"))
            #expect(whole.header("Set-Cookie") == nil)
            let same = try await Self.get(world, path, ["If-None-Match": tag])
            let part = try await Self.get(world, path, ["Range": "bytes=0-99"])
            let small = try await Self.get(world, path + "?w=128")
            #expect(same.status == 304 && same.body.isEmpty)
            #expect(part.status == 206 && part.body == whole.body.prefix(100))
            #expect(small.status == 200 && small.body.count < whole.body.count)
            #expect(small.header("Cache-Control") == rules)
            printFigure(
                "K13",
                ours: """
                    '\(rules)', \(same.status) for a known ETag, \(part.status) for a range, and a \
                    thumbnail of \(small.body.count) bytes for \(whole.body.count)
                    """
            )
            client.close()
        }
    }

    /// Sends a request as a CDN does, without a token.
    private static func get(
        _ world: FeedWorld,
        _ path: String,
        _ headers: [String: String] = [:]
    ) async throws -> TransportResponse {
        let url = try #require(URL(string: path, relativeTo: world.server)?.absoluteURL)
        let request = TransportRequest(url: url, headers: headers)
        return try await URLSessionTransport.patient.send(request)
    }

    @Test func `a drawing has the placeholder of its own pixels`() throws {
        let photo = Drawing(3).photo
        let hash = try #require(photo.placeholder)
        #expect((17...29).contains(hash.bytes.count))
        #expect(abs(hash.aspectRatio - 1.5) < 0.3)
        #expect(Drawing(3).png == Drawing(3).png && Drawing(3).png != Drawing(4).png)
    }
}
