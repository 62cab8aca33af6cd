import Foundation
import SanguineModel
import TestSupport
import Testing

@testable import SanguineAuthority

/// A note as declared by a server that is older than some apps and newer than others.
private struct Page: SyncedRecord, Defaulted {
    static let collection = RecordCollection("notes", indexes: ["day"])
    static let defaults = Page(id: .new(), text: "")
    let id: RecordID
    var text: String
    var reads = 0
}

/// Adds `by` to the reads of a page; the member is newer than some apps.
private struct ReadPage: RecordMutation, Defaulted {
    static let name = "page.read"
    static let defaults = ReadPage(page: .new(), by: 1)
    let page: RecordID
    var by: Int

    func apply(to records: inout Records) throws {
        guard var page = records.get(Page.self, page) else {
            throw Refusal(.notFound, "Create the page first.")
        }
        page.reads += by
        records.set(page)
    }
}

/// Saves a whole page, whose members are newer than some apps.
private struct SavePage: RecordMutation {
    static let name = "page.save"
    let page: Page

    func apply(to records: inout Records) throws { records.set(page) }
}

/// A plan that some servers do not know.
private struct Plan: SyncedRecord, Defaulted {
    static let collection = RecordCollection("plans")
    static let defaults = Plan(id: .new(), text: "")
    let id: RecordID
    var text: String
    var goal = 5
}

/// Divides by zero, as an app may by mistake.
private struct Divide: RecordMutation {
    static let name = "page.divide"
    let page: RecordID
    let by: Double

    func apply(to records: inout Records) throws {
        records.put(RecordValue(["text": "Hello", "ratio": .number(1 / by)]), for: .note(page))
    }
}

@Suite("Push: changed types", .bounded)
struct TypeChangeTests {
    private func world() async throws -> SyncWorld {
        try await SyncWorld {
            $0.schema = RecordSchema(Page.self, ReadPage.self, SavePage.self, Divide.self)
        }
    }

    private func operation(
        _ mutator: String,
        _ arguments: JSONValue,
        sequence: Int64 = 1,
        lane: String = "main"
    ) -> PushedOperation {
        PushedOperation(
            id: Identifier(at: ManualClock.start),
            sequence: sequence,
            lane: lane,
            mutator: mutator,
            arguments: arguments
        )
    }

    @Test func `an older app's operation is applied on a newer server`() async throws {
        let world = try await world()
        try await world.push(CreateRecord(.note("a"), ["text": "Hello"]))
        let results = try await world.push([operation("page.read", ["page": "a"])]).results
        #expect(results.map(\.status) == [.applied])
        #expect(try await world.records()[.note("a")] == ["text": "Hello", "reads": 1])
    }

    @Test func `a newer app's members survive an older server's mutation`() async throws {
        let world = try await world()
        try await world.push(CreateRecord(.note("a"), ["text": "Hello", "color": "red"]))
        try await world.push(ReadPage(page: "a", by: 2))
        #expect(
            try await world.records()[.note("a")]
                == ["text": "Hello", "color": "red", "reads": 2]
        )
    }

    @Test func `a record with a non-finite number is refused, and the next edit is applied`()
        async throws
    {
        let world = try await world()
        try await world.push(Divide(page: "a", by: 2))
        let problem = try await world.push(Divide(page: "a", by: 0)).first?.problem
        #expect(problem?.code == .invalidContent)
        #expect(try await world.records()[.note("a")] == ["text": "Hello", "ratio": .number(0.5)])
        try await world.push(ReadPage(page: "a", by: 1))
        let whole: JSONValue = ["text": "Hello", "ratio": .number(0.5), "reads": 1]
        #expect(try await world.records()[.note("a")] == whole)
    }

    @Test func `arguments of another type are refused, naming the member`() async throws {
        let world = try await world()
        let pushed = operation("page.read", ["page": "a", "by": "one"])
        let problem = try await world.push([pushed]).results.first?.problem
        #expect(problem?.code == .invalidContent)
        #expect(problem?.detail.contains("the member 'by' is of another type") == true)
    }

    @Test func `a record of another type is refused, naming the member`() async throws {
        let world = try await world()
        try await world.push(CreateRecord(.note("a"), ["text": 7]))
        let problem = try await world.push(ReadPage(page: "a", by: 1)).first?.problem
        #expect(problem?.detail.contains("the member 'text' is of another type") == true)
        #expect(try await world.records()[.note("a")] == ["text": 7])
    }

    @Test func `an unknown mutation is not stored, so the next server applies the operation`()
        async throws
    {
        let world = try await world()
        try await world.push(CreateRecord(.note("a"), ["text": "Hello"]))
        var pushed = operation("page.tear", ["page": "a"])
        #expect(try await world.push([pushed]).results.first?.problem?.code == .mutatorUnknown)
        pushed.mutator = "page.read"  // As if the server had been updated.
        #expect(try await world.push([pushed]).results.map(\.status) == [.applied])
    }

    @Test func `an unknown collection is not stored, so the next server creates the record`()
        async throws
    {
        let world = try await world()
        let pushed = [
            try PushedOperation.sample(CreateRecord(RecordKey("plans", "p"), ["text": "Go"])),
            operation("page.read", ["page": "a"], sequence: 2),
        ]
        let results = try await world.push(pushed).results
        #expect(results.map(\.status) == [.refused, .unknown])
        #expect(results.first?.problem?.code == .collectionUnknown)
        var settings = AuthoritySettings()
        settings.schema = RecordSchema(Page.self, ReadPage.self)
        settings.schema.register(Plan.self)
        let next = Authority(
            storage: world.storage,
            keys: SigningKeys(),
            settings: settings,
            clock: world.clock
        )
        let request = PushRequest(device: "a-device-of-mine", operations: pushed)
        let later = try await next.push(world.account, request).results
        #expect(later.map(\.status) == [.applied, .refused])
        #expect(later.last?.problem?.code == .notFound)
    }

    @Test func `an older operation with an older record is applied on a newer server`()
        async throws
    {
        let world = try await world()
        let results = try await world.push([
            operation("page.save", ["page": ["id": "a", "text": "Hello"]])
        ]).results
        #expect(results.map(\.status) == [.applied])
        let whole: JSONValue = ["text": "Hello", "reads": 0]
        #expect(try await world.records()[.note("a")] == whole)
    }

    @Test func `a missing number counts as its default when it is incremented`() async throws {
        let world = try await SyncWorld { $0.schema = RecordSchema(Plan.self) }
        try await world.push(CreateRecord(RecordKey("plans", "p"), ["text": "Go"]))
        try await world.push(IncrementField(RecordKey("plans", "p"), "goal", by: 1))
        let whole: JSONValue = ["text": "Go", "goal": 6]
        #expect(try await world.records()[RecordKey("plans", "p")] == whole)
    }

    @Test func `operations after an unknown mutation in its lane wait, and other lanes continue`()
        async throws
    {
        let world = try await world()
        try await world.push(CreateRecord(.note("a"), ["text": "Hello"]))
        let pushed = [
            operation("page.tear", ["page": "a"]),
            operation("page.read", ["page": "a"], sequence: 2),
            operation("page.read", ["page": "a"], sequence: 3, lane: "other"),
        ]
        let results = try await world.push(pushed).results
        #expect(results.map(\.status) == [.refused, .unknown, .applied])
        #expect(try await world.records()[.note("a")]?["reads"] == 1)
        let later = try await world.push(Array(pushed[1...])).results
        #expect(later.map(\.status) == [.applied, .replayed])
    }
}
