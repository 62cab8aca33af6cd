import Foundation
import SanguineModel
import TestSupport
import Testing

@Suite(.bounded) struct RecordValueTests {
    private struct Note: SyncedRecord {
        static let collection = RecordCollection("notes")
        let id: RecordID
        var text: String?
    }

    @Test(arguments: [
        #"{}"#, #"{ }"#, #" {}"#, #"{"text":"a"}"#, "{\n  \"text\": \"a\"\n}", #" {"text":"a"} "#,
    ])
    func `a record is read from JSON however it is written`(_ json: String) throws {
        let id = try #require(RecordID("n1"))
        let note = try RecordValue(json: Data(json.utf8)).record(Note.self, id: id)
        #expect(note == Note(id: id, text: json.contains("a") ? "a" : nil))
    }

    @Test func `an id among the members does not count`() throws {
        let id = try #require(RecordID("n1"))
        let value = RecordValue(["id": "n2", "text": "a"])
        #expect(try value.record(Note.self, id: id).id == id)
        #expect(try value.fields() == ["text": "a"])
        #expect(try value.json() == Data(#"{"text":"a"}"#.utf8))
    }
}
