import SanguineModel
import SanguineTesting
import TestSupport
import Testing

/// A megabyte of combining marks is refused, or handled in linear time.
///
/// Swift normalizes a string to hash it, and sorts each run of marks, which would take minutes
/// here. The suite's time limit verifies that the tests do not.
@Suite("Combining marks", .bounded)
struct CombiningMarkTests {
    /// Marks of two alternating classes, two bytes each.
    private static func marks(_ count: Int) -> String {
        "a" + String(repeating: "\u{301}\u{316}", count: count / 2)
    }

    private static let megabyte = marks(1 << 19)

    private func parse(_ text: String, _ limits: JSONParser.Limits = .init()) throws -> JSONValue {
        try JSONParser.parse(Array(text.utf8), limits: limits).value
    }

    @Test func `a megabyte of marks is refused in names and in strings`() {
        for text in [
            #"{"\#(Self.megabyte)":1}"#, #"{"a":{"\#(Self.megabyte)":1}}"#,
            #"{"\#(Self.megabyte)":1,"\#(Self.megabyte)":2}"#, #"["\#(Self.megabyte)"]"#,
            #""\u0061\#(Self.megabyte)""#,
        ] {
            #expect(throws: JSONParser.Fault.overLimit) { try parse(text) }
        }
    }

    @Test(arguments: [
        (String(repeating: "a", count: 1_024), true), (String(repeating: "a", count: 1_025), false),
        (marks(30), true), ("e" + marks(32), false),
        (String(repeating: marks(30), count: 10), true),
        // A vowel sign of class 0 that decomposes into two marks of other classes.
        ("\u{F40}" + String(repeating: "\u{F73}", count: 31), false), ("नमस्ते", true),
        ("👩‍👩‍👧", true), ("Tiếng Việt", true),
    ])
    func `a name has at most 1,024 bytes and 30 consecutive marks`(name: String, isTaken: Bool) {
        let text = #"{"\#(name)":1}"#
        if isTaken {
            #expect(throws: Never.self) { try parse(text) }
        } else {
            #expect(throws: JSONParser.Fault.overLimit) { try parse(text) }
        }
    }

    @Test func `a string has at most 256 consecutive marks`() throws {
        let text = Self.marks(256)
        #expect(try parse(#"["\#(text)"]"#) == .array([.string(text)]))
        #expect(throws: JSONParser.Fault.overLimit) { try parse(#"["\#(Self.marks(258))"]"#) }
    }

    @Test func `a push refuses only the operation that breaks the limit`() throws {
        let text = """
            {"operations":[{"a":1},{"\(Self.marks(1_000))":{"b":[1]}},{"c":"\(Self.marks(1_000))"},\
            {"d":2}]}
            """
        let limits = JSONParser.Limits(unit: "operations")
        let document = try JSONParser.parse(Array(text.utf8), limits: limits)
        #expect(document.overLimit == [1, 2])
        let operations = try #require(document.value["operations"]).decoded(as: [JSONValue].self)
        #expect([operations[0], operations[3]] == [["a": 1], ["d": 2]])
    }

    @Test func `a stored member whose name exceeds the limit is omitted`() throws {
        let text = #"{"a":1,"\#(Self.megabyte)":{"b":2},"c":"\#(Self.marks(1_000))"}"#
        let value = try JSONValue(stored: Array(text.utf8))
        #expect(value == ["a": 1, "c": .string(Self.marks(1_000))])
    }

    @Test func `JSON that this program wrote keeps names over the limit`() throws {
        let name = String(repeating: "a", count: 1_025)
        let value = try JSONValue(written: Array(#"{"\#(name)":1}"#.utf8))
        #expect(value == [name: 1])
    }

    @Test func `members with canonically equivalent names of any length are refused`() throws {
        let names = (
            "\u{E9}" + String(repeating: "\u{301}\u{316}", count: 15),
            "e\u{301}" + String(repeating: "\u{316}\u{301}", count: 14) + "\u{316}"
        )
        for name in [names.0, names.1] { #expect(name.isMemberName) }
        #expect(throws: JSONParser.Fault.sameName("e\u{301}")) {
            try parse("{\"\u{E9}\":1,\"e\u{301}\":2}")
        }
    }

    @Test func `values are hashed and compared by their bytes`() {
        let other = Self.megabyte + "b"
        let values: Set<JSONValue> = [
            .string(Self.megabyte), .string(other), .array([.string(Self.megabyte)]),
            ["a": .string(other)],
        ]
        #expect(values.contains(.string(other)))
        #expect(!values.contains(.array([.string(other)])))
        let (composed, decomposed) = (JSONValue.string("\u{E9}"), JSONValue.string("e\u{301}"))
        #expect(Set([composed, decomposed]).count == 2)
    }

    @Test func `a hash does not depend on the order of members`() {
        let names = (0..<50).map { "name \($0)" }
        let first = JSONValue.object(Dictionary(uniqueKeysWithValues: names.map { ($0, 1) }))
        var members: [String: JSONValue] = [:]
        for name in names.reversed() { members[name] = 1 }
        #expect(first.hashValue == JSONValue.object(members).hashValue)
        #expect(JSONValue.object(["a": 1, "b": 2]) != .object(["a": 2, "b": 1]))
    }

    @Test func `a member after a megabyte of marks is found`() throws {
        let bytes = Array(#"{"\#(Self.megabyte)":1,"b":2}"#.utf8)
        let range = try #require(JSONParser.range(of: "b", in: bytes))
        #expect(Array(bytes[range]) == [UInt8(ascii: "2")])
    }

    @Test func `untrusted names and ids are looked up without normalization`() throws {
        let key = RecordKey(Self.megabyte, try #require(RecordID("a")))
        #expect(Set([key, key]).count == 1)
        #expect(!(key < key))
        #expect(RecordSchema.standard.collection(Self.megabyte) == nil)
        #expect(RecordSchema.standard.mutation(Self.megabyte) == nil)
        #expect(RecordID(Self.megabyte) == nil)
        #expect(Identifier(Self.megabyte) == nil)
        #expect(!Self.marks(200).isPlainText(of: 1...256))
        #expect(!RecordCollection.isValid(name: Self.megabyte))
        #expect(!ZoneName.isKnown(Self.megabyte))
        #expect(CalendarDay(Self.megabyte) == nil)
        #expect(Timestamp(Self.megabyte) == nil)
        #expect(FeedMark(Self.megabyte) == nil)
        #expect(FeedMark("a.\(Self.megabyte)") == nil)
    }

    @Test(arguments: ["\u{2028}", "\u{2029}", "\u{202A}", "\u{202D}", "\u{202E}"])
    func `separators of lines and overrides of directions are no plain text`(mark: String) {
        #expect(!"a\(mark)b".isPlainText(of: 1...10))
        #expect("a\u{200F}b \u{2067}c\u{2069} \u{200D}".isPlainText(of: 1...20))
    }

    @Test func `a mutation with an untrusted collection and member is refused quickly`() {
        for key in [
            RecordKey(Self.megabyte, RecordID(Self.id)), RecordKey("notes", RecordID(Self.id)),
        ] {
            var records = Records(
                from: EmptySource(),
                schema: .standard,
                operation: OperationContext(id: Self.id)
            )
            records.increment(key, Self.megabyte, by: 1)
            #expect(records.failure != nil)
        }
    }

    private static let id = Identifier(at: Timestamp(millisecondsSince1970: 0))
}

/// A source without records.
struct EmptySource: RecordSource {
    func record(_ key: RecordKey) -> SourcedRecord? { nil }

    func ids(
        in collection: String,
        where field: String,
        is value: JSONValue,
        limit: Int
    ) -> [RecordID] { [] }
}
