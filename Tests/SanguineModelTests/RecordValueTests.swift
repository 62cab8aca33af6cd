import Foundation
import TestSupport
import Testing

@testable import SanguineModel

@Suite(.bounded) struct RecordValueTests {
    private struct Note: SyncedRecord {
        static let collection = RecordCollection("notes")
        let id: RecordID
        var text: String?
    }

    @Test(arguments: [
        #"{}"#, #"{ }"#, #" {}"#, #"{"text":"a"}"#, "{\n  \"text\": \"a\"\n}", #" {"text":"a"} "#,
    ])
    func `a record is read from JSON with any whitespace`(_ json: String) throws {
        let id = try #require(RecordID("n1"))
        let note = try RecordValue(json: Data(json.utf8)).record(Note.self, id: id)
        #expect(note == Note(id: id, text: json.contains("a") ? "a" : nil))
    }

    @Test(arguments: [Double.nan, .infinity, -.infinity])
    func `members with a number that is not finite are never encoded`(_ number: Double) throws {
        let values = [
            RecordValue(["ratio": .number(number)]),
            RecordValue(["list": .array([["ratio": .number(number)]])]),
        ]
        for value in values {
            #expect(throws: EncodingError.self) { try value.json() }
            #expect(throws: EncodingError.self) { try value.put(over: nil) }
        }
        #expect(JSONValue.number(number).encoded == Array("null".utf8))
    }

    @Test func `a migration that returns a number that is not finite makes a record unreadable`() {
        struct Ratio: SyncedRecord, Migrated {
            static let collection = RecordCollection("ratios")
            let id: RecordID
            var ratio: Double?

            static func migrate(_ members: inout RecordFields) { members["ratio"] = .number(.nan) }
        }
        let value = RecordValue(["ratio": 1])
        #expect(throws: DecodingError.self) { try value.record(Ratio.self, id: .new()) }
        #expect(throws: DecodingError.self) { try RecordValue(Ratio(id: .new()), over: value) }
    }

    @Test func `values differ if a member differs that the type's equality ignores`() throws {
        struct Row: SyncedRecord {
            static let collection = RecordCollection("rows")
            let id: RecordID
            var text: String
            static func == (lhs: Row, rhs: Row) -> Bool { lhs.id == rhs.id }
        }
        let id = RecordID.new()
        let stored = RecordValue(["text": "a", "more": 1])
        #expect(RecordValue(Row(id: id, text: "a")) != RecordValue(Row(id: id, text: "b")))
        #expect(
            try RecordValue(Row(id: id, text: "b"), over: stored)
                != RecordValue(Row(id: id, text: "c"), over: stored)
        )
    }

    @Test func `an id among the members is ignored`() throws {
        let id = try #require(RecordID("n1"))
        let value = RecordValue(["id": "n2", "text": "a"])
        #expect(try value.record(Note.self, id: id).id == id)
        #expect(try value.fields() == ["text": "a"])
        #expect(try value.json() == Data(#"{"text":"a"}"#.utf8))
    }
}
