import Foundation
import SanguineModel
import SanguineTesting
import Synchronization
import TestSupport
import Testing

@testable import Sanguine

private struct Note: SyncedRecord {
    static let collection = RecordCollection(
        "notes",
        access: .everyone,
        indexes: ["rank"],
        owner: "author"
    )
    static let byRank = RecordIndex<Note, Int>("rank")
    let id: RecordID
    var text: String
    var rank: Int

    init(_ id: String, _ text: String, rank: Int) {
        (self.id, self.text, self.rank) = (.of(id), text, rank)
    }
}

private struct Star: SyncedRecord {
    static let collection = RecordCollection(
        "stars",
        access: .everyone,
        counts: [RecordCounter(by: "note", in: "notes", as: "stars")]
    )
    let id: RecordID
    var note: RecordID
}

/// Answers lists as they were at one moment, as a cache of the server may for some seconds.
///
/// Mutable state: the answer, guarded by its mutex.
private final class FrozenLists: HTTPTransport {
    private struct State {
        var isFrozen = false
        var answer: TransportResponse?
    }

    private let network: ScriptedTransport
    private let state = Mutex(State())

    init(_ network: ScriptedTransport) { self.network = network }

    func freeze(_ isFrozen: Bool = true) { state.withLock { $0.isFrozen = isFrozen } }

    func send(_ request: TransportRequest) async throws(TransportError) -> TransportResponse {
        let isList = request.url.path().hasPrefix("/v1/collections/")
        let frozen = state.withLock { $0.isFrozen ? $0.answer : nil }
        if isList, let frozen { return frozen }
        let answer = try await network.send(request)
        if isList { state.withLock { $0.answer = answer } }
        return answer
    }
}

/// Models of published lists that show the user's own records.
@MainActor
@Suite("Models with own records", .bounded)
struct OwnRecordModelTests {
    private static let schema = RecordSchema(Note.self, Star.self)
    private static let list = ListQuery<Note>.published(
        RecordListing<Note>().ordered(by: Note.byRank),
        showsOwn: true
    )

    private let fixture: RecordsFixture
    private let lists: FrozenLists
    private let client: SanguineClient
    private let another = Identifier("0199f3c8-2f6b-7c1e-9a54-3d2b8e07f6bb")

    init() throws {
        fixture = RecordsFixture(schema: Self.schema)
        let lists = FrozenLists(fixture.network)
        self.lists = lists
        client = try fixture.client { ($0.schema, $0.transport) = (Self.schema, lists) }
        let other = fixture.authority.addAccount()
        fixture.authority.set(Note("a", "theirs", rank: 10), of: other)
        fixture.authority.set(Note("b", "mine", rank: 20))
        fixture.authority.set(Note("c", "mine", rank: 30))
    }

    private func loadedModel() async throws -> ListModel<Note> {
        try await client.synchronize()
        let model = client.model(Self.list)
        await model.refresh()
        #expect(texts(model) == ["a theirs", "b mine", "c mine"])
        return model
    }

    private func texts(_ model: ListModel<Note>) -> [String] {
        model.items.map { "\($0.id) \($0.text)" }
    }

    @Test func `changes are shown at once, and no stale page takes them back`() async throws {
        let model = try await loadedModel()
        lists.freeze()
        fixture.network.hold(.requests)
        try client.perform(try CreateRecord(Note("d", "new", rank: 5)))
        try client.perform(SetFields(RecordKey("notes", .of("b")), ["text": "changed"]))
        try client.perform(DeleteRecord(RecordKey("notes", .of("c"))))
        let expected = ["d new", "a theirs", "b changed"]
        #expect(texts(model) == expected)
        fixture.network.release()
        try await client.synchronize()
        #expect(client.outbox.pending.isEmpty && texts(model) == expected)
        // The fetched page still has none of the changes.
        await model.refresh()
        #expect(try await client.refresh(Self.list).map(\.text) == ["theirs", "mine", "mine"])
        #expect(texts(model) == expected)
        lists.freeze(false)
        await model.refresh()
        #expect(try await client.refresh(Self.list).map(\.text) == ["new", "theirs", "changed"])
        #expect(texts(model) == expected)
        client.close()
    }

    @Test func `a refused change is taken back`() async throws {
        let model = try await loadedModel()
        fixture.authority.refuse { _ in Refusal(.invalidContent, "No.") }
        try client.perform(try CreateRecord(Note("d", "new", rank: 5)))
        try client.perform(DeleteRecord(RecordKey("notes", .of("c"))))
        #expect(texts(model) == ["d new", "a theirs", "b mine"])
        try await client.synchronize()
        try await eventually("the refusals") { client.outbox.refused.count == 2 }
        try await eventually("the former rows") {
            texts(model) == ["a theirs", "b mine", "c mine"]
        }
        client.close()
    }

    @Test func `a list that could not be loaded shows the user's own records`() async throws {
        fixture.connectivity.disconnect()
        let model = client.model(Self.list)
        try client.perform(try CreateRecord(Note("d", "new", rank: 5)))
        #expect(texts(model) == ["d new"])
        client.close()
    }

    @Test func `another user's records are not shown`() async throws {
        let model = try await loadedModel()
        fixture.network.hold(.requests)
        try client.perform(try CreateRecord(Note("d", "new", rank: 5)))
        #expect(texts(model).first == "d new")
        fixture.authorizer.change(to: another, in: client)
        try await eventually("the end of the former user's records") {
            !texts(model).contains("d new")
        }
        client.close()
    }

    @Test func `a list that does not show own records has the server's rows only`() async throws {
        _ = try await loadedModel()
        let listing = RecordListing<Note>().ordered(by: Note.byRank)
        let plain = client.model(ListQuery<Note>.published(listing))
        await plain.refresh()
        fixture.network.hold(.requests)
        try client.perform(DeleteRecord(RecordKey("notes", .of("c"))))
        #expect(texts(plain) == ["a theirs", "b mine", "c mine"])
        client.close()
    }

    @Test func `the members that the server counts follow from the schema`() async throws {
        try await client.synchronize()
        let own = client.cached(OwnRecords.query(Note.collection))
        #expect(own.counted == ["stars"] && own.values.count == 2 && own.isComplete)
        client.close()
    }
}
