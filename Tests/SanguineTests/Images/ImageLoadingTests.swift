import Foundation
import SanguineModel
import SanguineTesting
import Synchronization
import TestSupport
import Testing

@testable import Sanguine

/// Loading images through a client.
@Suite("Image loading", .bounded)
struct ImageLoadingTests {
    private let stage = ImageStage()
    private let size = ImageStage.size

    @Test func `an image in memory is shown at once, and is not requested again`() async throws {
        let client = try stage.client().client
        let source = ImageStage.url("a.png")
        #expect(client.images.cached(source, fitting: size) == nil)
        let image = try await client.images.image(source, fitting: size)
        #expect(image.width == 800 && image.origin == .network && !image.isThumbnail)
        let known = try #require(client.images.cached(source, fitting: size))
        #expect(known.origin == .memory && known.picture == image.picture)
        // A layout that differs by some pixels is the same image.
        #expect(client.images.cached(source, fitting: ImageSize(width: 601, height: 399)) != nil)
        _ = try await client.images.image(source, fitting: size)
        #expect(stage.requests() == 1 && client.images.statistics.memoryHits == 1)
    }

    @Test func `callers with one image share its request`() async throws {
        let client = try stage.client().client
        stage.network.hold()
        let tasks = (0..<20).map { _ in
            Task { try await client.images.image(ImageStage.url("a.png"), fitting: size) }
        }
        try await eventually("19 callers share") { client.images.statistics.shared == 19 }
        stage.network.release()
        for task in tasks { #expect(try await task.finished().width == 800) }
        #expect(stage.requests() == 1)
    }

    @Test func `one file is loaded for images of two sizes`() async throws {
        let client = try stage.client().client
        stage.network.hold()
        let small = Task {
            try await client.images.image(
                ImageStage.url("a.png"),
                fitting: ImageSize(width: 64, height: 64)
            )
        }
        let large = Task { try await client.images.image(ImageStage.url("a.png"), fitting: size) }
        try await stage.network.waitForHeld(1)
        try await eventually("both wait") { client.services.images.inFlight == 2 }
        stage.network.release()
        _ = try await small.finished()
        _ = try await large.finished()
        #expect(stage.requests() == 1)
    }

    @Test func `the thumbnail of a file comes first, and then the full image`() async throws {
        let client = try stage.client().client
        stage.network.hold()
        let stream = client.images.load(.file(ImageStage.id(1)), fitting: size)
        let reader = Task { try await ImageStage.all(of: stream) }
        try await stage.network.waitForHeld(2)
        try await stage.network.releaseFirst { $0.url.query()?.contains("w=128") == true }
        try await eventually("the thumbnail is shown") {
            client.images.cached(.file(ImageStage.id(1)), fitting: size)?.isThumbnail == true
        }
        stage.network.release()
        let images = try await reader.finished()
        #expect(images.map(\.width) == [128, 768])
        #expect(images.map(\.isThumbnail) == [true, false])
    }

    @Test func `a caller who gets one image requests no thumbnail, nor does a prefetch`()
        async throws
    {
        let client = try stage.client().client
        _ = try await client.images.image(.file(ImageStage.id(1)), fitting: size)
        await client.images.prefetch([.file(ImageStage.id(2))], fitting: size).finished()
        #expect(stage.requests("w=768") == 2 && stage.requests() == 2)
    }

    @Test func `a late thumbnail does not replace the full image`() async throws {
        let client = try stage.client().client
        stage.network.hold()
        let stream = client.images.load(.file(ImageStage.id(1)), fitting: size)
        let reader = Task { try await ImageStage.all(of: stream) }
        try await stage.network.waitForHeld(2)
        try await stage.network.releaseFirst { $0.url.query()?.contains("w=768") == true }
        let images = try await reader.finished()
        stage.network.release()
        #expect(images.map(\.width) == [768] && images.map(\.isThumbnail) == [false])
    }

    @Test func `a delivery drops a thumbnail that is late`() throws {
        let delivered = Mutex<[Bool]>([])
        let delivery = ImageDelivery { image in
            delivered.withLock { $0.append(image.isThumbnail) }
        }
        func image(isThumbnail: Bool) -> LoadedImage {
            LoadedImage(
                picture: DecodedImage(width: 1, height: 1, cost: 4),
                key: ImageKey(scope: 0, resource: "a", side: 64),
                isThumbnail: isThumbnail,
                origin: .network
            )
        }
        #expect(delivery.deliver(image(isThumbnail: true)))
        #expect(delivery.deliver(image(isThumbnail: false)))
        #expect(!delivery.deliver(image(isThumbnail: true)))
        #expect(delivered.withLock { $0 } == [true, false])
    }

    @Test func `a server without thumbnails sends the original`() async throws {
        let stage = ImageStage { request in
            guard request.url.query() == nil else {
                return .json(Problem(.malformedRequest, "No thumbnails."), status: 400)
            }
            return .respond(ImageStage.image())
        }
        let client = try stage.client().client
        let image = try await client.images.image(.file(ImageStage.id(1)), fitting: size)
        #expect(image.width == 800)
    }

    @Test func `a request without a caller is cancelled, and a later one is sent`() async throws {
        let client = try stage.client().client
        stage.network.hold()
        let first = Task { try await client.images.image(ImageStage.url("a.png"), fitting: size) }
        try await stage.network.waitForHeld(1)
        first.cancel()
        try await stage.network.waitForCancelled(1)
        await #expect(throws: SanguineError.cancelled) { try await first.finished() }
        stage.network.release()
        let image = try await client.images.image(ImageStage.url("a.png"), fitting: size)
        #expect(image.width == 800 && client.images.statistics.cancelled == 1)
    }

    @Test func `a visible image overtakes prefetched ones`() async throws {
        let client = try stage.client { $0.readsPerHost = 6 }.client
        stage.network.hold()
        let prefetch = client.images.prefetch(
            (0..<40).map { ImageStage.url("next-\($0).png") },
            fitting: size
        )
        // Two slots of the host are for prefetches.
        try await stage.network.waitForHeld(2)
        let visible = Task {
            try await client.images.image(
                ImageStage.url("visible.png"),
                fitting: size,
                priority: .visible
            )
        }
        try await stage.network.releaseFirst { $0.url.path().contains("visible") }
        #expect(try await visible.finished().width == 800)
        #expect(stage.requests("next") == 2)
        stage.network.release()
        await prefetch.finished()
        #expect(stage.requests("next") == 40)
    }

    @Test func `a released prefetch ends, but not for a view that waits for its image`()
        async throws
    {
        let client = try stage.client().client
        stage.network.hold()
        var prefetch: ImagePrefetch? = client.images.prefetch(
            [ImageStage.url("a.png"), ImageStage.url("b.png")],
            fitting: size
        )
        try await stage.network.waitForHeld(2)
        let view = Task { try await client.images.image(ImageStage.url("a.png"), fitting: size) }
        try await eventually("the view shares") { client.images.statistics.shared == 1 }
        #expect(prefetch != nil)
        prefetch = nil
        try await stage.network.waitForCancelled(1)
        stage.network.release()
        #expect(try await view.finished().width == 800)
        #expect(stage.requests("a.png") == 1)
    }

    @Test(arguments: ["http://images.test/a.png", "ftp://images.test/a.png", "data:image/png,a"])
    func `an address without encryption is refused`(text: String) async throws {
        let client = try stage.client().client
        let url = try #require(URL(string: text))
        await #expect(throws: SanguineError.self) { try await client.images.image(.url(url)) }
        #expect(stage.requests() == 0)
    }

    @Test func `content that is no image, or has too many pixels, is refused`() async throws {
        let stage = ImageStage { request in
            var response = TransportResponse(status: 200, body: Data("hello".utf8))
            response.headers["content-type"] = "image/png"
            if request.url.path().contains("bomb") {
                response.body = Data(SampleFile.png.bytes(width: 60_000, height: 60_000))
            }
            return .respond(response)
        }
        let client = try stage.client().client
        let text = await #expect(throws: SanguineError.self) {
            try await client.images.image(ImageStage.url("text.png"))
        }
        #expect(text?.asProblem?.code == .unsupportedMediaType)
        let bomb = await #expect(throws: SanguineError.self) {
            try await client.images.image(ImageStage.url("bomb.png"))
        }
        #expect(bomb?.asProblem?.code == .bodyTooLarge)
        #expect(client.images.statistics.failed == 2)
    }

    @Test func `a redirect to another host is followed without the user's token`() async throws {
        let stage = ImageStage { request in
            guard request.url.host() == "sanguine.test" else {
                return .respond(ImageStage.image())
            }
            return .status(302, headers: ["Location": "https://cdn.test/a.png"])
        }
        let client = try stage.client().client
        let url = try #require(URL(string: TestClient.server + "/a.png"))
        _ = try await client.images.image(.url(url), fitting: size)
        let hops = stage.network.requests
        #expect(hops.map { $0.url.host() } == ["sanguine.test", "cdn.test"])
        #expect(hops.first?.headers["Authorization"] != nil)
        #expect(hops.last?.headers["Authorization"] == nil)
    }

    @Test func `a redirect to an address without encryption, or without an end, is refused`()
        async throws
    {
        let stage = ImageStage { request in
            let isEndless = request.url.path().contains("endless")
            let target = isEndless ? "https://b.test/endless" : "http://b.test/a.png"
            return .status(302, headers: ["Location": target])
        }
        let client = try stage.client().client
        for name in ["plain.png", "endless"] {
            await #expect(throws: SanguineError.self) {
                try await client.images.image(ImageStage.url(name))
            }
        }
        #expect(stage.requests() == 1 + 1 + ImageLimits.redirects)
    }

    @Test func `a failure is not remembered`() async throws {
        let client = try stage.client().client
        stage.network.script(.status(404))
        await #expect(throws: SanguineError.self) {
            try await client.images.image(ImageStage.url("a.png"))
        }
        #expect(try await client.images.image(ImageStage.url("a.png")).width == 800)
    }

    @Test func `metrics and the report contain the images`() async throws {
        let client = try stage.client().client
        _ = try await client.images.image(ImageStage.url("secret.png"), fitting: size)
        #expect(client.metrics.summary().images?.misses == 1)
        let report = client.debugReport()
        #expect(report[.imagesInMemory] == 1)
        #expect(report.description.contains("from hosts"))
        #expect(!report.description.contains("secret"))
    }
}
