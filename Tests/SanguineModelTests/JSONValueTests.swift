import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@Suite("JSON value", .bounded)
struct JSONValueTests {
    private func decode(_ text: String) throws -> JSONValue {
        try JSONDecoder().decode(JSONValue.self, from: Data(text.utf8))
    }

    private func encode(_ value: JSONValue) throws -> String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        return String(decoding: try encoder.encode(value), as: UTF8.self)
    }

    /// The complete table of RFC 7396, appendix A.
    @Test(arguments: [
        (#"{"a":"b"}"#, #"{"a":"c"}"#, #"{"a":"c"}"#),
        (#"{"a":"b"}"#, #"{"b":"c"}"#, #"{"a":"b","b":"c"}"#),
        (#"{"a":"b"}"#, #"{"a":null}"#, #"{}"#),
        (#"{"a":"b","b":"c"}"#, #"{"a":null}"#, #"{"b":"c"}"#),
        (#"{"a":["b"]}"#, #"{"a":"c"}"#, #"{"a":"c"}"#),
        (#"{"a":"c"}"#, #"{"a":["b"]}"#, #"{"a":["b"]}"#),
        (#"{"a":{"b":"c"}}"#, #"{"a":{"b":"d","c":null}}"#, #"{"a":{"b":"d"}}"#),
        (#"{"a":[{"b":"c"}]}"#, #"{"a":[1]}"#, #"{"a":[1]}"#),
        (#"["a","b"]"#, #"["c","d"]"#, #"["c","d"]"#),
        (#"{"a":"b"}"#, #"["c"]"#, #"["c"]"#),
        (#"{"a":"foo"}"#, #"null"#, #"null"#),
        (#"{"a":"foo"}"#, #""bar""#, #""bar""#),
        (#"{"e":null}"#, #"{"a":1}"#, #"{"a":1,"e":null}"#),
        (#"[1,2]"#, #"{"a":"b","c":null}"#, #"{"a":"b"}"#),
        (#"{}"#, #"{"a":{"bb":{"ccc":null}}}"#, #"{"a":{"bb":{}}}"#),
    ])
    func `a merge patch follows RFC 7396`(
        original: String,
        patch: String,
        result: String
    ) throws {
        #expect(try encode(try decode(original).merging(decode(patch))) == result)
    }

    @Test(arguments: [9_007_199_254_740_993, Int64.max, Int64.min + 1, 0, -1])
    func `an integer is exact in a property list`(number: Int64) throws {
        let data = try PropertyListEncoder().encode(["n": number])
        let read = try PropertyListDecoder().decode(JSONValue.self, from: data)
        #expect(read == ["n": .integer(number)])
    }

    @Test func `strings and names are equal if their bytes are equal`() {
        let composed = "\u{E9}"
        let decomposed = "e\u{301}"
        #expect(JSONValue.string(composed) != .string(decomposed))
        #expect(JSONValue.object([composed: 1]) != .object([decomposed: 1]))
        #expect(JSONValue.array([.string(composed)]) != .array([.string(decomposed)]))
        #expect(JSONValue.object([composed: 1]) == .object([composed: 1]))
        #expect([composed: JSONValue.null].twin(of: decomposed) == composed)
        #expect([composed: JSONValue.null].twin(of: composed) == nil)
    }

    @Test func `a merge patch with a name that is only canonically equivalent is refused`() {
        let value = JSONValue.object(["a": .object(["\u{E9}": 1])])
        let refusal = #expect(throws: Refusal.self) {
            try value.merging(.object(["a": .object(["e\u{301}": 2])]))
        }
        #expect(refusal?.code == .invalidContent)
    }

    @Test(arguments: [
        ("0", JSONValue.integer(0)),
        ("-9223372036854775808", .integer(.min)),
        ("9223372036854775807", .integer(.max)),
        ("9007199254740993", .integer(9_007_199_254_740_993)),
        ("1.0", .integer(1)),
        ("1e3", .integer(1_000)),
        ("0.1", .number(0.1)),
        ("9223372036854776000", .number(9_223_372_036_854_775_808)),
        ("1.5e300", .number(1.5e300)),
        ("true", .bool(true)),
        ("null", .null),
        (#""1""#, .string("1")),
    ])
    func `only whole numbers of 64 bits are integers`(
        text: String,
        value: JSONValue
    ) throws {
        #expect(try decode(text) == value)
        #expect(try decode(encode(value)) == value)
    }

    @Test(arguments: ["1e999", "", "{", "[1", "nul", "{\"a\" 1}", "01", "'a'", "1 2"])
    func `text that is not JSON, or exceeds a double, is refused`(text: String) {
        #expect(throws: DecodingError.self) { try decode(text) }
    }

    @Test func `unlimited nesting is refused without a stack overflow`() {
        let depth = 100_000
        let text = String(repeating: "[", count: depth) + String(repeating: "]", count: depth)

        #expect(throws: DecodingError.self) { try decode(text) }
    }

    @Test(arguments: UInt64(1)...20)
    func `any value survives a round trip`(seed: UInt64) throws {
        var random = SplitMix64(seed: seed)
        for _ in 0..<50 {
            let value = Self.value(depth: 4, using: &random)
            #expect(try decode(encode(value)) == value)
        }
    }

    @Test func `members are found by name, and other values have no members`() {
        let value: JSONValue = ["name": "Ada", "age": 36, "admin": false]

        #expect(value["name"]?.string == "Ada")
        #expect(value["age"]?.integer == 36)
        #expect(value["age"]?.string == nil)
        #expect(value["admin"] == false)
        #expect(value["missing"] == nil)
        #expect(JSONValue.string("name")["name"] == nil)
    }

    private static func value(depth: Int, using random: inout SplitMix64) -> JSONValue {
        let texts = ["", "a", "\u{0}", "é", "e\u{301}", "👩‍👩‍👧", "\"\\/\n\u{2028}", "null"]
        switch Int.random(in: 0...(depth > 0 ? 6 : 4), using: &random) {
        case 0: return .null
        case 1: return .bool(.random(using: &random))
        case 2: return .integer(.random(in: .min ... .max, using: &random))
        case 3: return .number(.random(in: -1e6...1e6, using: &random) + 0.1)
        case 4: return .string(texts[.random(in: texts.indices, using: &random)])
        case 5:
            return .array(
                (0..<Int.random(in: 0...4, using: &random)).map { _ in
                    value(depth: depth - 1, using: &random)
                }
            )
        default:
            var members: [String: JSONValue] = [:]
            for index in 0..<Int.random(in: 0...4, using: &random) {
                members["m\(index)"] = value(depth: depth - 1, using: &random)
            }
            return .object(members)
        }
    }

    /// The path to the fault of a value that cannot be encoded, `nil` if it can.
    private func fault(_ value: some Encodable) -> (path: [String], text: String)? {
        do {
            _ = try JSONValue(encoding: value)
            return nil
        } catch EncodingError.invalidValue(_, let context) {
            return (context.codingPath.map(\.stringValue), context.debugDescription)
        } catch {
            return ([], "another error: \(error)")
        }
    }

    @Test(arguments: [
        String(repeating: "a", count: 1_025), "e" + String(repeating: "\u{301}", count: 31),
    ])
    func `a member name over the limit cannot be encoded, and the error names it`(name: String) {
        #expect(fault(["sizes": [name: 1]])?.path == ["sizes", name])
        let nested: JSONValue = ["sizes": .array([.object([name: 1])])]
        #expect(fault(nested)?.path == ["sizes", "Index 0", name])
        #expect(fault([name: 1])?.text.contains("at most 1024 bytes, and at most 30") == true)
        #expect(fault([String(name.unicodeScalars.prefix(31)): 1]) == nil)
    }

    @Test(arguments: [Double.nan, .infinity, -.infinity])
    func `a number that is not finite cannot be encoded`(number: Double) {
        let value: JSONValue = ["sizes": .array([1, .number(number)])]
        #expect(fault(value)?.path == ["sizes", "Index 1"])
        #expect(fault(["value": value]) != nil)
    }
}
