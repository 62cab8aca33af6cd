import Foundation
import TestSupport
import Testing

@testable import SanguineModel

/// A plan as declared by an earlier version of the app.
private struct OldPlan: SyncedRecord {
    static let collection = Plan.collection
    let id: RecordID
    var title: String
    var note: String?
    var counts: [String: Int]?
    var reminder: Reminder?

    struct Reminder: Codable, Equatable { var hour = 9 }
}

/// A plan with parts, which knows only some of the stored members.
private struct PartedPlan: SyncedRecord {
    static let collection = Plan.collection
    let id: RecordID
    var steps: [Step] = []
    var people: [Person] = []

    struct Step: Codable, Equatable {
        var text: String
        var done = false
    }

    struct Person: Codable, Equatable {
        var id: Int
        var name: String
    }
}

/// A plan whose title was renamed.
private struct RenamedPlan: SyncedRecord, Migrated {
    static let collection = Plan.collection
    let id: RecordID
    var title: String
    var streak: Int?

    static func migrate(_ members: inout [String: JSONValue]) {
        if members["title"] == nil { members["title"] = members.removeValue(forKey: "name") }
    }
}

/// A plan with a renamed member in a nested value.
private struct DeepPlan: SyncedRecord {
    static let collection = Plan.collection
    let id: RecordID
    var title: String
    var part: Part
    var parts: [Part]?

    struct Part: Codable, Equatable, Migrated {
        var name: String?

        static func migrate(_ members: inout [String: JSONValue]) {
            if let old = members.removeValue(forKey: "label") { members["name"] = old }
        }
    }
}

/// A plan with settings, of which another version knows more members.
private struct SetPlan: SyncedRecord, Defaulted {
    static let collection = Plan.collection
    static let defaults = SetPlan(id: .new(), goal: 5)
    let id: RecordID
    var settings = Settings()
    var goal: Int

    struct Settings: Codable, Equatable {
        var theme = "light"
        var sound: String?
    }
}

private struct OneRecord: RecordSource {
    let value: RecordValue?

    func record(_ key: RecordKey) -> SourcedRecord? { value.map { SourcedRecord($0) } }
    func ids(in _: String, where _: String, is _: JSONValue, limit _: Int) -> [RecordID] { [] }
}

@Suite("Replaced records", .bounded)
struct RecordsOverTests {
    private static let id = RecordID(Identifier(at: Timestamp(millisecondsSince1970: 0)))
    private static let key = RecordKey("plans", id)
    private var id: RecordID { Self.id }

    private func records(
        _ stored: RecordFields?,
        schema: RecordSchema = RecordSchema(collections: [Plan.collection])
    ) -> Records {
        Records(
            from: OneRecord(value: stored.map { RecordValue($0) }),
            schema: schema,
            operation: OperationContext(id: Identifier(at: Timestamp(millisecondsSince1970: 0)))
        )
    }

    /// Returns the fields that are stored after a change of a record that was read.
    private func stored<R: SyncedRecord>(
        _ stored: RecordFields,
        _ type: R.Type,
        _ change: (inout R) -> Void
    ) throws -> RecordFields? {
        var records = records(stored)
        let found = records.get(R.self, id)
        var record = try #require(found)
        change(&record)
        records.set(record)
        #expect(records.failure == nil)
        return try (records.changes[Self.key] ?? nil)?.fields()
    }

    @Test func `unknown members are kept, even inside an object`() throws {
        let before: RecordFields = [
            "title": "Run", "streak": 7, "reminder": ["hour": 7, "isOn": true],
        ]
        let after = try stored(before, OldPlan.self) {
            $0.title = "Swim"
            $0.reminder?.hour = 8
        }
        #expect(
            after == ["title": "Swim", "streak": 7, "reminder": ["hour": 8, "isOn": true]]
        )
    }

    private static func step(_ text: String, _ note: String, done: Bool = false) -> JSONValue {
        ["text": .string(text), "done": .bool(done), "note": .string(note)]
    }

    private static let plan: RecordFields = [
        "steps": .array([step("a", "1"), step("b", "2"), step("b", "3"), step("c", "4")]),
        "people": .array([
            ["id": 1, "name": "Ada", "mail": "a"], ["id": 2, "name": "Ben", "mail": "b"],
        ]),
    ]

    @Test func `unchanged elements of an array keep their stored form`() throws {
        let after = try stored(Self.plan, PartedPlan.self) { $0.steps[1].done = true }
        let changed: JSONValue = ["text": "b", "done": true]
        #expect(
            after?["steps"]
                == .array([
                    Self.step("a", "1"), changed, Self.step("b", "3"), Self.step("c", "4"),
                ])
        )
        #expect(after?["people"] == Self.plan["people"])
    }

    @Test func `moving, removing and adding elements preserves the others' stored form`() throws {
        let removed = try stored(Self.plan, PartedPlan.self) { $0.steps.remove(at: 0) }
        #expect(
            removed?["steps"]
                == .array([Self.step("b", "2"), Self.step("b", "3"), Self.step("c", "4")])
        )
        let moved = try stored(Self.plan, PartedPlan.self) { plan in
            plan.steps.insert(plan.steps.remove(at: 3), at: 0)
            plan.steps.append(.init(text: "new"))
        }
        #expect(
            moved?["steps"]
                == .array([
                    Self.step("c", "4"), Self.step("a", "1"), Self.step("b", "2"),
                    Self.step("b", "3"), ["text": "new", "done": false],
                ])
        )
    }

    @Test func `a changed element with an id keeps unknown members`()
        throws
    {
        let after = try stored(Self.plan, PartedPlan.self) { plan in
            plan.people.swapAt(0, 1)
            plan.people[1].name = "Eve"
            plan.people.insert(.init(id: 3, name: "Cid"), at: 0)
        }
        #expect(
            after?["people"]
                == .array([
                    ["id": 3, "name": "Cid"], ["id": 2, "name": "Ben", "mail": "b"],
                    ["id": 1, "name": "Eve", "mail": "a"],
                ])
        )
    }

    @Test func `elements without unique ids are compared as a whole`() throws {
        let twice: JSONValue = ["id": 1, "name": "Ada", "mail": "a"]
        let before: RecordFields = ["steps": .array([]), "people": .array([twice, twice])]
        let after = try stored(before, PartedPlan.self) { $0.people[0].name = "Eve" }
        #expect(after?["people"] == .array([["id": 1, "name": "Eve"], twice]))
    }

    @Test func `a member that becomes nil is removed, and so is a dictionary key`() throws {
        let before: RecordFields = [
            "title": "Run", "note": "far", "counts": ["a": 1, "b": 2], "streak": 7,
        ]
        let after = try stored(before, OldPlan.self) {
            $0.note = nil
            $0.counts = ["b": 3]
        }
        #expect(after == ["title": "Run", "counts": ["b": 3], "streak": 7])
    }

    @Test func `a default is stored only when its member changes`() throws {
        let after = try stored(["title": "Run"], Plan.self) { $0.title = "Swim" }
        #expect(after == ["title": "Swim"])
        let counted = try stored(["title": "Run"], Plan.self) { $0.streak += 1 }
        #expect(counted == ["title": "Run", "streak": 1])
    }

    @Test func `a later enumeration case is kept when another member changes`() throws {
        let before: RecordFields = ["title": "Run", "mood": "wild"]
        let after = try stored(before, Plan.self) { $0.streak += 1 }
        #expect(after == ["title": "Run", "mood": "wild", "streak": 1])
        #expect(try stored(before, Plan.self) { $0.mood = .keen }?["mood"] == "keen")
    }

    @Test func `the result of a migration is stored with the first change`() throws {
        let after = try stored(["name": "Run", "color": "red"], RenamedPlan.self) { $0.streak = 1 }
        #expect(after == ["title": "Run", "color": "red", "streak": 1])
    }

    @Test func `a record that is set several times keeps the initial unknown members`() throws {
        var records = records(["title": "Run", "streak": 7])
        let found = records.get(OldPlan.self, id)
        let first = try #require(found)
        for title in ["Swim", "Ride", "Row"] {
            records.set(OldPlan(id: id, title: title))
        }
        let last = records.get(OldPlan.self, id)
        #expect(last?.title == "Row")
        records.set(first)
        let after = try (records.changes[Self.key] ?? nil)?.fields()
        #expect(after == ["title": "Run", "streak": 7])
    }

    @Test func `a record that was not read before keeps unknown members when set`() throws {
        var records = records(["title": "Run", "streak": 7])
        records.set(OldPlan(id: id, title: "Swim"))
        let after = try (records.changes[Self.key] ?? nil)?.fields()
        #expect(after == ["title": "Swim", "streak": 7])
    }

    @Test func `a new record is stored unchanged, also after a deletion`() throws {
        var records = records(nil)
        records.set(OldPlan(id: id, title: "Swim"))
        #expect(try (records.changes[Self.key] ?? nil)?.fields() == ["title": "Swim"])
        var others = self.records(["title": "Run", "streak": 7])
        others.delete(OldPlan.self, id)
        others.set(OldPlan(id: id, title: "Swim"))
        #expect(try (others.changes[Self.key] ?? nil)?.fields() == ["title": "Swim"])
    }

    @Test func `reading an unreadable record is refused with the member's name`() {
        var records = records(["streak": 7])
        let found = records.get(OldPlan.self, id)
        #expect(found == nil && records.failure?.code == .invalidContent)
        #expect(records.failure?.detail.contains("the member 'title' is missing") == true)
    }

    @Test func `an unreadable record is not overwritten by a newly created one`() {
        var records = records(["streak": 7])
        records.set(OldPlan(id: id, title: ""))
        #expect(records.failure?.detail.contains("the member 'title' is missing") == true)
        #expect(records.changes.isEmpty)
    }

    @Test func `an unreadable record can be deleted, and its members set by name`() throws {
        var records = records(["streak": 7])
        records.delete(OldPlan.self, id)
        #expect(records.failure == nil && records.changes[Self.key] == .some(nil))
        var others = self.records(["streak": 7])
        try SetFields(Self.key, ["title": "Run"]).apply(to: &others)
        let found = others.get(OldPlan.self, id)
        #expect(found?.title == "Run" && others.failure == nil)
    }

    @Test func `an in-place change contains only the members that differ`() throws {
        let plan = OldPlan(id: id, title: "Run", note: "far")
        let change = try SetFields(plan) {
            $0.title = "Swim"
            $0.note = nil
        }
        #expect(change.fields == ["title": "Swim", "note": .null] && change.id == id)
        #expect(try SetFields(plan) { _ in }.fields.isEmpty)
    }

    @Test func `values are equal if both their records and the stored values are`() throws {
        let plain = RecordValue(OldPlan(id: id, title: "Run"))
        let over = try RecordValue(
            OldPlan(id: id, title: "Run"),
            over: RecordValue(["title": "Swim", "streak": 7])
        )
        #expect(plain != over)
        #expect(plain == RecordValue(["title": "Run"]))
        #expect(over == RecordValue(["title": "Run", "streak": 7]))
    }

    @Test func `the result of a nested migration is stored with the first change`() throws {
        let before: RecordFields = [
            "title": "Run", "part": ["label": "a", "color": "red"],
            "parts": .array([["label": "b"]]),
        ]
        let after = try stored(before, DeepPlan.self) { $0.part.name = nil }
        #expect(
            after == ["title": "Run", "part": ["color": "red"], "parts": .array([["name": "b"]])]
        )
        let other = try stored(before, DeepPlan.self) { $0.title = "Swim" }
        #expect(other?["part"] == ["name": "a", "color": "red"])
    }

    @Test func `a second change back to the default is stored after a first one`() throws {
        var records = records(["title": "Run", "mood": "wild"])
        let found = records.get(Plan.self, id)
        var plan = try #require(found)
        plan.mood = .keen
        records.set(plan)
        plan.mood = .calm
        records.set(plan)
        #expect(try (records.changes[Self.key] ?? nil)?.fields()["mood"] == "calm")
    }

    // MARK: - Members set by name

    /// Returns the fields after an in-place change of a record that was read with other members.
    private func set(
        _ stored: RecordFields,
        from read: RecordFields? = nil,
        _ change: (inout SetPlan) -> Void
    ) throws -> RecordFields? {
        let plan = try RecordValue(read ?? stored).record(SetPlan.self, id: id)
        let change = try SetFields(plan, change)
        let sent = try JSONDecoder().decode(SetFields.self, from: JSONEncoder().encode(change))
        #expect(sent == change)
        var records = records(stored)
        try records.run(sent)
        return try (records.changes[Self.key] ?? nil)?.fields()
    }

    @Test func `an in-place change inside an object keeps its other members`() throws {
        let before: RecordFields = ["settings": ["theme": "light", "font": "mono"], "goal": 3]
        let after = try set(before) { $0.settings.theme = "dark" }
        #expect(after == ["settings": ["theme": "dark", "font": "mono"], "goal": 3])
    }

    @Test func `two in-place changes of members of one object are both kept`() throws {
        let read: RecordFields = ["settings": ["theme": "light", "sound": "on"], "goal": 3]
        let first = try #require(try set(read) { $0.settings.theme = "dark" })
        let both = try set(first, from: read) { $0.settings.sound = nil }
        #expect(both == ["settings": ["theme": "dark"], "goal": 3])
    }

    @Test func `an in-place change of a removed object sets the whole object`() throws {
        let read: RecordFields = ["settings": ["theme": "light", "sound": "on"], "goal": 3]
        let after = try set(["goal": 3], from: read) { $0.settings.theme = "dark" }
        #expect(after == ["settings": ["theme": "dark", "sound": "on"], "goal": 3])
    }

    @Test func `setting an object by name replaces the whole object`() throws {
        var records = records(["settings": ["theme": "light", "font": "mono"]])
        try records.run(SetFields(Self.key, ["settings": ["theme": "dark"]]))
        let after = try (records.changes[Self.key] ?? nil)?.fields()
        #expect(after == ["settings": ["theme": "dark"]])
    }

    @Test func `a canonically equivalent name inside an object is refused`() throws {
        var records = records(["settings": ["\u{e9}": 1]])
        let change = SetFields(
            Self.key,
            ["settings": ["e\u{301}": 2]],
            from: ["settings": ["e\u{301}": 1]]
        )
        let refusal = #expect(throws: Refusal.self) { try records.run(change) }
        #expect(refusal?.code == .invalidContent)
    }

    @Test func `incrementing a missing number starts with its default`() throws {
        var records = records(["title": "Run"], schema: RecordSchema(SetPlan.self))
        records.increment(Self.key, "goal", by: 2)
        records.increment(Self.key, "other", by: 2)
        let after = try (records.changes[Self.key] ?? nil)?.fields()
        #expect(after == ["title": "Run", "goal": 7, "other": 2])
    }

    @Test func `a number with an earlier name is migrated before its increment`() throws {
        struct Score: SyncedRecord, Migrated {
            static let collection = Plan.collection
            let id: RecordID
            var points: Int

            static func migrate(_ members: inout RecordFields) {
                if let old = members.removeValue(forKey: "score") { members["points"] = old }
            }
        }
        var records = records(["score": 4], schema: RecordSchema(Score.self))
        records.increment(Self.key, "points", by: 1)
        let after = try (records.changes[Self.key] ?? nil)?.fields()
        #expect(after == ["points": 5])
    }
}
