import Foundation
import SanguineModel
import SanguineTesting
import Synchronization
import TestSupport

@testable import Sanguine

/// A network of hosts with images, and clients that load them.
///
/// A host answers each address with a PNG file, whose width the path or the query names. An address
/// with `missing` in it is answered by 404.
struct ImageStage {
    static let size = ImageSize(width: 600, height: 400)
    let network: ScriptedTransport

    /// - Parameter headers: Header fields of all images. Default: none.
    init(headers: [String: String] = [:]) {
        network = ScriptedTransport { request in Self.answer(request, headers) }
    }

    init(_ handler: @escaping ScriptedTransport.Handler) {
        network = ScriptedTransport(handler)
    }

    func client(
        folder: TemporaryFolder? = nil,
        change: (inout SanguineClient.Configuration) -> Void = { _ in }
    ) throws -> TestClient {
        try TestClient(network: network, folder: folder) { configuration in
            configuration.retries = false
            change(&configuration)
        }
    }

    /// The address of an image on another host.
    static func url(_ name: String) -> ImageSource {
        .url(URL(string: "https://images.test/\(name)") ?? URL(filePath: "/"))
    }

    /// The id of a file of the server.
    static func id(_ number: Int) -> String {
        let digits = String(number)
        return String(repeating: "0", count: 64 - digits.count) + digits
    }

    static func answer(
        _ request: TransportRequest,
        _ headers: [String: String] = [:]
    ) -> ScriptedTransport.Answer {
        if request.url.path().contains("missing") { return .status(404) }
        let query = URLComponents(url: request.url, resolvingAgainstBaseURL: true)?.queryItems
        let width = query?.first { $0.name == "w" }?.value.flatMap { Int($0) } ?? 800
        return .respond(image(width: width, headers: headers))
    }

    static func image(
        width: Int = 800,
        filler: Int = 900,
        headers: [String: String] = [:]
    ) -> TransportResponse {
        let bytes = SampleFile.png.bytes(width: width, height: max(1, width / 2), filler: filler)
        var response = TransportResponse(status: 200, headers: headers, body: Data(bytes))
        response.headers["content-type"] = "image/png"
        return response
    }

    /// Returns all images of a sequence.
    static func all(
        of stream: AsyncThrowingStream<LoadedImage, any Error>
    ) async throws -> [LoadedImage] {
        try await stream.reduce(into: []) { $0.append($1) }
    }

    /// The number of requests whose address contains the text.
    func requests(_ text: String = "") -> Int {
        network.requests.count { $0.url.absoluteString.contains(text) }
    }
}
