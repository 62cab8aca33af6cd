import Foundation
import TestSupport
import Testing

@testable import SanguineModel

/// A type that knows some members, including a dictionary with arbitrary names.
private struct Shelf: SyncedRecord {
    static let collection = RecordCollection("shelves")
    let id: RecordID
    var title: String?
    var sizes: [String: Int]?
}

private struct StoredShelf: RecordSource {
    let json: String

    func record(_ key: RecordKey) -> SourcedRecord? {
        SourcedRecord(RecordValue(json: Data(json.utf8)))
    }
    func ids(in _: String, where _: String, is _: JSONValue, limit _: Int) -> [RecordID] { [] }
}

/// Records stored by an earlier version, with names over the current limit.
@Suite("Hidden members", .bounded)
struct HiddenMembersTests {
    private static let id = RecordID(Identifier(at: Timestamp(millisecondsSince1970: 0)))
    private static let key = RecordKey("shelves", id)
    private static let long = String(repeating: "k", count: 1_025)
    private var key: RecordKey { Self.key }
    private var long: String { Self.long }

    private func records(_ json: String) -> Records {
        Records(
            from: StoredShelf(json: json),
            schema: RecordSchema(collections: [Shelf.collection]),
            operation: OperationContext(id: Identifier(at: Timestamp(millisecondsSince1970: 0)))
        )
    }

    /// Returns the JSON that is stored after a change.
    private func stored(
        _ json: String,
        _ change: (inout Records) throws -> Void
    ) throws -> String? {
        var records = records(json)
        try change(&records)
        if let failure = records.failure { throw failure }
        let value = records.changes[key] ?? nil
        return try value.map { String(decoding: try $0.json(), as: UTF8.self) }
    }

    @Test func `setting a member keeps others with names over the limit`() throws {
        let before = #"{"a":1,"\#(long)":{"b":[2]},"z":0}"#
        let after = try stored(before) { records in
            try SetFields(key, ["a": 2]).apply(to: &records)
            try IncrementField(key, "z", by: 5).apply(to: &records)
        }
        #expect(after == #"{"a":2,"\#(long)":{"b":[2]},"z":5}"#)
    }

    @Test func `a name with many marks is kept in its stored bytes`() throws {
        let name = "e" + String(repeating: "\u{301}\u{316}", count: 500)
        let before = #"{"\#(name)":"\u0041","f":1}"#
        let after = try stored(before) { try SetFields(key, ["f": 2]).apply(to: &$0) }
        #expect(after.map { Array($0.utf8) } == Array(#"{"\#(name)":"\u0041","f":2}"#.utf8))
    }

    @Test func `hidden members in objects and in equal elements are kept`() throws {
        let before = #"{"a":{"\#(long)":1,"b":2},"c":[{"\#(long)":3},4],"d":1}"#
        let after = try stored(before) { records in
            let fields: RecordFields = ["a": ["b": 3], "c": .array([[:], 4, 5]), "d": 2]
            try SetFields(key, fields).apply(to: &records)
        }
        #expect(after == #"{"a":{"b":3,"\#(long)":1},"c":[{"\#(long)":3},4,5],"d":2}"#)
    }

    @Test func `changing an array element with a hidden member is refused`() throws {
        let before = #"{"c":[{"\#(long)":3,"d":1},4]}"#
        for items: [JSONValue] in [[["d": 2], 4], [4]] {
            let refusal = #expect(throws: Refusal.self) {
                try stored(before) { try SetFields(key, ["c": .array(items)]).apply(to: &$0) }
            }
            #expect(refusal?.code == .invalidContent)
        }
    }

    @Test func `hidden members are removed together with a removed or replaced value`() throws {
        let before = #"{"a":{"\#(long)":1},"b":{"\#(long)":1},"c":[{"\#(long)":3}],"d":1}"#
        let after = try stored(before) { records in
            try SetFields(key, ["a": .null, "b": 2, "c": .array([])]).apply(to: &records)
        }
        #expect(after == #"{"b":2,"c":[],"d":1}"#)
        let created = try stored(before) { records in
            records.delete(key)
            records.put(RecordValue(["d": 2]), for: key)
        }
        #expect(created == #"{"d":2}"#)
    }

    @Test func `setting a record of a type keeps hidden members, even in a dictionary`() throws {
        let before = #"{"title":"a","sizes":{"\#(long)":1,"b":2},"\#(long)":3}"#
        let after = try stored(before) { records in
            let found = records.get(Shelf.self, Self.id)
            var shelf = try #require(found)
            shelf.title = "b"
            shelf.sizes?["b"] = 4
            records.set(shelf)
        }
        #expect(after == #"{"\#(long)":3,"sizes":{"b":4,"\#(long)":1},"title":"b"}"#)
    }

    @Test func `a record of a type cannot be set with names over the limit`() throws {
        let before = #"{"sizes":{"\#(long)":1}}"#
        let after = try stored(before) { $0.set(Shelf(id: Self.id, sizes: ["b": 1])) }
        #expect(after == #"{"sizes":{"b":1,"\#(long)":1}}"#)
        for sizes in [[long: 2], [long + "2": 1, long: 1]] {
            var records = records(before)
            records.set(Shelf(id: Self.id, sizes: sizes))
            let value = try #require(records.changes[key] ?? nil)
            #expect(throws: EncodingError.self) { try value.json() }
        }
        #expect(throws: EncodingError.self) {
            try RecordValue(Shelf(id: Self.id, sizes: [long: 1])).fields()
        }
    }

    @Test func `a value that JSON cannot represent is refused with the member's name`() throws {
        let faulty: [RecordFields] = [
            ["ratio": .number(.nan)], ["a": ["ratio": .number(.infinity)]], [long: 1],
            ["a": .object([long: 1])],
        ]
        for fields in faulty {
            var records = records("{}")
            records.put(RecordValue(fields), for: key)
            #expect(records.failure?.code == .invalidContent)
            #expect(records.changes.isEmpty)
            #expect(throws: EncodingError.self) { try RecordValue(fields).json() }
        }
        var records = records("{}")
        records.put(RecordValue(["ratio": .number(.nan)]), for: key)
        #expect(records.failure?.detail.contains("the member 'ratio' of the record") == true)
    }

    @Test func `received members are stored, but those with long names are hidden`()
        throws
    {
        let value = RecordValue(received: ["a": 1, long: 2])
        #expect(try value.json() == Data(#"{"a":1,"\#(long)":2}"#.utf8))
        #expect(try value.fields() == ["a": 1])
        #expect(try RecordValue(received: ["a": 1]).json() == Data(#"{"a":1}"#.utf8))
    }

    @Test func `changing a stored value that is not JSON is refused with an explanation`() {
        var records = records(#"{"ratio":nan}"#)
        records.increment(key, "ratio", by: 1)
        #expect(records.failure?.detail.contains("stored value is not a JSON") == true)
    }
}
