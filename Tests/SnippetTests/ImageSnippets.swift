import Foundation
import Sanguine
import SanguineTesting
import TestSupport
import Testing

/// The images that were shown.
private let shown = WatchedState<[Int]>([])

private func show(_ image: LoadedImage) { shown.withLock { $0.append(image.width) } }

struct PhotoPost: SyncedRecord {
    static let collection = RecordCollection("photo_posts")
    let id: RecordID
    var text: String
    /// The id of a file: a local one until the file is uploaded.
    var photo: String
}

struct AddPhotoPost: RecordMutation {
    static let name = "photo_post.add"
    var id = RecordID.new()
    let text: String
    let photo: String

    func apply(to records: inout Records) throws {
        records.set(PhotoPost(id: id, text: text, photo: photo))
    }
}

private struct CoverStory: Sendable {
    let cover: URL
}

/// The samples of the guide to images.
@Suite("Image snippets", .bounded)
struct ImageSnippets {
    private let network = ScriptedTransport { request in
        let query = URLComponents(url: request.url, resolvingAgainstBaseURL: true)?.queryItems
        let width = query?.first { $0.name == "w" }?.value.flatMap { Int($0) } ?? 800
        var response = TransportResponse(status: 200)
        response.body = Data(SampleFile.png.bytes(width: width, height: 100))
        return .respond(response)
    }

    private func client() throws -> SanguineClient {
        var configuration = SanguineClient.Configuration.inMemory()
        configuration.baseURL = URL(string: "https://api.example.org/v2")
        configuration.transport = network
        return try SanguineClient(configuration)
    }

    @Test func `an image is loaded once and then shown from memory`() async throws {
        let client = try client()
        defer { client.close() }
        let cover = try #require(URL(string: "https://images.example.org/cover.png"))
        let size = ImageSize(width: 600, height: 400)  // in pixels
        if let image = client.images.cached(.url(cover), fitting: size) { show(image) }  // at once
        let image = try await client.images.image(.url(cover), fitting: size)
        #expect(image.width == 800)

        let nextPage = [CoverStory(cover: cover)]
        let prefetch = client.images.prefetch(nextPage.map { .url($0.cover) }, fitting: size)
        await prefetch.finished()
        #expect(network.requests.count == 1)
    }

    @Test func `a sequence has the full image`() async throws {
        let client = try client()
        defer { client.close() }
        let size = ImageSize(width: 600, height: 400)
        let cover = try #require(URL(string: "https://images.example.org/cover.png"))
        let stream = client.images.load(.url(cover), fitting: size)
        for try await image in stream { show(image) }
        #expect(shown.value.contains(800))
    }

    @Test func `a post names a photo that is not uploaded yet`() async throws {
        let schema = RecordSchema(PhotoPost.self, AddPhotoPost.self)
        let device = TestDevice(network: InMemoryAuthority(schema: schema)) { $0.register(schema) }
        let client = try device.launch()
        let url = FileManager.default.temporaryDirectory.appending(path: UUID().uuidString)
        try Data(SampleFile.jpeg.bytes()).write(to: url)
        defer { try? FileManager.default.removeItem(at: url) }
        let size = ImageSize(width: 600, height: 400)
        let text = "A house."
        let file = RequestBody.file(url, type: "image/jpeg")
        let photo = try await client.enqueueUpload(of: file, fitting: size)
        try client.perform(AddPhotoPost(text: text, photo: photo.id))
        #expect(client.images.cached(.file(photo.id), fitting: size) != nil)
        try await client.synchronize()
        #expect(client.records(PhotoPost.self).first?.photo == client.fileID(of: photo.id))
    }

    @Test func `a placeholder is computed from pixels`() {
        let pixels = [UInt8](repeating: 255, count: 40 * 30 * 4)
        let placeholder = ThumbHash(width: 40, height: 30, rgba: pixels)
        #expect(placeholder?.aspectRatio == 7.0 / 5)
    }

    /// The sample needs the server, so it is only compiled.
    private func showPhoto(_ photo: String, _ client: SanguineClient) async throws {
        let size = ImageSize(width: 600, height: 400)
        for try await image in client.images.load(.file(photo), fitting: size) { show(image) }
    }
}
