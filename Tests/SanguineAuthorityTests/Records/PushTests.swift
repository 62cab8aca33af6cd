import Foundation
import SanguineModel
import TestSupport
import Testing

@testable import SanguineAuthority

@Suite("Push", .bounded)
struct PushTests {
    @Test func `an applied operation takes a number for each changed record`() async throws {
        let world = try await SyncWorld()
        let head = try await world.authority.balance(world.account).head

        let results = try await world.push(CreateMany(ids: ["a", "b", "c"], text: "x"))

        #expect(results.map(\.status) == [.applied])
        #expect(results.first?.head == head + 3)
        let changes = try await world.pull(head).changes
        #expect(changes.map(\.id) == ["a", "b", "c"])
        #expect(changes.map(\.seq) == [head + 1, head + 2, head + 3])
        #expect(changes.map(\.through) == [head + 3, head + 3, nil])
    }

    @Test func `an operation sees the changes of previous operations in the push`() async throws {
        let world = try await SyncWorld()

        try await world.push(
            CreateRecord(.note("a"), ["day": "mon"]),
            CreateRecord(.note("b"), ["day": "mon"]),
            DeleteRecord(.note("a")),
            CountByDay(into: "count", day: "mon")
        )

        #expect(try await world.records()[.note("count")] == ["count": 1])
    }

    @Test func `records are found by index in a later push`() async throws {
        let world = try await SyncWorld()
        try await world.push(CreateRecord(.note("a"), ["day": "mon"]))
        try await world.push(CreateRecord(.note("b"), ["day": "mon"]))
        try await world.push(SetFields(.note("a"), ["day": "tue"]))
        try await world.push(CountByDay(into: "mon", day: "mon"))
        try await world.push(CountByDay(into: "tue", day: "tue"))

        let records = try await world.records()
        #expect(records[.note("mon")] == ["count": 1])
        #expect(records[.note("tue")] == ["count": 1])
    }

    @Test func `an operation that finds more than a thousand records is refused`() async throws {
        let world = try await SyncWorld()
        for hundred in 0..<10 {
            let operations = try (0..<100).map { number in
                let note = RecordKey.note(RecordID("n\(hundred)-\(number)") ?? "n")
                let create = CreateRecord(note, ["day": "mon"])
                return try PushedOperation.sample(create, sequence: Int64(number) + 1)
            }
            _ = try await world.push(operations)
        }
        let thousand = try await world.push(CountByDay(into: "sum", day: "mon"))
        try await world.push(CreateRecord(.note("more"), ["day": "mon"]))
        let results = try await world.push(CountByDay(into: "other", day: "mon"))

        #expect(thousand.map(\.status) == [.applied])
        #expect(results.map(\.status) == [.refused])
        #expect(results.first?.problem?.code == .invalidContent)
        #expect(results.first?.problem?.detail.contains("1,000") == true)
    }

    @Test func `a refused operation changes nothing and does not stop the others`() async throws {
        let world = try await SyncWorld()

        let results = try await world.push(
            CreateRecord(.note("a"), ["text": "one"]),
            Stumble(id: "a"),
            SetFields(.note("a"), ["more": true])
        )

        #expect(results.map(\.status) == [.applied, .refused, .applied])
        #expect(results[1].problem?.code == ProblemCode(rawValue: "too_clumsy"))
        #expect(results[1].problem?.status == 422)
        #expect(try await world.records()[.note("a")] == ["text": "one", "more": true])
    }

    @Test func `an operation without changes is applied at the current head`() async throws {
        let world = try await SyncWorld()
        try await world.push(CreateRecord(.note("a"), ["text": "one"]))
        let head = try await world.pull().head

        let results = try await world.push(
            SetFields(.note("a"), ["text": "one"]),
            DeleteRecord(.note("b"))
        )

        #expect(results.map(\.status) == [.applied, .applied])
        #expect(results.map(\.head) == [head, head])
        #expect(try await world.pull().head == head)
    }

    @Test func `operations run in the order of their sequence numbers`() async throws {
        let world = try await SyncWorld()
        var create = try PushedOperation.sample(CreateRecord(.note("a"), ["n": 1]), sequence: 1)
        create.lane = "other"
        let increment = try PushedOperation.sample(
            IncrementField(.note("a"), "n", by: 5),
            sequence: 2
        )

        let answer = try await world.push([increment, create])

        #expect(answer.results.map(\.id) == [increment.id, create.id])
        #expect(try await world.records()[.note("a")] == ["n": 6])
    }

    @Test func `an applied operation is always replayed with the same number`()
        async throws
    {
        let world = try await SyncWorld()
        let operation = try PushedOperation.sample(CreateRecord(.note("a"), ["n": 1]))
        let first = try await world.push([operation])
        try await world.push(SetFields(.note("a"), ["n": 2]))
        world.clock.advance(by: .seconds(365 * 86_400))
        _ = try await world.authority.sweep()

        let second = try await world.push([operation])

        #expect(second.results.first?.status == .replayed)
        #expect(second.results.first?.head == first.results.first?.head)
        #expect(try await world.records()[.note("a")] == ["n": 2])
    }

    @Test func `a refused operation always gets the same refusal`() async throws {
        let world = try await SyncWorld()
        let operation = try PushedOperation.sample(SetFields(.note("a"), ["n": 1]))
        let first = try await world.push([operation])
        try await world.push(CreateRecord(.note("a"), [:]))
        world.clock.advance(by: .seconds(365 * 86_400))
        _ = try await world.authority.sweep()

        let second = try await world.push([operation])

        #expect(first.results.first?.problem?.code == .notFound)
        #expect(second.results == first.results)
        #expect(try await world.records()[.note("a")] == [:])
    }

    @Test func `an id that was used with other content is refused`() async throws {
        let world = try await SyncWorld()
        let operation = try PushedOperation.sample(CreateRecord(.note("a"), ["n": 1]))
        var other = operation
        other.arguments = ["collection": "notes", "id": "b", "fields": [:]]
        _ = try await world.push([operation])

        let answer = try await world.push([other])

        #expect(answer.results.first?.problem?.code == .idempotencyMismatch)
        #expect(try await world.push([operation]).results.first?.status == .replayed)
        let records = try await world.records()
        #expect(records.count == 1)
    }

    @Test func `the key of a spend cannot be an operation's id`() async throws {
        let world = try await SyncWorld()
        let operation = try PushedOperation.sample(CreateRecord(.note("a"), [:]))
        let spend = Submission(operation.id.description, SpendRequest(amount: 1, reason: "tea"))
        _ = try await world.authority.spend(world.account, spend)

        let answer = try await world.push([operation])

        #expect(answer.results.first?.problem?.code == .idempotencyMismatch)
    }

    @Test func `an operation's id cannot be the key of a spend`() async throws {
        let world = try await SyncWorld()
        let operation = try PushedOperation.sample(CreateRecord(.note("a"), [:]))
        _ = try await world.push([operation])
        let spend = Submission(operation.id.description, SpendRequest(amount: 1, reason: "tea"))

        let refusal = await problem { () throws(Problem) in
            try await world.authority.spend(world.account, spend)
        }

        #expect(refusal?.code == .idempotencyMismatch)
    }
}

@Suite("Push: refusals", .bounded)
struct PushRefusalTests {
    private func code(_ mutation: some RecordMutation) async throws -> ProblemCode? {
        try await SyncWorld().push(mutation).first?.problem?.code
    }

    @Test func `an unknown mutation is refused`() async throws {
        let world = try await SyncWorld()
        var operation = try PushedOperation.sample(DeleteRecord(.note("a")))
        operation.mutator = "habit.complete"

        #expect(try await world.push([operation]).results.first?.problem?.code == .mutatorUnknown)
    }

    @Test func `arguments that do not match the mutation are refused`() async throws {
        let world = try await SyncWorld()
        var operation = try PushedOperation.sample(DeleteRecord(.note("a")))
        operation.arguments = ["collection": "notes"]

        #expect(try await world.push([operation]).results.first?.problem?.code == .invalidContent)
    }

    @Test(arguments: ["unknown", "$balance"])
    func `an undeclared collection is refused`(name: String) async throws {
        #expect(try await code(CreateRecord(RecordKey(name, "a"), [:])) == .collectionUnknown)
    }

    @Test func `a record that is too large is refused`() async throws {
        let text = String(repeating: "x", count: WireLimits.recordBytes)

        #expect(
            try await code(CreateRecord(.note("a"), ["text": .string(text)])) == .recordTooLarge
        )
    }

    @Test func `a record with a string longer than an index key can be edited`()
        async throws
    {
        let world = try await SyncWorld()
        let text = JSONValue.string(String(repeating: "x", count: IndexKey.limit))
        let results = try await world.push(
            CreateRecord(.note("a"), ["day": text]),
            SetFields(.note("a"), ["text": "new"]),
            SetFields(.note("a"), ["day": .string(String(repeating: "y", count: 9_000))]),
            SetFields(.note("a"), ["day": "mon"]),
            DeleteRecord(.note("a"))
        )

        #expect(results.map(\.status) == [.applied, .applied, .applied, .applied, .applied])
    }

    @Test func `a number longer than an index key does not match records without the member`()
        async throws
    {
        let account = try await SyncWorld().account
        let digits = "0." + String(repeating: "7", count: IndexKey.limit)
        let number = try JSONValue(written: Array(digits.utf8))
        #expect(IndexKey(number) == nil)
        let notes = try #require(RecordSchema.test.collection("notes"))
        var stored = MemoryRecords()
        var rows: [RecordRow] = []
        for (id, value) in [("a", "{}"), ("b", "{\"day\":\(digits)}")] as [(RecordID, String)] {
            let row = RecordRow(
                name: RecordName("notes", in: account, id),
                owner: account,
                seq: 1,
                through: 1,
                value: Array(value.utf8),
                createdAt: ManualClock.start,
                updatedAt: ManualClock.start
            )
            rows.append(row)
            stored.set(row.name, to: row)
            let fields = try RecordValue(json: Data(row.value)).fields()
            for entry in notes.entries(of: id, owner: account, fields) { stored.index(entry) }
        }
        var source = PushSource(account: account, schema: .test, reader: stored)
        for _ in 1...2 {
            let found = try source.ids(in: "notes", where: "day", is: number, limit: 10)
            #expect(found == ["b"])
            for row in rows { source.set(row) }
        }
    }

    @Test func `records with strings longer than an index key are found by the whole string`()
        async throws
    {
        let world = try await SyncWorld()
        let long = String(repeating: "x", count: IndexKey.limit)
        try await world.push(
            CreateRecord(.note("a"), ["day": .string(long)]),
            CreateRecord(.note("b"), ["day": .string(long + "y")])
        )
        try await world.push(
            CreateRecord(.note("c"), ["day": .string(long)]),
            CountByDay(into: "same", day: long)
        )
        try await world.push(CountByDay(into: "other", day: long + "z"))

        let records = try await world.records()
        #expect(records[.note("same")] == ["count": 2])
        #expect(records[.note("other")] == ["count": 0])
    }

    @Test func `a post of another account can be read but not changed`() async throws {
        let world = try await SyncWorld()
        let stranger = try await world.stranger()
        try await world.push(CreateRecord(.post("p"), ["text": "mine"]))

        let results = try await world.push(
            SetFields(.post("p"), ["text": "yours"]),
            DeleteRecord(.post("p")),
            CreateRecord(.post("p"), [:]),
            by: stranger
        )

        #expect(results.map { $0.problem?.code } == [.notOwner, .notOwner, .recordExists])
        #expect(try await world.records()[.post("p")]?["text"] == "mine")
    }

    @Test func `the id of another account's deleted post is free after a while`() async throws {
        let world = try await SyncWorld()
        let stranger = try await world.stranger()
        try await world.push(CreateRecord(.post("p"), [:]), DeleteRecord(.post("p")))

        let early = try await world.push(CreateRecord(.post("p"), [:]), by: stranger)
        world.clock.advance(by: .seconds(31 * 86_400))
        _ = try await world.authority.sweep()
        let late = try await world.push(CreateRecord(.post("p"), [:]), by: stranger)

        #expect(early.first?.problem?.code == .notOwner)
        #expect(late.first?.status == .applied)
    }

    @Test func `private records of two accounts can have the same id`() async throws {
        let world = try await SyncWorld()
        let stranger = try await world.stranger()
        try await world.push(CreateRecord(.note("a"), ["of": "me"]))

        let results = try await world.push(CreateRecord(.note("a"), ["of": "them"]), by: stranger)

        #expect(results.first?.status == .applied)
        #expect(try await world.records()[.note("a")] == ["of": "me"])
        #expect(try await world.records(by: stranger)[.note("a")] == ["of": "them"])
    }

    @Test func `records beyond the account's limit are refused`() async throws {
        let world = try await SyncWorld { $0.recordsPerAccount = 2 }

        let results = try await world.push(
            CreateMany(ids: ["a", "b"], text: "x"),
            CreateRecord(.note("c"), [:]),
            SetFields(.note("a"), ["text": "y"]),
            DeleteRecord(.note("a")),
            CreateRecord(.note("c"), [:])
        )

        let codes = results.map { $0.problem?.code }
        #expect(codes == [nil, .storageFull, nil, nil, nil])
    }

    @Test func `an invalid request is refused as a whole`() async throws {
        let world = try await SyncWorld()
        let good = try PushedOperation.sample(CreateRecord(.note("a"), [:]))
        func changed(_ change: (inout PushedOperation) -> Void) -> PushedOperation {
            var operation = good
            operation.id = Identifier(at: ManualClock.start)
            change(&operation)
            return operation
        }
        let many = (1...101).map { number in changed { $0.sequence = number } }
        let requests = [
            PushRequest(device: "short", operations: [good]),
            PushRequest(device: "a-device-of-mine", operations: many),
            PushRequest(device: "a-device-of-mine", operations: [good, good]),
            PushRequest(device: "a-device-of-mine", operations: [changed { $0.lane = "" }]),
            PushRequest(
                device: "a-device-of-mine",
                operations: [changed { $0.lane = String(repeating: "x", count: 257) }]
            ),
            PushRequest(device: "a-device-of-mine", operations: [changed { $0.sequence = 0 }]),
            PushRequest(device: "a-device-of-mine", operations: [good, changed { _ in }]),
        ]

        for request in requests {
            let refusal = await problem { () throws(Problem) in
                try await world.authority.push(world.account, request)
            }
            #expect(refusal?.code == .invalidContent)
        }
        #expect(try await world.records().isEmpty)
    }

    @Test func `a push for a missing account is refused`() async throws {
        let world = try await SyncWorld()

        let refusal = await problem { () throws(Problem) in
            try await world.push([], by: Identifier(at: ManualClock.start))
        }

        #expect(refusal?.code == .notFound)
    }

    /// Stores a note as an earlier version did.
    private func store(_ json: String, _ id: RecordID, in world: SyncWorld) async throws {
        let row = RecordRow(
            name: RecordName("notes", in: world.account, id),
            owner: world.account,
            seq: 1,
            through: 1,
            value: Array(json.utf8),
            createdAt: ManualClock.start,
            updatedAt: ManualClock.start
        )
        let command = Command(keys: []) { _ throws(Problem) in
            Decision((), changes: [.put(.record(row))])
        }
        try await world.storage.perform(command).get()
    }

    private func stored(_ id: RecordID, in world: SyncWorld) async throws -> String? {
        let name = RecordName("notes", in: world.account, id)
        let row = try await world.storage.load([.record(name)]).record(name)
        return row.map { String(decoding: $0.value, as: UTF8.self) }
    }

    @Test func `members with longer names than are now allowed stay when another member is set`()
        async throws
    {
        let world = try await SyncWorld()
        let long = String(repeating: "k", count: 1_025)
        try await store(#"{"day":"mon","\#(long)":{"a":[1]}}"#, "a", in: world)
        let results = try await world.push(SetFields(.note("a"), ["day": "tue"]))
        #expect(results.map(\.status) == [.applied])
        #expect(try await stored("a", in: world) == #"{"day":"tue","\#(long)":{"a":[1]}}"#)
    }

    @Test func `a record that JSON cannot represent is refused, naming the member`() async throws {
        let world = try await SyncWorld { $0.schema = .withRatio }
        let results = try await world.push(PutRatio(id: "a"), CreateRecord(.note("b"), ["c": 1]))
        #expect(results.map(\.status) == [.refused, .applied])
        #expect(results[0].problem?.code == .invalidContent)
        #expect(results[0].problem?.detail.contains("the member 'ratio' of") == true)
    }

    @Test func `a stored record that is not JSON refuses only its own operations`() async throws {
        let world = try await SyncWorld()
        try await store(#"{"ratio":nan}"#, "a", in: world)
        let results = try await world.push(
            SetFields(.note("a"), ["day": "tue"]),
            CreateRecord(.note("b"), ["c": 1]),
            DeleteRecord(.note("a"))
        )
        #expect(results.map(\.status) == [.refused, .applied, .applied])
    }
}

extension RecordSchema {
    fileprivate static let withRatio = RecordSchema(
        collections: [RecordCollection("notes")],
        mutations: [PutRatio.self]
    )
}

/// Stores a non-finite number in a note.
private struct PutRatio: RecordMutation {
    static let name = "test.ratio"
    let id: RecordID

    func apply(to records: inout Records) throws {
        records.put(RecordValue(["ratio": .number(.nan)]), for: .note(id))
    }
}
