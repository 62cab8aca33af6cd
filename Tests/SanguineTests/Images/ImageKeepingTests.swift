import Foundation
import SanguineMedia
import SanguineModel
import SanguineTesting
import Synchronization
import TestSupport
import Testing

@testable import Sanguine

/// Images on disk, over restarts, and of users who leave.
@Suite("Image keeping", .bounded)
struct ImageKeepingTests {
    private let stage = ImageStage()
    private let folder = TemporaryFolder()
    private let size = ImageStage.size

    private func files(_ path: String) throws -> [URL] {
        let url = folder.url.appending(path: path)
        guard FileManager.default.fileExists(atPath: url.path) else { return [] }
        return try FileManager.default.contentsOfDirectory(
            at: url,
            includingPropertiesForKeys: nil
        )
    }

    /// Loads an image, and waits until its file is written.
    private func store(_ source: ImageSource) async throws {
        let client = try stage.client(folder: folder).client
        _ = try await client.images.image(source, fitting: size)
        client.services.sharedImages.disk.flush()
        client.users.current.images.scope.disk.flush()
        client.close()
    }

    @Test func `an image survives a restart without a request`() async throws {
        try await store(ImageStage.url("a.png"))
        let client = try stage.client(folder: folder).client
        let image = try await client.images.image(ImageStage.url("a.png"), fitting: size)
        #expect(image.origin == .disk && stage.requests() == 1)
        #expect(client.images.statistics.diskHits == 1 && client.images.statistics.diskBytes > 900)
    }

    @Test(arguments: ["cut", "changed", "empty"])
    func `a damaged file is removed, and the image is loaded again`(damage: String) async throws {
        try await store(ImageStage.url("a.png"))
        let file = try #require(try files(ImageDisk.name).first)
        var content = try Data(contentsOf: file)
        switch damage {
        case "cut": content = content.dropLast(10)
        case "changed": content[content.count - 5] ^= 0xFF
        default: content = Data()
        }
        try content.write(to: file)
        let client = try stage.client(folder: folder).client
        let image = try await client.images.image(ImageStage.url("a.png"), fitting: size)
        #expect(image.origin == .network && client.images.statistics.damagedFiles == 1)
        client.services.sharedImages.disk.flush()
        #expect(try Data(contentsOf: file).count > 900)
    }

    @Test func `a file that cannot be decoded is loaded again, and does not stay on disk`()
        async throws
    {
        try await store(ImageStage.url("a.png"))
        let test = try stage.client(folder: folder)
        let request = test.client.images.request(ImageStage.url("a.png"), size)
        let newest = NewestImage()
        // Its checksum is right, because the host has sent it like this.
        let once = ImageEngine(.init(), clock: test.wall, decoder: FailingDecoder(failures: 1))
        try await once.load(request, thumbnail: nil, RequestPriority(.normal)) { newest.set($0) }
        #expect(newest.image?.origin == .network && stage.requests() == 2)
        request.scope.disk.flush()
        #expect(try files(ImageDisk.name).count == 1)

        let always = ImageEngine(.init(), clock: test.wall, decoder: FailingDecoder(failures: 9))
        await #expect(throws: SanguineError.self) {
            try await always.load(request, thumbnail: nil, RequestPriority(.normal)) { _ in }
        }
        request.scope.disk.flush()
        #expect(try files(ImageDisk.name).isEmpty && stage.requests() == 3)
    }

    @Test func `the file of another image is not shown under this key`() async throws {
        try await store(ImageStage.url("a.png"))
        let other = ImageFileKey(scope: 0, resource: "https://images.test/b.png", side: 0)
        let file = try #require(try files(ImageDisk.name).first)
        let url = folder.url.appending(path: ImageDisk.name).appending(
            path: ImageDisk.name(of: other)
        )
        try FileManager.default.moveItem(at: file, to: url)
        let client = try stage.client(folder: folder).client
        let image = try await client.images.image(ImageStage.url("b.png"), fitting: size)
        #expect(image.origin == .network && stage.requests("b.png") == 1)
    }

    @Test func `a half-written file of an earlier process is removed`() async throws {
        try await store(ImageStage.url("a.png"))
        let draft = folder.url.appending(path: ImageDisk.name).appending(path: "x.draft")
        try Data("half".utf8).write(to: draft)
        let client = try stage.client(folder: folder).client
        _ = try await client.images.image(ImageStage.url("a.png"), fitting: size)
        #expect(!FileManager.default.fileExists(atPath: draft.path))
    }

    @Test func `the bytes on disk are limited`() async throws {
        let client = try stage.client(folder: folder) { $0.images.diskBytes = 5_000 }.client
        for number in 0..<20 {
            _ = try await client.images.image(ImageStage.url("\(number).png"), fitting: size)
            client.services.sharedImages.disk.flush()
            #expect(client.images.statistics.diskBytes <= 5_000)
        }
        let bytes = try files(ImageDisk.name).map { try Data(contentsOf: $0).count }
        #expect(bytes.reduce(0, +) <= 5_000 && !bytes.isEmpty)
        #expect(client.images.statistics.evictedFromDisk > 10)
    }

    @Test func `a sign-out removes the user's images from memory and disk, and shares public ones`()
        async throws
    {
        let client = try stage.client(folder: folder).client
        let (own, open) = (ImageSource.file(ImageStage.id(7)), ImageStage.url("open.png"))
        for source in [own, open] { _ = try await client.images.image(source, fitting: size) }
        let disk = client.users.current.images.scope.disk
        disk.flush()
        #expect(try files("users/1/\(ImageDisk.name)").count == 1)
        await client.signOut(keeping: .nothing)
        #expect(client.images.cached(own, fitting: size) == nil)
        #expect(client.images.cached(open, fitting: size) != nil)
        #expect(try files("users/1/\(ImageDisk.name)").isEmpty)
        _ = try await client.images.image(own, fitting: size)
        #expect(stage.requests("blobs") == 2 && stage.requests("open") == 1)
    }

    @Test func `an answer that arrives after a sign-out is dropped`() async throws {
        let client = try stage.client(folder: folder).client
        let own = ImageSource.file(ImageStage.id(7))
        stage.network.ignoresCancellation = true
        stage.network.hold()
        let load = Task { try await client.images.image(own, fitting: size) }
        try await stage.network.waitForHeld(1)
        await client.signOut(keeping: .nothing)
        stage.network.release()
        await #expect(throws: SanguineError.userChanged) { try await load.finished() }
        try await eventually("the exchange has ended") { stage.network.inFlight == 0 }
        client.services.sharedImages.disk.flush()
        #expect(client.images.cached(own, fitting: size) == nil)
        #expect(try files("users/1/\(ImageDisk.name)").isEmpty)
    }

    @Test func `signed URLs and those of the own server belong to the user`() throws {
        let client = try stage.client().client
        let user = client.users.current.images.scope.number
        func scope(_ text: String) throws -> ImageScope {
            client.images.request(.url(try #require(URL(string: text))), nil).key.scope
        }
        #expect(try scope("https://images.test/a.png") == 0)
        #expect(try scope("https://images.test/a.png?X-Amz-Signature=1") == user)
        #expect(try scope(TestClient.server + "/a.png") == user)
    }

    @Test func `a stale image is shown while it is checked, and stays if it has not changed`()
        async throws
    {
        let stage = ImageStage { request in
            guard request.headers["If-None-Match"] == nil else { return .status(304) }
            return .respond(
                ImageStage.image(headers: ["etag": "\"1\"", "cache-control": "max-age=60"])
            )
        }
        let test = try stage.client()
        _ = try await test.client.images.image(ImageStage.url("a.png"), fitting: size)
        test.wall.advance(by: .seconds(61))
        stage.network.hold()
        let stream = test.client.images.load(ImageStage.url("a.png"), fitting: size)
        var reader = stream.makeAsyncIterator()
        let first = try await reader.next()
        #expect(first?.origin == .memory && first?.isThumbnail == false)
        try await stage.network.waitForHeld(1)
        stage.network.release()
        let second = try await reader.next()
        #expect(second == nil && test.client.images.statistics.unchanged == 1)
    }

    @Test func `a changed image follows the stale one`() async throws {
        let stage = ImageStage { request in
            let width = request.headers["If-None-Match"] == nil ? 800 : 400
            return .respond(
                ImageStage.image(
                    width: width,
                    headers: ["etag": "\"\(width)\"", "cache-control": "max-age=60"]
                )
            )
        }
        let test = try stage.client()
        _ = try await test.client.images.image(ImageStage.url("a.png"), fitting: size)
        test.wall.advance(by: .seconds(61))
        let stream = test.client.images.load(ImageStage.url("a.png"), fitting: size)
        #expect(try await ImageStage.all(of: stream).map(\.width) == [800, 400])
        #expect(test.client.images.cached(ImageStage.url("a.png"), fitting: size)?.width == 400)
    }

    @Test func `a stale image stays when its host cannot be reached`() async throws {
        let stage = ImageStage(headers: ["cache-control": "no-cache", "etag": "\"1\""])
        let client = try stage.client().client
        _ = try await client.images.image(ImageStage.url("a.png"), fitting: size)
        stage.network.script(.fail(.offline("no route")))
        #expect(
            try await client.images.image(ImageStage.url("a.png"), fitting: size).width == 800
        )
    }

    @Test func `a folder that another program has removed is created again`() async throws {
        let client = try stage.client(folder: folder).client
        for name in ["a.png", "b.png"] {
            _ = try await client.images.image(ImageStage.url(name), fitting: size)
            client.services.sharedImages.disk.flush()
            #expect(try files(ImageDisk.name).count == 1)
            try FileManager.default.removeItem(at: folder.url.appending(path: ImageDisk.name))
        }
    }

    @Test func `an image that must not be stored is not on disk`() async throws {
        let stage = ImageStage(headers: ["cache-control": "no-store"])
        let client = try stage.client(folder: folder).client
        _ = try await client.images.image(ImageStage.url("a.png"), fitting: size)
        client.services.sharedImages.disk.flush()
        #expect(try files(ImageDisk.name).isEmpty)
    }

    @Test func `a removed image is loaded again`() async throws {
        let client = try stage.client(folder: folder).client
        let source = ImageStage.url("a.png")
        _ = try await client.images.image(source, fitting: size)
        client.images.remove(source)
        #expect(client.images.cached(source, fitting: size) == nil)
        #expect(try await client.images.image(source, fitting: size).origin == .network)
    }

    @Test func `the background empties no memory, and a memory warning keeps what is visible`()
        async throws
    {
        let lifecycle = ManualLifecycle()
        let client = try stage.client { $0.lifecycle = lifecycle }.client
        for name in ["a.png", "b.png"] {
            _ = try await client.images.image(ImageStage.url(name), fitting: size)
        }
        lifecycle.isForeground.set(false)
        lifecycle.isForeground.set(true)
        #expect(client.images.statistics.memoryImages == 2)
        client.services.images.show(client.images.request(ImageStage.url("a.png"), size).key)
        client.images.trimMemory()
        #expect(client.images.cached(ImageStage.url("a.png"), fitting: size) != nil)
        #expect(client.images.cached(ImageStage.url("b.png"), fitting: size) == nil)
    }

    @Test func `a negative limit is refused`() {
        #expect(throws: SanguineError.self) { try stage.client { $0.images.memoryBytes = -1 } }
    }
}

/// A decoder that fails at first.
private final class FailingDecoder: ImageDecoder {
    private let failures: Mutex<Int>

    init(failures: Int) { self.failures = Mutex(failures) }

    func decode(_ data: Data, _ header: ImageHeader, side: Int) -> DecodedImage? {
        let fails = failures.withLock { left in
            left -= 1
            return left >= 0
        }
        return fails ? nil : PlatformImageDecoder().decode(data, header, side: side)
    }
}
