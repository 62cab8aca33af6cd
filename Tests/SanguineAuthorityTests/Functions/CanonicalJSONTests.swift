import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineAuthority

/// The examples of RFC 8785, and properties of any value.
@Suite("Canonical JSON", .bounded)
struct CanonicalJSONTests {
    private func value(_ text: String) throws -> JSONValue {
        try JSONParser.parse(Array(text.utf8), limits: .init(values: .max)).value
    }

    private func canonical(_ text: String) throws -> String {
        String(decoding: try value(text).canonical, as: UTF8.self)
    }

    /// The first number differs from the RFC: no double represents it, so it keeps its digits.
    @Test func `the example of section 3.2 is written as in the RFC`() throws {
        let source = """
            {
              "numbers": [333333333.3333333, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
              "string": "\\u20ac$\\u000F\\u000aA'\\u0042\\u0022\\u005c\\\\\\"\\/",
              "literals": [null, true, false]
            }
            """
        let expected =
            #"{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"#
            + #""string":"€$\u000f\nA'B\"\\\\\"/"}"#
        #expect(try canonical(source) == expected)
    }

    @Test func `members are ordered by their UTF-16 code units`() throws {
        // Section 3.2.3: the emoji's first unit is 0xD83D, less than 0xFB33.
        let source = """
            {
              "\\u20ac": "Euro Sign",
              "\\r": "Carriage Return",
              "\\ufb33": "Hebrew Letter Dalet With Dagesh",
              "1": "One",
              "\\ud83d\\ude00": "Emoji: Grinning Face",
              "\\u0080": "Control",
              "\\u00f6": "Latin Small Letter O With Diaeresis"
            }
            """
        let expected = [
            "Carriage Return", "One", "Control", "Latin Small Letter O With Diaeresis",
            "Euro Sign", "Emoji: Grinning Face", "Hebrew Letter Dalet With Dagesh",
        ]
        let text = try canonical(source)
        let places = expected.compactMap { text.range(of: "\"\($0)\"")?.lowerBound }
        #expect(places.count == expected.count)
        #expect(places == places.sorted())
    }

    /// Appendix B, without the values that are not JSON.
    private static let numbers: [(UInt64, String)] = [
        (0x0000_0000_0000_0000, "0"), (0x8000_0000_0000_0000, "0"),
        (0x0000_0000_0000_0001, "5e-324"), (0x8000_0000_0000_0001, "-5e-324"),
        (0x7fef_ffff_ffff_ffff, "1.7976931348623157e+308"),
        (0xffef_ffff_ffff_ffff, "-1.7976931348623157e+308"),
        (0x4340_0000_0000_0000, "9007199254740992"),
        (0xc340_0000_0000_0000, "-9007199254740992"),
        (0x4430_0000_0000_0000, "295147905179352830000"),
        (0x44b5_2d02_c7e1_4af5, "9.999999999999997e+22"),
        (0x44b5_2d02_c7e1_4af6, "1e+23"),
        (0x44b5_2d02_c7e1_4af7, "1.0000000000000001e+23"),
        (0x444b_1ae4_d6e2_ef4e, "999999999999999700000"),
        (0x444b_1ae4_d6e2_ef4f, "999999999999999900000"),
        (0x444b_1ae4_d6e2_ef50, "1e+21"),
        (0x3eb0_c6f7_a0b5_ed8c, "9.999999999999997e-7"),
        (0x3eb0_c6f7_a0b5_ed8d, "0.000001"),
        (0x41b3_de43_5555_5553, "333333333.3333332"),
        (0x41b3_de43_5555_5554, "333333333.33333325"),
        (0x41b3_de43_5555_5555, "333333333.3333333"),
        (0x41b3_de43_5555_5556, "333333333.3333334"),
        (0x41b3_de43_5555_5557, "333333333.33333343"),
        (0xbecb_f647_612f_3696, "-0.0000033333333333333333"),
        (0x4314_3ff3_c1cb_0959, "1424953923781206.2"),
    ]

    @Test(arguments: numbers)
    func `a number of appendix B is written as in ECMAScript`(
        bits: UInt64,
        text: String
    ) {
        let number = Double(bitPattern: bits)
        #expect(String(decoding: JSONValue.number(number).canonical, as: UTF8.self) == text)
    }

    @Test func `a number that no double represents keeps its digits`() throws {
        #expect(try canonical("9007199254740993") == "9007199254740993")
        #expect(try canonical("18446744073709551615") == "18446744073709551615")
        #expect(try canonical("333333333.33333329") == "333333333.33333329")
        #expect(
            try canonical("[1.00000000000000000001,100000000000000000001e-20]")
                == "[1.00000000000000000001,1.00000000000000000001]"
        )
        #expect(
            try canonical("[-9223372036854775808,9223372036854775807]")
                == "[-9223372036854775808,9223372036854775807]"
        )
    }

    @Test func `the same call in different formatting has one canonical form`() throws {
        let texts = [
            #"{"a":1,"b":{"c":"é","d":[1.0,100]}}"#, #"{"b":{"d":[1,1e2],"c":"\u00e9"},"a":1.0}"#,
            " { \"b\" : { \"c\" : \"\\u00E9\" , \"d\" : [ 1 , 100.0 ] } , \"a\" : 1 } ",
        ]
        #expect(Set(try texts.map { try canonical($0) }).count == 1)
        // Canonically equivalent strings differ, because a string is its bytes.
        #expect(try value(#""e\u0301""#).canonical != value(#""\u00e9""#).canonical)
    }

    @Test(arguments: 1...20)
    func `canonical text parses to the same value, and is written the same again`(
        seed: UInt64
    ) throws {
        var random = SplitMix64(seed: seed)
        for _ in 0..<500 {
            let value = JSONValue.any(&random)
            let bytes = value.canonical
            let read = try JSONParser.parse(bytes, limits: .init(values: .max)).value
            guard read == value, read.canonical == bytes else {
                Issue.record("\(String(decoding: bytes, as: UTF8.self)) is not \(value)")
                return
            }
        }
        #expect(random.next() != seed)
    }

    @Test(arguments: 1...10)
    func `the insertion order of members does not matter`(seed: UInt64) {
        var random = SplitMix64(seed: seed)
        let members = (0..<50).map { number in
            (JSONValue.anyText(&random) + "\(number)", JSONValue.any(&random))
        }
        let texts = (0..<10).map { _ in
            var object: [String: JSONValue] = [:]
            for (name, value) in members.shuffled(using: &random) { object[name] = value }
            return JSONValue.object(object).canonical
        }
        #expect(Set(texts).count == 1)
    }
}
