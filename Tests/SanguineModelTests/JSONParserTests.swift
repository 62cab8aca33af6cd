import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@Suite("Untrusted JSON", .bounded)
struct JSONParserTests {
    private func parse(_ text: String, _ limits: JSONParser.Limits = .init()) throws -> JSONValue {
        try JSONParser.parse(Array(text.utf8), limits: limits).value
    }

    private static let texts: [(String, JSONValue)] = [
        ("null", .null), (" true\n", true), ("false", false), ("-0", 0), ("12", 12),
        ("-12", -12), ("-999999999999999999", -999_999_999_999_999_999),
        ("9223372036854775807", 9_223_372_036_854_775_807), ("1.0", 1), ("1e2", 100),
        ("120e-1", 12), ("0.0e5", 0), ("1.5", .number(1.5)),
        ("9223372036854775807.0", 9_223_372_036_854_775_807),
        ("1.5e300", .number(1.5e300)), ("19.99", .number(19.99)),
        (#""a\"\\\/\b\f\n\r\t""#, "a\"\\/\u{8}\u{c}\n\r\t"),
        (#""\u00e9\ud83d\ude00é""#, "é😀é"), ("[]", .array([])), ("{}", [:]),
        (#"{"a":[1,{"b":null}]}"#, ["a": .array([1, ["b": .null]])]),
    ]

    @Test(arguments: texts)
    func `a text is parsed according to RFC 8259`(text: String, value: JSONValue) throws {
        #expect(try parse(text) == value)
    }

    @Test(arguments: [
        "", " ", "{", "[1,]", #"{"a":1,}"#, "[1 2]", #"{"a" 1}"#, "{a:1}", "01", "1.", ".5", "+1",
        "1e", "--1", "nul", "truee", "'a'", "\"a", "\"\n\"", #""\x""#, #""\u12g4""#, #""\ud800""#,
        #""\ud800\u0041""#, "[1]]", "1 2", "\u{feff}1", "NaN", "Infinity", "// a\n1", "{\"a\":1}{",
    ])
    func `text that is not JSON is refused`(text: String) {
        #expect {
            try parse(text)
        } throws: { error in
            guard case .malformed? = error as? JSONParser.Fault else { return false }
            return true
        }
    }

    @Test(
        arguments: [
            [0x22, 0xE9, 0x22], [0x22, 0xC0, 0x80, 0x22], [0x22, 0xED, 0xA0, 0x80, 0x22],
            [0xFF, 0xFE, 0x31, 0x00], [0x22, 0xF4, 0x90, 0x80, 0x80, 0x22],
        ] as [[UInt8]]
    )
    func `bytes that are not UTF-8 are refused`(bytes: [UInt8]) {
        #expect(throws: JSONParser.Fault.self) { try JSONParser.parse(bytes) }
    }

    @Test(arguments: [
        (#"{"a":1}"#, "1"), (#" { "b" : "a" , "a" : [1, {"a":2}] , "c":3"#, "[1, {\"a\":2}]"),
        (#"{"b":{"a":1},"\u0061":"x\"}"}"#, #""x\"}""#), (#"{"b":[{}],"a":-1.5e2 }"#, "-1.5e2"),
    ])
    func `the range of a member's value is found`(text: String, value: String) throws {
        let bytes = Array(text.utf8)
        let range = try #require(JSONParser.range(of: "a", in: bytes))
        #expect(String(decoding: bytes[range], as: UTF8.self) == value)
    }

    @Test(arguments: ["", "[]", "{}", #""a""#, #"{"b":{"a":1}}"#, #"{"a"}"#, #"{"b":nul,"a":1}"#])
    func `the range of a missing member is not found`(text: String) {
        #expect(JSONParser.range(of: "a", in: Array(text.utf8)) == nil)
    }

    @Test func `members with equal or canonically equivalent names are refused`() {
        #expect(throws: JSONParser.Fault.sameName("a")) { try parse(#"{"a":1,"b":2,"a":1}"#) }
        #expect(throws: JSONParser.Fault.sameName("é")) {
            try parse("{\"\u{e9}\":1,\"e\u{301}\":2}")
        }
        #expect(throws: JSONParser.Fault.sameName("a")) { try parse(##"{"a":1,"\u0061":2}"##) }
    }

    @Test func `a number outside the range of a double is refused`() {
        #expect(throws: JSONParser.Fault.numberTooLarge("1e400")) { try parse("[1e400]") }
    }

    @Test func `values may nest up to the limit`() throws {
        let limits = JSONParser.Limits(nesting: 3)
        #expect(throws: Never.self) { try parse("[[[1]]]", limits) }
        #expect(throws: JSONParser.Fault.overLimit) { try parse("[[[[1]]]]", limits) }
        let deep = String(repeating: "[", count: 1 << 20)
        #expect(throws: JSONParser.Fault.overLimit) { try parse(deep) }
    }

    @Test func `values and names count towards the limit`() throws {
        let limits = JSONParser.Limits(values: 5)
        #expect(throws: Never.self) { try parse(#"{"a":1,"b":2}"#, limits) }
        #expect(throws: JSONParser.Fault.overLimit) { try parse(#"{"a":1,"b":[2]}"#, limits) }
    }

    @Test func `an element over a limit is reported, and others are complete`() throws {
        let deep = String(repeating: "[", count: 40) + String(repeating: "]", count: 40)
        let many = "[" + String(repeating: "0,", count: 3_000) + "0]"
        let text = """
            {"device":"d","operations":[{"id":"a","arguments":{"x":1}},\
            {"arguments":{"deep":\(deep)},"id":"b"},{"arguments":\(many),"id":"c"},\
            {"id":"d","arguments":{"y":[2]}}]}
            """
        let limits = JSONParser.Limits(unit: "operations")
        let document = try JSONParser.parse(Array(text.utf8), limits: limits)
        #expect(document.overLimit == [1, 2])
        let operations = try #require(document.value["operations"]).decoded(as: [JSONValue].self)
        #expect(operations.map { $0["id"] } == ["a", "b", "c", "d"])
        #expect(operations[0]["arguments"] == ["x": 1])
        #expect(operations[3]["arguments"] == ["y": .array([2])])
    }

    @Test func `a skipped container must still be closed`() {
        let deep = String(repeating: "[", count: 40)
        let limits = JSONParser.Limits(unit: "operations")
        #expect(throws: JSONParser.Fault.self) {
            try parse(#"{"operations":[{"a":\#(deep)}]}"#, limits)
        }
    }

    @Test(arguments: 1...200 as ClosedRange<UInt64>)
    func `JSON written by Foundation is parsed to the same value`(seed: UInt64) throws {
        var random = SplitMix64(seed: seed)
        let value = Self.value(&random, depth: 0)
        let data = try JSONEncoder().encode([value])
        let parsed = try JSONParser.parse(Array(data), limits: .init(values: .max)).value
        #expect(parsed == .array([value]), "seed \(seed)")
        #expect(try parsed.decoded(as: [JSONValue].self) == [value], "seed \(seed)")
    }

    @Test(arguments: 1...2_000 as ClosedRange<UInt64>)
    func `arbitrary bytes are either parsed as JSON or refused`(
        seed: UInt64
    ) throws {
        var random = SplitMix64(seed: seed)
        var bytes = Array(
            #"{"operations":[{"a":[1.5e3,-0,"\u00e9\ud83d\ude00"],"b":{"c":null,"d":true}}]}"#.utf8
        )
        for _ in 0..<Int.random(in: 1...4, using: &random) {
            let place = Int.random(in: bytes.indices, using: &random)
            switch Int.random(in: 0..<3, using: &random) {
            case 0: bytes[place] = UInt8.random(in: 0...255, using: &random)
            case 1: bytes.remove(at: place)
            default: bytes.insert(bytes.randomElement(using: &random) ?? 0, at: place)
            }
        }
        guard let value = try? JSONParser.parse(bytes, limits: .init(unit: "operations")).value
        else { return }
        let other = try? JSONDecoder().decode(JSONValue.self, from: Data(bytes))
        // Foundation's decoder rounds numbers to 38 digits, and accepts none below 1e-128.
        guard !value.hasLongNumber else { return }
        #expect(other == value, "seed \(seed): \(String(decoding: bytes, as: UTF8.self))")
    }

    private static func value(_ random: inout SplitMix64, depth: Int) -> JSONValue {
        switch Int.random(in: 0..<(depth < 4 ? 8 : 6), using: &random) {
        case 0: return .null
        case 1: return .bool(Bool.random(using: &random))
        case 2: return .integer(Int64.random(in: .min ... .max, using: &random))
        case 3: return .number(Double(Int.random(in: 0..<1_000, using: &random)) + 0.25)
        case 4, 5: return .string(text(&random))
        case 6:
            return .array(
                (0..<Int.random(in: 0..<4, using: &random)).map { _ in
                    value(&random, depth: depth + 1)
                }
            )
        default:
            var members: [String: JSONValue] = [:]
            for _ in 0..<Int.random(in: 0..<4, using: &random) {
                members[text(&random)] = value(&random, depth: depth + 1)
            }
            return .object(members)
        }
    }

    private static func text(_ random: inout SplitMix64) -> String {
        let letters = Array("ab\"\\/\n\t\u{1}é😀\u{7f}\u{2028}")
        return String(
            (0..<Int.random(in: 0..<6, using: &random)).map { _ in
                letters[Int.random(in: letters.indices, using: &random)]
            }
        )
    }

    @Test func `elements over the unit's count are skipped`() throws {
        let deep = String(repeating: "[", count: 5_000) + String(repeating: "]", count: 5_000)
        let text = #"{"operations":[{"a":1},2,{"b":\#(deep)},"c",[3]],"d":4}"#
        let limits = JSONParser.Limits(unit: "operations", units: 2)
        let document = try JSONParser.parse(Array(text.utf8), limits: limits)
        #expect(
            document.value
                == ["operations": .array([["a": 1], 2, .null, .null, .null]), "d": 4]
        )
        #expect(document.overLimit.isEmpty)
    }

    @Test(arguments: [
        "1e-9223372036854775808", "1e9223372036854775807", "-1.0e-9223372036854775808",
        "0e-9223372036854775808", "1e-99999999999999999999", "0e99999999999999999999",
    ])
    func `a number with any exponent is parsed or refused`(text: String) {
        guard let value = try? parse(text) else { return }
        switch value {
        case .integer(let integer): #expect(integer == 0)
        case .number(let number): #expect(number == 0)
        case .decimal(let decimal): #expect(Double(decimal.description) == 0)
        default: Issue.record("\(text) is no number but \(value)")
        }
    }
}

extension JSONValue {
    /// Whether it contains a number that is stored as digits.
    fileprivate var hasLongNumber: Bool {
        switch self {
        case .decimal: true
        case .array(let elements): elements.contains(where: \.hasLongNumber)
        case .object(let members): members.values.contains(where: \.hasLongNumber)
        default: false
        }
    }
}
