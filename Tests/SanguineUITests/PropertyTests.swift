#if canImport(SwiftUIStandIn) && !canImport(SwiftUI)
import Foundation
import Sanguine
import SanguineTesting
import SanguineUI
import SwiftUIStandIn
import Synchronization
import TestSupport
import Testing

/// The properties of views, in views that a host renders like SwiftUI.
@MainActor
@Suite("View properties", .bounded)
struct PropertyTests {
    private struct ProfileView: View {
        @CachedValue<Profile> var profile: Profile?

        init(_ id: String) { _profile = CachedValue(.profile(id)) }

        var body: some View { Text(profile?.name ?? "…") }
    }

    private struct FeedView: View {
        @CachedList(.feed("new")) var posts

        var body: some View {
            List(posts) { Text("Post \($0.id)") }
                .refreshable { await $posts.refresh() }
        }
    }

    private struct WordsView: View {
        @CachedRange<Int, String> var words: RangeValues<Int, String>

        init(_ range: ClosedRange<Int>) { _words = CachedRange(.words, in: range) }

        var body: some View { Text(words.values.values.sorted().joined(separator: " ")) }
    }

    private struct LongNotesView: View {
        @CachedRecords<Int> var count: Int

        init(_ length: Int) { _count = CachedRecords(.longer(than: length), id: length) }

        var body: some View { Text("\(count)") }
    }

    private struct UserView: View {
        @CurrentBalance var balance
        @CurrentOutbox var outbox

        var body: some View {
            Text("\(balance?.available ?? -1) \(outbox.isAllSent ? "sent" : "waiting")")
        }
    }

    private let host = StandInHost()

    private func texts(_ view: some View, _ client: SanguineClient) -> [String] {
        host.draw(view.sanguineClient(client)).texts
    }

    /// Ends the main actor's turn, as SwiftUI does between two renderings.
    private func nextTurn() async throws { try await Task {}.finished() }

    private func profiles() -> ScriptedTransport {
        ScriptedTransport { .json(Profile(name: $0.url.lastPathComponent)) }
    }

    @Test func `a view shows the known value at once, and then new ones`() async throws {
        let network = profiles()
        network.hold()
        let client = try SanguineClient.sample(network)
        defer { client.close() }

        #expect(texts(ProfileView("ada"), client) == ["…"])
        try await network.waitForHeld(1)
        network.release()
        try await eventually("the view must be drawn again") { host.mustDraw }
        #expect(texts(ProfileView("ada"), client) == ["ada"])
        client.set(Profile(name: "Ada"), for: .profile("ada"))
        try await eventually("the view must be drawn again") { host.mustDraw }
        #expect(texts(ProfileView("ada"), client) == ["Ada"])
    }

    @Test func `a view that is rendered often fetches once and keeps its model`() async throws {
        let network = profiles()
        network.hold()
        let client = try SanguineClient.sample(network)
        defer { client.close() }
        weak var model: ValueModel<Profile>?
        for _ in 1...5 {
            _ = texts(ProfileView("ada"), client)
            let current = client.model(.profile("ada"))
            #expect(model == nil || model === current)
            model = current
        }
        try await network.waitForHeld(1)
        network.release()
        try await eventually("the value has arrived") { model?.value != nil }

        #expect(network.requests.count == 1)
    }

    @Test func `a view with a new query follows it and releases the old one`()
        async throws
    {
        let client = SanguineClient.preview { shown in
            shown.set(Profile(name: "Ada"), for: .profile("1"))
            shown.set(Profile(name: "Bob"), for: .profile("2"))
        }
        #expect(texts(ProfileView("1"), client) == ["Ada"])
        weak let first = client.model(.profile("1"))
        try await nextTurn()
        #expect(texts(ProfileView("2"), client) == ["Bob"])
        try await eventually("the first model is released") { first == nil }

        client.set(Profile(name: "Bill"), for: .profile("2"))
        try await eventually("the view must be drawn again") { host.mustDraw }
        #expect(texts(ProfileView("2"), client) == ["Bill"])
    }

    @Test func `a view with a new client follows it`() throws {
        let one = SanguineClient.preview { $0.set(Profile(name: "Ada"), for: .profile("1")) }
        let other = SanguineClient.preview { $0.set(Profile(name: "Bob"), for: .profile("1")) }

        #expect(texts(ProfileView("1"), one) == ["Ada"])
        #expect(texts(ProfileView("1"), other) == ["Bob"])
        #expect(texts(ProfileView("1"), one) == ["Ada"])
    }

    @Test func `a removed view releases its model and cancels its fetch`()
        async throws
    {
        let network = profiles()
        network.hold()
        let client = try SanguineClient.sample(network)
        defer { client.close() }
        _ = texts(ProfileView("ada"), client)
        weak let model = client.model(.profile("ada"))
        try await network.waitForHeld(1)
        try await nextTurn()
        #expect(model != nil)
        _ = texts(Text("nothing"), client)

        try await eventually("the model is released") { model == nil }
        try await eventually("the request was cancelled") { network.held.isEmpty }
    }

    @Test func `a list shows its rows and is refreshed by pulling it down`() async throws {
        let network = ScriptedTransport()
        network.script(.json(Page(items: [Post(id: 3)])))
        var configuration = SanguineClient.Configuration.inMemory()
        configuration.baseURL = URL(string: "https://api.example.org")
        configuration.transport = network
        let client = try SanguineClient(configuration)
        defer { client.close() }
        try await client.value(of: .feed("new"))
        let screen = host.draw(FeedView().sanguineClient(client))
        #expect(screen.texts == ["Post 3"])
        network.script(.json(Page(items: [Post(id: 4), Post(id: 3)])))
        let refresh = try #require(screen.refresh)
        await refresh()

        #expect(texts(FeedView(), client) == ["Post 4", "Post 3"])
    }

    @Test func `a view with a new range shows it`() {
        let client = SanguineClient.preview { shown in
            shown.set([1: "one", 2: "two", 3: "three"], for: .words, in: 1...3)
        }

        #expect(texts(WordsView(1...2), client) == ["one two"])
        #expect(texts(WordsView(3...3), client) == ["three"])
    }

    @Test func `a query with a closure changes with its id`() throws {
        var configuration = SanguineClient.Configuration()
        configuration.register(Note.self)
        let client = SanguineClient.preview(configuration) { shown in
            try shown.add(Note(id: .new(), text: "Buy milk"))
            try shown.add(Note(id: .new(), text: "Go"))
        }

        #expect(texts(LongNotesView(1), client) == ["2"])
        #expect(texts(LongNotesView(4), client) == ["1"])
        try client.perform(try CreateRecord(Note(id: .new(), text: "Walk the dog")))
        #expect(host.mustDraw)
        #expect(texts(LongNotesView(4), client) == ["2"])
    }

    @Test func `views follow the user's balance and outbox`() throws {
        var configuration = SanguineClient.Configuration()
        configuration.register(Note.self)
        let balance = Balance(
            unit: "tokens",
            available: 7,
            held: 0,
            head: 1,
            asOf: Timestamp(millisecondsSince1970: 0)
        )
        let client = SanguineClient.preview(configuration) { $0.set(balance) }

        #expect(texts(UserView(), client) == ["7 sent"])
        try client.perform(try CreateRecord(Note(id: .new(), text: "Walk the dog")))
        #expect(host.mustDraw)
        #expect(texts(UserView(), client) == ["7 waiting"])
    }

    private struct EverythingView: View {
        @CachedValue<Profile>(.profile("1")) var profile: Profile?
        @CachedList(.feed("new")) var posts
        @CachedRange<Int, String>(.words, in: 1...2) var words: RangeValues<Int, String>
        @CachedRecords<Int>(.longer(than: 0), id: 0) var count: Int
        @CurrentBalance var balance
        @CurrentOutbox var outbox

        var body: some View {
            Text("profile \(profile?.name ?? "none")")
            Text("posts \(posts.map(\.id))")
            Text("words \(words.values.values.sorted())")
            Text("notes \(count)")
            Text("balance \(balance.map { "\($0.available)" } ?? "none")")
            Text("outbox \(outbox.isAllSent ? "sent" : "waiting")")
        }
    }

    @Test(arguments: [true, false])
    func `views show no data of a user who has signed out`(isDrawnBetween: Bool) async throws {
        let network = ScriptedTransport()
        network.script(.json(Page(items: [Post(id: 3)])))
        var configuration = SanguineClient.Configuration.inMemory()
        configuration.baseURL = URL(string: "https://api.example.org")
        configuration.transport = network
        configuration.register(Note.self)
        let client = try SanguineClient(configuration)
        defer { client.close() }
        try client.signIn(as: "ada")
        try await client.value(of: .feed("new"))
        network.hold()
        client.set(Profile(name: "Ada"), for: .profile("1"))
        client.set([1: "one", 2: "two"], for: .words, in: 1...2)
        try client.perform(try CreateRecord(Note(id: .new(), text: "Buy milk")))
        let nothing = [
            "profile none", "posts []", "words []", "notes 0", "balance none", "outbox sent",
        ]
        #expect(
            texts(EverythingView(), client) == [
                "profile Ada", "posts [3]", #"words ["one", "two"]"#, "notes 1", "balance none",
                "outbox waiting",
            ]
        )

        await client.signOut()
        #expect(host.mustDraw)
        if isDrawnBetween { #expect(texts(EverythingView(), client) == nothing) }
        try client.signIn(as: "bob")
        #expect(texts(EverythingView(), client) == nothing)
    }

    @Test func `the error of a view without a client explains how to set one`() async throws {
        let client = EnvironmentValues().sanguine
        let model = client.model(.profile("1"))
        try await eventually("the read is refused") { model.phase == .failed }
        let text = try #require(model.error).description

        #expect(text.contains("Add '.sanguineClient(client)'"))
        #expect(host.draw(ProfileView("1")).texts == ["…"])
        let refusal = #expect(throws: SanguineError.self) {
            try client.perform(try CreateRecord(Note(id: .new(), text: "Walk the dog")))
        }
        #expect(refusal?.code == "invalid_declaration")
        #expect(throws: try #require(model.error)) { try client.signIn(as: "ada") }
        await #expect(throws: try #require(model.error)) { try await client.value(of: .balance) }
        await #expect(throws: try #require(model.error)) {
            try await client.value(of: .feed("new"))
        }
        await #expect(throws: try #require(model.error)) {
            try await client.value(of: .words, in: 1...2)
        }
    }
}

/// A page of the feed.
private struct Page: Encodable {
    var items: [Post]
    var hasMore = false
}
#endif
