import Foundation
import Sanguine
import SanguineTesting
import TestSupport
import Testing

private struct Note: SyncedRecord {
    static let collection = RecordCollection("notes")
    let id: RecordID
    var title: String
}

extension Note: Migrated {
    static func migrate(_ members: inout [String: JSONValue]) {
        if members["title"] == nil { members["title"] = members.removeValue(forKey: "name") }
    }
}

/// The samples of the guide to releases.
@Suite("Release snippets", .bounded)
struct ReleaseSnippets {
    private let id = RecordID(Identifier(at: Timestamp(millisecondsSince1970: 0)))

    private func client() throws -> SanguineClient {
        var configuration = SanguineClient.Configuration()
        configuration.isInMemory = true
        configuration.register(Habit.self, Note.self)
        return try SanguineClient(configuration)
    }

    @Test func `a missing member gets its default and is changed in place`() throws {
        let client = try client()
        try client.perform(CreateRecord(RecordKey("habits", id), ["title": "Run"]))
        let habit = try #require(client.record(Habit.self, id))
        try client.perform(SetFields(habit) { $0.title = "Read" })
        #expect(client.record(Habit.self, id) == Habit(id: id, title: "Read", streak: 0))
    }

    @Test func `a renamed member is migrated`() throws {
        let client = try client()
        try client.perform(CreateRecord(RecordKey("notes", id), ["name": "Milk"]))
        #expect(client.record(Note.self, id)?.title == "Milk")
    }
}
