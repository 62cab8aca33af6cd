import Foundation
import TestSupport
import Testing

@testable import SanguineModel

/// A record as declared by a later version of an app.
struct Plan: SyncedRecord, Defaulted {
    enum Mood: String, Codable { case calm, keen }
    struct Reminder: Codable, Equatable {
        var hour = 9
        var isOn = true
    }

    static let collection = RecordCollection("plans")
    static let defaults = Plan(id: .new(), title: "", note: "none", reminder: Reminder())
    let id: RecordID
    var title: String
    var streak = 0
    var mood = Mood.calm
    var note: String?
    var reminder: Reminder
    var tags: [Reminder] = []
}

/// The arguments of a mutation.
private struct Arguments: Codable, Equatable, Defaulted {
    static let defaults = Arguments(plan: "", by: 1, mood: .calm)
    var plan: String
    var by: Int
    var mood: Plan.Mood
}

/// A value with a member that was renamed and changed its type.
private struct Renamed: Codable, Equatable, Migrated, Defaulted {
    static let defaults = Renamed(title: "", minutes: 5)
    var title: String
    var minutes: Int

    static func migrate(_ members: inout [String: JSONValue]) throws {
        if members["title"] == nil { members["title"] = members.removeValue(forKey: "name") }
        if let text = members["minutes"]?.string, let number = Int64(text) {
            members["minutes"] = .integer(number)
        }
    }
}

/// A type with its own defaults.
private struct Pace: Codable, Equatable, Defaulted {
    static let defaults = Pace(minutes: 6)
    var minutes: Int
    var unit = "km"
}

/// A type without defaults that contains values of other types.
private struct Workout: Codable, Equatable {
    var pace: Pace
    var best: Pace?
    var laps: [Pace] = []
    var byName: [String: Pace] = [:]
    var titles: [Renamed] = []
}

/// A value with a default for a member whose type has defaults.
private struct Training: Codable, Equatable, Defaulted {
    static let defaults = Training(pace: Pace(minutes: 9, unit: "mile"))
    var pace: Pace
}

/// A value that contains values of its own type.
private struct Branch: Codable, Equatable, Defaulted {
    static let defaults = Branch(branches: [], a: 0, b: 0, c: 0)
    var branches: [Branch]
    var a: Int
    var b: Int
    var c: Int
}

/// A record with optional members.
private struct Diary: SyncedRecord, Defaulted {
    static let collection = RecordCollection("diaries")
    static let defaults = Diary(id: .new(), text: "", place: Place(name: ""))
    struct Place: Codable, Equatable {
        var name: String
        var mood: Plan.Mood?
    }
    let id: RecordID
    var text: String
    var mood: Plan.Mood?
    var stars: Int8?
    var place: Place
}

@Suite("Stored data of another version", .bounded)
struct StoredFormTests {
    private func plan(_ members: RecordFields) throws -> Plan {
        try RecordValue(members).record(Plan.self, id: .new())
    }

    private func fault(_ body: () throws -> some Any) -> String? {
        do { _ = try body() } catch { return error.memberFault }
        return nil
    }

    @Test func `a missing member takes its default, even inside an object`() throws {
        let plan = try plan(["title": "Run", "reminder": ["hour": 7]])
        #expect(plan.streak == 0 && plan.mood == .calm)
        #expect(plan.reminder == Plan.Reminder(hour: 7, isOn: true))
    }

    @Test func `a missing optional member is nil, whether or not others are missing`() throws {
        #expect(try plan(["title": "Run"]).note == nil)
        let stored: RecordFields = [
            "title": "Run", "streak": 1, "mood": "keen", "reminder": ["hour": 7, "isOn": false],
            "tags": .array([]),
        ]
        #expect(try plan(stored).note == nil)
    }

    @Test func `null becomes the default if the type needs a value`() throws {
        #expect(try plan(["title": "Run", "streak": .null]).streak == 0)
    }

    @Test func `array elements take no defaults, and the error names the member`() {
        let fault = fault { try plan(["title": "Run", "tags": .array([["hour": 7]])]) }
        #expect(fault == "the member 'tags.0.isOn' is missing")
    }

    @Test func `a member of a wrong type is not replaced by a default`() {
        let fault = fault { try plan(["title": "Run", "streak": "seven"]) }
        #expect(fault == "the member 'streak' is of another type")
    }

    @Test func `an error of a type without defaults names the missing member`() {
        struct Bare: Codable { var title: String }
        let fault = fault { try StoredForm.arguments.decode(Bare.self, from: ["name": "Run"]) }
        #expect(fault == "the member 'title' is missing")
    }

    @Test func `an unknown enumeration case becomes the default in a record`() throws {
        #expect(try plan(["title": "Run", "mood": "wild"]).mood == .calm)
    }

    @Test func `an unknown enumeration case is an error in arguments`() {
        let stored: JSONValue = ["plan": "a", "mood": "wild"]
        let faults = [
            fault { try StoredForm.arguments.decode(Arguments.self, from: stored) },
            fault {
                try StoredForm.arguments.decode(Arguments.self, from: JSONEncoder().encode(stored))
            },
        ]
        #expect(faults == Array(repeating: "the member 'mood' has an unknown value", count: 2))
    }

    @Test func `defaults apply equally to arguments in text and in values`() throws {
        let stored: JSONValue = ["plan": "a"]
        let whole = Arguments(plan: "a", by: 1, mood: .calm)
        #expect(try StoredForm.arguments.decode(Arguments.self, from: stored) == whole)
        let json = try JSONEncoder().encode(stored)
        #expect(try StoredForm.arguments.decode(Arguments.self, from: json) == whole)
    }

    @Test func `a migration runs before defaults and leaves current data unchanged`() throws {
        let old: JSONValue = ["name": "Run", "minutes": "7"]
        #expect(
            try StoredForm.arguments.decode(Renamed.self, from: old)
                == Renamed(title: "Run", minutes: 7)
        )
        let new: JSONValue = ["title": "Run"]
        #expect(
            try StoredForm.arguments.decode(Renamed.self, from: new)
                == Renamed(title: "Run", minutes: 5)
        )
    }

    // MARK: - Nested types

    /// Returns the result, which must be the same for a value and for text.
    private func read<Value: Decodable & Equatable>(
        _ type: Value.Type,
        _ stored: JSONValue
    ) throws -> Value {
        let value = try StoredForm.arguments.decode(type, from: stored)
        let json = try JSONEncoder().encode(stored)
        #expect(try StoredForm.arguments.decode(type, from: json) == value)
        return value
    }

    @Test func `defaults apply to a type nested in one without defaults`() throws {
        let stored: JSONValue = ["pace": ["minutes": 5], "best": ["unit": "mile"]]
        struct Bare: Codable, Equatable {
            var pace: Pace
            var best: Pace?
        }
        #expect(
            try read(Bare.self, stored)
                == Bare(pace: Pace(minutes: 5), best: Pace(minutes: 6, unit: "mile"))
        )
    }

    @Test func `defaults and migrations apply to elements and dictionary values`() throws {
        let stored: JSONValue = [
            "pace": ["minutes": .null, "unit": "m"],
            "laps": .array([["minutes": 4], ["unit": "mile"]]),
            "byName": ["a": ["unit": "mile"]],
            "titles": .array([["name": "Run", "minutes": "7"], ["name": "Swim"]]),
        ]
        #expect(
            try read(Workout.self, stored)
                == Workout(
                    pace: Pace(minutes: 6, unit: "m"),
                    laps: [Pace(minutes: 4), Pace(minutes: 6, unit: "mile")],
                    byName: ["a": Pace(minutes: 6, unit: "mile")],
                    titles: [
                        Renamed(title: "Run", minutes: 7), Renamed(title: "Swim", minutes: 5),
                    ]
                )
        )
        #expect(
            try read([Pace].self, .array([["minutes": 1], [:]]))
                == [Pace(minutes: 1), Pace(minutes: 6)]
        )
    }

    @Test func `the defaults of the enclosing type take precedence`() throws {
        #expect(
            try read(Training.self, ["pace": [:]])
                == Training(pace: Pace(minutes: 9, unit: "mile"))
        )
        #expect(try read(Training.self, [:]) == Training.defaults)
    }

    @Test func `an error inside a type with defaults contains the whole path`() {
        let stored: JSONValue = ["pace": [:], "laps": .array([["minutes": "four"]])]
        let fault = fault { try StoredForm.arguments.decode(Workout.self, from: stored) }
        #expect(fault == "the member 'laps.0.minutes' is of another type")
    }

    @Test func `deeply nested values with missing members are read without repetition`() throws {
        var stored: JSONValue = ["branches": .array([])]
        for _ in 0..<40 { stored = ["branches": .array([stored])] }
        var branch: Branch? = try read(Branch.self, stored)
        var depth = 0
        while let next = branch?.branches.first { (branch, depth) = (next, depth + 1) }
        #expect(depth == 40)
    }

    @Test func `an optional member with an unknown value is nil in a record`() throws {
        let stored: RecordFields = [
            "text": "Hi", "mood": "wild", "stars": 1_000, "place": ["name": "Oslo", "mood": "shy"],
        ]
        let diary = try RecordValue(stored).record(Diary.self, id: .new())
        #expect(diary.mood == nil && diary.stars == nil && diary.text == "Hi")
        #expect(diary.place == Diary.Place(name: "Oslo"))
        var changed = diary
        changed.text = "Ho"
        let after = try RecordValue(changed, over: RecordValue(stored)).fields()
        #expect(after["text"] == "Ho")
        #expect(after["mood"] == "wild" && after["place"] == stored["place"])
    }

    @Test func `an optional member with an unknown value is an error in arguments`() {
        let fault = fault {
            try StoredForm.arguments.decode(Diary.Place.self, from: ["name": "a", "mood": "shy"])
        }
        #expect(fault == "the member 'mood' has an unknown value")
    }
}
