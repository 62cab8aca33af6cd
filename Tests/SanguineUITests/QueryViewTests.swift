#if canImport(SwiftUIStandIn) && !canImport(SwiftUI)
import Foundation
import Sanguine
import SanguineTesting
import SanguineUI
import SwiftUIStandIn
import TestSupport
import Testing

/// Query views, rendered like SwiftUI as far as the tests need.
@MainActor
@Suite("Query views", .bounded)
struct QueryViewTests {
    private struct ProfileView: View {
        @CachedValue(.profile("1")) var profile

        var body: some View {
            QueryView($profile) { profile in
                Text(profile.name)
            } placeholder: {
                Text("Somebody")
            }
        }
    }

    private struct PlainView: View {
        @CachedValue(.profile("1")) var profile

        var body: some View { QueryView($profile) { Text($0.name) } }
    }

    private struct QuietStyle: QueryViewStyle {
        func makeBody(configuration: Configuration) -> some View {
            if let content = configuration.content { content } else { Text("quiet") }
        }
    }

    private let host = StandInHost()

    @Test func `a placeholder is shown while a value is loading`() {
        let client = SanguineClient.preview()

        #expect(host.draw(ProfileView().sanguineClient(client)).texts == ["Somebody"])
        #expect(host.draw(PlainView().sanguineClient(client)).texts == ["(progress)"])
    }

    @Test func `an error has a retry button`() async throws {
        let network = ScriptedTransport()
        network.script(.fail(.offline("no route")), .json(Profile(name: "Ada")))
        let client = try SanguineClient.sample(network)
        defer { client.close() }
        let model = client.model(.profile("1"))
        try await eventually("the fetch has failed") { model.phase == .failed }
        let screen = host.draw(ProfileView().sanguineClient(client))
        #expect(
            screen.texts == ["Offline", "Check the connection and try again.", "Try Again"]
        )
        let retry = try #require(screen.buttons["Try Again"])
        retry()
        try await eventually("the value has arrived") { model.phase == .ready }

        #expect(host.mustDraw)
        #expect(host.draw(ProfileView().sanguineClient(client)).texts == ["Ada"])
    }

    @Test func `content that could not be refreshed has a note of its age`() async throws {
        let network = ScriptedTransport()
        network.script(.json(Profile(name: "Ada")), .fail(.offline("no route")))
        let client = try SanguineClient.sample(network)
        defer { client.close() }
        _ = try await client.value(of: .profile("1"))
        let model = client.model(.profile("1"))
        await model.refresh()
        host.now = try #require(model.asOf).date.addingTimeInterval(5 * 60)

        #expect(
            host.draw(ProfileView().sanguineClient(client)).texts == [
                "Ada", "As of 5 minutes ago, offline",
            ]
        )
    }

    @Test func `a permanent error has no retry button`() async throws {
        let network = ScriptedTransport { _ in .status(404) }
        let client = try SanguineClient.sample(network)
        defer { client.close() }
        let model = client.model(.profile("1"))
        try await eventually("the fetch has failed") { model.phase == .failed }
        let screen = host.draw(ProfileView().sanguineClient(client))

        #expect(screen.texts.first == "No Longer Available")
        #expect(screen.buttons.isEmpty)
    }

    @Test func `custom styles and strings apply below the view where they are set`()
        async throws
    {
        let client = SanguineClient.preview(network: .offline)
        let model = client.model(.profile("1"))
        try await eventually("the fetch has failed") { model.phase == .failed }
        var texts = QueryTexts()
        texts.retry = "Encore"
        let view = ProfileView().sanguineClient(client)

        #expect(host.draw(view.queryViewStyle(QuietStyle())).texts == ["quiet"])
        #expect(host.draw(view.queryViewStyle(.automatic(texts: texts))).texts.last == "Encore")
        #expect(host.draw(view.queryViewStyle(.automatic)).texts.last == "Try Again")
    }

    @Test func `a view without a client shows this error`() async throws {
        try await eventually("the error is shown") { host.draw(ProfileView()).texts.count == 2 }
        let texts = host.draw(ProfileView()).texts

        #expect(texts.first == "Not Available")
        #expect(texts.last?.contains(".sanguineClient(client)") == true)
    }
}
#endif
