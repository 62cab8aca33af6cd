import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

/// Numbers keep all of their digits.
@Suite("JSON numbers", .bounded)
struct JSONNumberTests {
    private func parse(_ text: String) throws -> JSONValue {
        try JSONParser.parse(Array(text.utf8)).value
    }

    private func text(_ value: JSONValue) -> String {
        String(decoding: value.encoded, as: UTF8.self)
    }

    @Test(arguments: [
        "19.99", "-19.99", "18446744073709551615", "18446744073709551616", "-0", "0", "1e+300",
        "9223372036854775808", "-9223372036854775809", "340282366920938463463374607431768211455",
        "0.1234567890123456789012345678901234567890123", "1.00000000000000000001", "5e-324",
        "1e-400", "333333333.33333329", "0.30000000000000004", "123456789012345678.5",
        "1.2345678901234567890123456789012345678901234567e+300",
    ])
    func `a number is written with the same digits that were read`(number: String) throws {
        let value = try parse(number)
        #expect(text(value) == number)
        #expect(JSONValue(number: number) == value)
        #expect(try JSONValue(encoding: value) == value)
    }

    @Test(arguments: [
        ("1", "1.0"), ("1", "10e-1"), ("100", "1E2"), ("-0", "0"), ("0.0", "-0.0e5"),
        ("18446744073709551615", "1844674407370955161.5e1"), ("1e22", "10000000000000000000000"),
        ("1.00000000000000000001", "100000000000000000001e-20"),
    ])
    func `numbers are equal regardless of their notation`(first: String, second: String) throws {
        let (first, second) = (try parse(first), try parse(second))
        #expect(first == second)
        #expect(first.hashValue == second.hashValue)
    }

    @Test func `a double created in code equals the integer that it is written as`() throws {
        for number in [0, -0.0, 1, -5, 1e15, 0x1p53, 0x1p60, -0x1p63, 0x1p63, 1e300] {
            let value = JSONValue.number(number)
            let read = try parse(text(value))
            #expect(value == read && value.hashValue == read.hashValue, "\(number)")
        }
        #expect(JSONValue.number(1.5) != 1)
        #expect(JSONValue.integer(1 << 60) != .number(0x1p60))
    }

    @Test(arguments: ["9223372036854775808", "1.00000000000000000001", "18446744073709551616"])
    func `numbers with the same closest double are distinct`(number: String) throws {
        let double = try #require(Double(number))
        #expect(try parse(number) != .number(double))
    }

    @Test func `nil elements of a collection stay nil, and others keep their values`() throws {
        let numbers = try JSONValue(encoding: [1, nil, 3] as [Int?]).decoded(as: [Int?].self)
        #expect(numbers == [1, nil, 3])
        let named = try JSONValue(encoding: ["a": 1, "b": nil] as [String: Int?])
            .decoded(as: [String: Int?].self)
        #expect(named == ["a": 1, "b": nil])
        let nested = try JSONValue(encoding: [[nil, 1.5], nil] as [[Decimal?]?])
            .decoded(as: [[Decimal?]?].self)
        #expect(nested == [[nil, 1.5], nil])
        let optional = try JSONValue(encoding: Optional(5)).decoded(as: Int?.self)
        #expect(optional == 5)
    }

    @Test func `decimals, large integers and the sign of zero survive`() throws {
        let price = try #require(Decimal(string: "19.99"))
        #expect(try JSONValue(encoding: price).decoded(as: Decimal.self) == price)
        let pi = try #require(Decimal(string: "3.1415926535897932384626433832795028841"))
        #expect(try JSONValue(encoding: [pi]).decoded(as: [Decimal].self) == [pi])
        #expect(try JSONValue(encoding: UInt64.max).decoded(as: UInt64.self) == .max)
        #expect(try JSONValue(encoding: Int128.min).decoded(as: Int128.self) == .min)
        #expect(try JSONValue(encoding: UInt128.max).decoded(as: UInt128.self) == .max)
        #expect(try JSONValue(encoding: -0.0).decoded(as: Double.self).sign == .minus)
        #expect(
            try JSONValue(encoding: [-0.0 as Float]).decoded(as: [Float].self)[0].sign == .minus
        )
    }

    /// The result of Foundation's decoder for the same text, if any.
    private func foundation<Value: Decodable>(_ text: String, _ type: Value.Type) -> Value? {
        try? JSONDecoder().decode(type, from: Data(text.utf8))
    }

    private func check<Value: Decodable & Equatable>(_ text: String, _ type: Value.Type) {
        let expected = foundation(text, type)
        let ours = try? parse(text).decoded(as: type)
        #expect(ours == expected, "\(text) as \(type)")
    }

    @Test(arguments: [
        "0", "-0", "-0.0", "1.0", "1e2", "1.5", "-1", "255", "256", "128", "65536", "3e9",
        "18446744073709551615", "18446744073709551616", "12345678901234567000", "1e19",
        "9007199254740993.0", "340282366920938463463374607431768211455", "1e200", "1e-200",
        "0.1", "5e-324", "1e-45", "1e-46",
        "0.1234567890123456789012345678901234567890123", "1.7976931348623157e308", "1e128",
        "1e-128",
    ])
    func `a number is decoded like Foundation decodes its text`(number: String) {
        check(number, Int.self)
        check(number, Int8.self)
        check(number, Int32.self)
        check(number, UInt8.self)
        check(number, UInt64.self)
        check(number, Int128.self)
        check(number, UInt128.self)
        check(number, Double.self)
        check(number, Float.self)
        check(number, Decimal.self)
    }

    @Test(arguments: ["1.00000000000000000001", "16777217.00000000000001", "1e-400"])
    func `a number with a fraction of any size is not an integer`(number: String) throws {
        #expect(throws: DecodingError.self) { try parse(number).decoded(as: Int.self) }
        #expect(throws: DecodingError.self) { try parse(number).decoded(as: UInt128.self) }
    }

    @Test func `Foundation's decoder preserves the digits that a Decimal holds`() throws {
        for number in ["19.99", "18446744073709551615", "1.00000000000000000001", "-0", "1e300"] {
            let read = try JSONDecoder().decode(JSONValue.self, from: Data(number.utf8))
            #expect(text(read) == text(try parse(number)))
            let written = try JSONEncoder().encode(read)
            #expect(try parse(String(decoding: written, as: UTF8.self)) == read)
        }
    }

    @Test(arguments: [
        ("19.99", 1, "20.99"), ("0.1", -1, "-0.9"), ("-0", 5, "5"), ("2.5", 7, "9.5"),
        ("18446744073709551615", 1, "18446744073709551616"), ("1e300", 1, "1e+300"),
        ("9223372036854775808", -1, "9223372036854775807"), ("1.00000000000000000001", -1, "1e-20"),
    ])
    func `adding to a number keeps its digits`(
        number: String,
        amount: Int64,
        sum: String
    ) throws {
        var records = try Self.records(["n": parse(number)])
        records.increment(Self.key, "n", by: amount)
        #expect(records.failure == nil)
        #expect(records.value(Self.key)?["n"].map(text) == sum)
    }

    @Test func `a sum with too many digits is refused with an explanation`() throws {
        var records = try Self.records(["n": parse("0.1234567890123456789012345678901234567")])
        records.increment(Self.key, "n", by: .max)
        #expect(records.failure?.detail == "Keep 'n' within 38 digits.")
    }

    private static let id = Identifier(at: Timestamp(millisecondsSince1970: 0))
    private static let key = RecordKey("notes", RecordID(id))

    private static func records(_ fields: RecordFields) -> Records {
        var records = Records(
            from: EmptySource(),
            schema: .standard,
            operation: OperationContext(id: Self.id)
        )
        records.put(RecordValue(fields), for: key)
        return records
    }
}
