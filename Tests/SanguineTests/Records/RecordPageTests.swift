import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

@Suite(.bounded) struct RecordPageTests {
    /// A file in which a restore has begun.
    private struct Begun {
        let file: RecordsFile
        let restore: RecordsFile.Restore

        init() throws {
            let schema = RecordSchema(
                collections: [
                    RecordCollection("plain"), RecordCollection("found", indexes: ["group"]),
                ]
            )
            file = try RecordsFile(folder: nil, schema: schema)
            let range = RecordsFile.Range(number: 1, low: 0, high: 100, reached: 0)
            restore = try file.beginRestore([range], with: RecordPage([]))
        }

        var base: RecordsFile.Base { RecordsFile.Base(file: file, space: restore.space) }

        func write(_ page: String) throws {
            let page = try ReceivedPage(Data(page.utf8)).page
            try file.write(page, restore.ranges[0], of: restore.space)
        }

        func all(_ collection: String) throws -> [String: RecordFields] {
            var all: [String: RecordFields] = [:]
            for (id, value) in try base.all(in: collection) { all[id.text] = try value.fields() }
            return all
        }
    }

    private func page(_ changes: String) -> String {
        #"{"changes":[\#(changes)],"next":9,"head":9,"hasMore":false,"reset":false}"#
    }

    @Test func `a page written as bytes stores the same records as its decoded changes`() throws {
        let values: [JSONValue] = [
            ["text": "plain"], [:], ["text": "\"\\/\u{8}\n\u{1F600} é"],
            ["n": 9_007_199_254_740_993, "x": .number(0.1), "y": .number(-1e300)],
            ["deep": ["a": .array([1, "b", .null, ["c": true]])], "none": .null],
        ]
        var random = SplitMix64(seed: 5)
        let changes = (1...200).map { number in
            RecordChange(
                collection: random.next() % 2 == 0 ? "plain" : "found",
                id: .of("r\(random.next() % 50)"),
                seq: Int64(number),
                deleted: random.next() % 5 == 0,
                value: values.randomElement(using: &random)
            )
        }
        let answer = PullAnswer(changes: changes, next: 200, head: 200, hasMore: false)
        let (bytes, decoded) = (try Begun(), try Begun())
        let json = try JSONEncoder().encode(answer)
        try bytes.write(String(decoding: json, as: UTF8.self))
        let (range, space) = (decoded.restore.ranges[0], decoded.restore.space)
        try decoded.file.write(RecordPage(changes), range, of: space)
        #expect(try bytes.all("plain") == decoded.all("plain"))
        #expect(try bytes.all("found") == decoded.all("found"))
        #expect(try bytes.all("plain").count > 10)
    }

    @Test func `records of a page are found by index`() throws {
        let begun = try Begun()
        try begun.write(
            page(
                """
                {"collection":"found","id":"a","seq":1,"deleted":false,"value":{"group":"x"}},
                {"collection":"found","id":"b","seq":2,"deleted":false,"value":{"group":"y"}}
                """
            )
        )
        let ids = try begun.base.ids(in: "found", where: "group", is: "y", limit: 9)
        #expect(ids == [.of("b")])
    }

    @Test func `equal numbers are found by each other`() throws {
        let begun = try Begun()
        try begun.write(
            page(
                """
                {"collection":"found","id":"a","seq":1,"deleted":false,"value":{"group":-0}},
                {"collection":"found","id":"b","seq":2,"deleted":false,"value":{"group":1.0}},
                {"collection":"found","id":"c","seq":3,"deleted":false,"value":{"group":0.5}},
                {"collection":"found","id":"d","seq":4,"deleted":false,"value":{"group":0.0}},
                {"collection":"found","id":"e","seq":5,"deleted":false,"value":{"group":-0.0}},
                {"collection":"found","id":"f","seq":6,"deleted":false,"value":{"group":0e7}},
                {"collection":"found","id":"g","seq":7,"deleted":false,"value":{"group":1e-400}}
                """
            )
        )
        func ids(_ value: JSONValue) throws -> [RecordID] {
            try begun.base.ids(in: "found", where: "group", is: value, limit: 9)
        }
        for zero in [0, .number(0), .number(-0.0)] as [JSONValue] {
            #expect(try ids(zero) == ["a", "d", "e", "f"].map(RecordID.of))
        }
        for one in [1, .number(1)] as [JSONValue] { #expect(try ids(one) == [.of("b")]) }
        #expect(try ids(.number(0.5)) == [.of("c")])
    }

    @Test func `decoding a page preserves the digits of its numbers`() throws {
        let digits = "0.12345678901234567890123456789012345678901234567890123"
        let value = #"{"a":\#(digits),"b":-0.0,"c":1e-400,"d":18446744073709551616,"e":[-0]}"#
        let change =
            #"{"collection":"plain","id":"a","seq":1,"through":1,"deleted":false,"value":\#(value)"#
        let body = Data(page(change + "}").utf8)
        let answer = try PullAnswer.decoded(from: TransportResponse(status: 200, body: body))
        let expected = try JSONValue(written: Array(value.utf8))
        #expect(answer.changes.first?.value?.encoded == expected.encoded)
        let live = try WireCoding.decodeRecords(
            LiveChange.self,
            from: Data((change + #","head":1}"#).utf8)
        )
        #expect(live.change.value?.encoded == expected.encoded)
        let text = String(decoding: expected.encoded, as: UTF8.self)
        #expect(text.contains(digits) && text.contains(#""b":-0"#))
    }

    @Test func `a page with a duplicate member name is refused, and no member is dropped`() {
        let names = #""\u00e9":1,"e\u0301":2"#
        let body = page(
            #"{"collection":"plain","id":"a","seq":1,"deleted":false,"value":{\#(names)}}"#
        )
        let response = TransportResponse(status: 200, body: Data(body.utf8))
        let refusal = #expect(throws: SanguineError.self) { try PullAnswer.decoded(from: response) }
        #expect(refusal?.code == "decoding")
    }

    @Test func `a member named id is not the record's id`() throws {
        let begun = try Begun()
        try begun.write(
            page(
                """
                {"collection":"plain","id":"a","seq":1,"deleted":false,
                "value":{"id":"z","count":3,"group":"g"}}
                """
            )
        )
        let value = try #require(try begun.base.record(RecordKey("plain", .of("a")))?.value)
        #expect(try value.record(Counter.self, id: .of("a")).id == .of("a"))
    }

    @Test(arguments: [
        "no JSON",
        #"{"next":9}"#, #"{"changes":[],"next":9}"#, #"{"changes":[],"hasMore":false}"#, "[]",
        #"{"changes":[],"next":9,"hasMore":false} {}"#,
        #"{"changes":[{"collection":"plain","id":"a","seq":1,"value":{"a":[1}]}]}"#,
        #"{"changes":[{"collection":"plain","id":"a","seq":1,"value":{"a":}}]}"#,
        #"{"changes":{}}"#,
        #"{"changes":["a"]}"#,
        #"{"changes":[{"collection":"plain","seq":1,"deleted":false,"value":{}}]}"#,
        #"{"changes":[{"collection":"plain","id":"no id","seq":1,"value":{}}]}"#,
        #"{"changes":[{"collection":1,"id":"a","seq":1,"value":{}}]}"#,
        #"{"changes":[{"collection":"plain","id":"a","seq":"x","value":{}}]}"#,
    ])
    func `an unreadable page is refused and changes nothing`(_ broken: String) throws {
        let begun = try Begun()
        try begun.write(
            page(#"{"collection":"plain","id":"a","seq":1,"deleted":false,"value":{"n":1}}"#)
        )
        #expect(throws: RecordPage.Unreadable.self) { try begun.write(broken) }
        #expect(try begun.all("plain") == ["a": ["n": 1]])
        #expect(try begun.file.restore()?.ranges.map(\.reached) == [0])
    }

    @Test func `nothing is written for a dropped restore`() throws {
        let begun = try Begun()
        try begun.file.abandonRestore()
        #expect(throws: RecordsFile.RestoreDropped.self) {
            try begun.write(
                page(#"{"collection":"plain","id":"a","seq":1,"deleted":false,"value":{}}"#)
            )
        }
        #expect(try begun.all("plain").isEmpty && begun.file.restore() == nil)
    }
}
