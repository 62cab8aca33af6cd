import SanguineModel
import TestSupport
import Testing

private struct StoredRecords: RecordSource {
    var values: [RecordKey: RecordValue] = [:]

    func record(_ key: RecordKey) -> SourcedRecord? { values[key].map { SourcedRecord($0) } }

    func ids(in: String, where: String, is: JSONValue, limit: Int) -> [RecordID] { [] }
}

@Suite("Mutations of threads", .bounded)
struct ThreadMutationTests {
    private let thread = RecordID(
        Identifier(at: Timestamp(millisecondsSince1970: 1_763_752_719_250))
    )
    private let operation = Identifier(at: Timestamp(millisecondsSince1970: 1_763_752_800_000))

    private var key: RecordKey { RecordKey(ChatThread.collection.name, thread) }

    private func stored(_ change: (inout ChatThread) -> Void = { _ in }) -> StoredRecords {
        var record = ChatThread(
            id: thread,
            function: "ask",
            createdAt: Timestamp(millisecondsSince1970: 1_763_752_719_250)
        )
        change(&record)
        return StoredRecords(values: [key: RecordValue(record)])
    }

    private func run(
        _ mutation: some RecordMutation,
        on source: StoredRecords,
        _ schema: RecordSchema = RecordSchema()
    ) throws -> [RecordKey: RecordValue?] {
        var records = Records(
            from: source,
            schema: schema,
            operation: OperationContext(id: operation)
        )
        try records.run(mutation)
        return records.changes
    }

    private func changed(
        _ mutation: some RecordMutation,
        on source: StoredRecords
    ) throws -> ChatThread {
        let value = try #require(try run(mutation, on: source)[key] ?? nil)
        return try value.record(ChatThread.self, id: thread)
    }

    private func refusal(_ mutation: some RecordMutation, on source: StoredRecords) -> Refusal? {
        do {
            _ = try run(mutation, on: source)
            return nil
        } catch {
            return error as? Refusal
        }
    }

    @Test func `renaming a thread sets a title of the user`() throws {
        let record = try changed(RenameThread(thread, to: "Venus"), on: stored())
        #expect(record.title == "Venus")
        #expect(record.titleSource == .own)
        #expect(record.updatedAt == operation.moment)
        #expect(record.lastMessageAt < record.updatedAt)
    }

    @Test(arguments: ["", " ", "\u{A0} \u{3000}", "a\nb", String(repeating: "a", count: 201)])
    func `a title is 1 to 200 printable characters`(_ title: String) {
        #expect(refusal(RenameThread(thread, to: title), on: stored())?.code == .invalidContent)
    }

    // A call may name its thread in either case, and `uuidgen` and `UUID()` print upper case.
    @Test func `a thread is found by its id in upper case`() throws {
        let upper = try #require(RecordID(thread.text.uppercased()))
        #expect(try changed(RenameThread(upper, to: "Venus"), on: stored()).title == "Venus")
        #expect(try changed(ChangeThread(upper, area: "love"), on: stored()).area == "love")
        let changes = try run(DeleteThread(upper), on: stored())
        #expect(changes.count == 1 && changes[key] == .some(nil))
        #expect(RecordID("A-note")?.ofThread.text == "A-note")
    }

    @Test func `renaming a missing thread is refused`() {
        let refusal = refusal(RenameThread(thread, to: "Venus"), on: StoredRecords())
        #expect(refusal?.code == .notFound)
    }

    @Test func `settings are merged and the area stays`() throws {
        let source = stored {
            $0.area = "love"
            $0.settings = .object(["tone": .string("short"), "size": .integer(2)])
        }
        let patch = JSONValue.object(["size": .null, "pinned": .bool(true)])
        let record = try changed(ChangeThread(thread, settings: patch), on: source)
        #expect(record.settings == .object(["tone": .string("short"), "pinned": .bool(true)]))
        #expect(record.area == "love")
    }

    @Test func `an empty area removes the area`() throws {
        let record = try changed(ChangeThread(thread, area: ""), on: stored { $0.area = "love" })
        #expect(record.area == nil)
    }

    @Test func `settings over 4 KiB are refused`() {
        let patch = JSONValue.object(["a": .string(String(repeating: "x", count: 4_096))])
        let refusal = refusal(ChangeThread(thread, settings: patch), on: stored())
        #expect(refusal?.code == .invalidContent)
    }

    @Test func `deleting a thread twice succeeds`() throws {
        let changes = try run(DeleteThread(thread), on: stored())
        #expect(changes.count == 1 && changes[key] == .some(nil))
        #expect(try run(DeleteThread(thread), on: StoredRecords()).isEmpty)
    }

    @Test func `other mutations do not change threads`() throws {
        let (source, fields) = (stored(), ["title": JSONValue.string("x")])
        let mutations: [any RecordMutation] = [
            CreateRecord(RecordKey("$threads", .new()), fields),
            SetFields(key, fields),
            IncrementField(key, "messages", by: 1),
            DeleteRecord(key),
            CreateRecord(RecordKey("$messages", .new()), fields),
            WriteDirectly(thread: thread),
        ]
        for mutation in mutations {
            let refusal = refusal(mutation, on: source)
            #expect(refusal?.code == .invalidContent, "\(type(of: mutation))")
            #expect(refusal?.detail.contains("thread.rename") == true)
        }
    }

    @Test func `each schema has the mutations of threads`() {
        let schema = RecordSchema(collections: [RecordCollection("notes")])
        #expect(schema.faults.isEmpty)
        #expect(schema.mutation("thread.rename") is RenameThread.Type)
        #expect(schema.mutation("thread.set") is ChangeThread.Type)
        #expect(schema.mutation("thread.delete") is DeleteThread.Type)
        #expect(schema.declaredCollections.map(\.name) == ["notes"])
        #expect(schema.allCollections.map(\.name) == ["$messages", "$threads", "notes"])
    }

    @Test(arguments: ["$threads", "$notes"])
    func `an app cannot declare a system collection`(_ name: String) {
        let schema = RecordSchema(collections: [RecordCollection(name, indexes: ["a"])])
        #expect(!schema.faults.isEmpty)
    }
}

private struct WriteDirectly: RecordMutation {
    static let name = "write.directly"
    let thread: RecordID

    func apply(to records: inout Records) {
        records.set(
            ChatThread(id: thread, function: "x", createdAt: Timestamp(millisecondsSince1970: 0))
        )
    }
}
