#if canImport(SwiftUIStandIn) && !canImport(SwiftUI)
import Foundation
import Sanguine
import SanguineTesting
import SanguineUI
import SwiftUIStandIn
import TestSupport
import Testing

/// Images in views, rendered like SwiftUI as far as the tests need.
@MainActor
@Suite("Cached images", .bounded)
struct CachedImageTests {
    private struct Photo: View {
        let name: String

        var body: some View {
            CachedImage(
                URL(string: "https://images.test/\(name)").map { ImageSource.url($0) },
                fitting: ImageSize(width: 600, height: 400)
            ) { state in
                Text(verbatim: state.image.map { "\($0.width) wide" } ?? "\(state.phase)")
            }
        }
    }

    private let host = StandInHost()
    private let network = ScriptedTransport { request in
        let width = request.url.path().contains("small") ? 400 : 800
        var response = TransportResponse(status: 200)
        response.body = Data(SampleFile.png.bytes(width: width, height: 300))
        response.headers["content-type"] = "image/png"
        return .respond(response)
    }

    private func screen(_ view: some View, _ client: SanguineClient) -> [String] {
        host.draw(view.sanguineClient(client)).texts
    }

    @Test func `a view loads its image when it appears, and then shows it`() async throws {
        let client = try SanguineClient.sample(network)
        defer { client.close() }
        #expect(screen(Photo(name: "a.png"), client) == ["empty"])
        try await eventually("the image has arrived") {
            screen(Photo(name: "a.png"), client) == ["800 wide"]
        }
        #expect(network.requests.count == 1)
    }

    @Test func `a view that is created again shows the image in its first frame`() async throws {
        let client = try SanguineClient.sample(network)
        defer { client.close() }
        try await eventually("the image has arrived") {
            screen(Photo(name: "a.png"), client) == ["800 wide"]
        }
        #expect(screen(Text(verbatim: "another tab"), client) == ["another tab"])
        #expect(screen(Photo(name: "a.png"), client) == ["800 wide"])
        #expect(network.requests.count == 1)
    }

    @Test func `a row that is reused never shows its former image`() async throws {
        let client = try SanguineClient.sample(network)
        defer { client.close() }
        try await eventually("the image has arrived") {
            screen(Photo(name: "a.png"), client) == ["800 wide"]
        }
        #expect(screen(Photo(name: "small.png"), client) != ["800 wide"])
        try await eventually("the image of the new row has arrived") {
            screen(Photo(name: "small.png"), client) == ["400 wide"]
        }
    }

    @Test func `a view that goes away ends its request`() async throws {
        let client = try SanguineClient.sample(network)
        defer { client.close() }
        network.hold()
        #expect(screen(Photo(name: "a.png"), client) == ["empty"])
        try await network.waitForHeld(1)
        _ = screen(Text(verbatim: "another tab"), client)
        try await network.waitForCancelled(1)
        network.release()
        try await eventually("the image arrives when the view is back") {
            screen(Photo(name: "a.png"), client) == ["800 wide"]
        }
    }
}
#endif
