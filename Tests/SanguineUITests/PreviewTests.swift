import Foundation
import Sanguine
import SanguineTesting
import TestSupport
import Testing

/// Clients with fixed values and no network.
@MainActor
@Suite("Previews", .bounded)
struct PreviewTests {
    private func configuration(_ folder: URL? = nil) -> SanguineClient.Configuration {
        var configuration = SanguineClient.Configuration()
        configuration.folder = folder
        configuration.register(Note.self)
        return configuration
    }

    @Test func `values of every kind are available at once`() {
        let balance = Balance(
            unit: "tokens",
            available: 7,
            held: 0,
            head: 1,
            asOf: Timestamp(millisecondsSince1970: 0)
        )
        let client = SanguineClient.preview(configuration()) { shown in
            shown.set(Profile(name: "Ada"), for: .profile("1"))
            shown.set([Post(id: 1), Post(id: 2), Post(id: 1)], for: .feed("new"), hasMore: true)
            shown.set([1: "one", 9: "nine"], for: .words, in: 1...2)
            shown.set(balance)
            try shown.add(Note(id: .new(), text: "Buy milk"))
        }

        #expect(client.model(.profile("1")).value == Profile(name: "Ada"))
        #expect(client.model(.profile("1")).phase == .ready)
        let feed = client.model(.feed("new"))
        #expect(feed.items.map(\.id) == [1, 2])
        #expect(feed.phase == .ready)
        #expect(feed.hasMore)
        #expect(client.model(.words, in: 1...2).state.values == [1: "one"])
        #expect(client.model(.words, in: 1...2).state.isComplete)
        #expect(client.model(.balance).value?.available == 7)
        #expect(client.records(Note.self).map(\.text) == ["Buy milk"])
    }

    @Test func `ranges that are set successively are all available`() {
        let client = SanguineClient.preview { shown in
            shown.set([1: "one"], for: .words, in: 1...1)
            shown.set([2: "two"], for: .words, in: 2...3)
        }

        #expect(client.cached(.words, in: 1...3).values == [1: "one", 2: "two"])
        #expect(client.cached(.words, in: 1...3).isComplete)
    }

    @Test func `a value that was not set loads forever`() async throws {
        let client = SanguineClient.preview()
        let model = client.model(.profile("1"))
        #expect(model.phase == .loading)
        let reading = Task { try await client.value(of: .profile("1")) }
        try await eventually("the read is under way") { model.phase == .loading }
        reading.cancel()

        await #expect(throws: SanguineError.cancelled) { try await reading.finished() }
    }

    @Test func `a preview without a network reports that it is offline`() async throws {
        let client = SanguineClient.preview(network: .offline)
        let model = client.model(.profile("1"))
        try await eventually("the fetch has failed") { model.phase == .failed }

        #expect(model.error?.code == "offline")
    }

    @Test func `a preview writes nothing to disk`() throws {
        let folder = FileManager.default.temporaryDirectory
            .appending(path: "sanguine-preview-\(UUID())")
        let client = SanguineClient.preview(configuration(folder)) { shown in
            try shown.add(Note(id: .new(), text: "Buy milk"))
        }
        client.close()

        #expect(!FileManager.default.fileExists(atPath: folder.path))
    }

    @Test func `a preview that cannot be created reports the reason`() async throws {
        let client = SanguineClient.preview { shown in
            try shown.perform(Unregistered())
        }
        let model = client.model(.profile("1"))
        try await eventually("the read is refused") { model.phase == .failed }
        let text = try #require(model.error).description

        #expect(text.hasPrefix("The client for a preview could not be created."))
        #expect(text.contains("No mutation 'unregistered' is registered."))
        let refusal = #expect(throws: SanguineError.self) { try client.perform(Unregistered()) }
        #expect(refusal?.code == "invalid_declaration")
    }
}

private struct Unregistered: RemoteMutation {
    static let name = "unregistered"

    func effects(on view: inout MutationEffects) {}

    func send(_ request: MutationContext) async throws {}
}
