import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

/// Compares our coders with Foundation's, for random types and values.
///
/// `VALUES=1000000 swift test --filter CodableShapeTests` tries more of them, `SEED=7` others.
@Suite("Codable shapes", .bounded(.seconds(3_600)))
struct CodableShapeTests {
    private static let values = environmentNumber("VALUES", or: 4_000)
    private static let seed = environmentNumber("SEED", or: UInt64(1))
    /// The number of values of each type.
    private static let each = 10

    @Test(arguments: 0..<8)
    func `a value survives our coders exactly as it survives Foundation's`(part: Int) throws {
        let types = Self.values / Self.each / 8
        for number in 0..<types {
            let seed = Self.seed &+ UInt64(part * types + number) &* 0x9E37_79B9_7F4A_7C15
            var random = SplitMix64(seed: seed)
            let type = CodableShapes.type(&random, depth: 4)
            for _ in 0..<Self.each { try check(type, &random, "\(type), SEED=\(seed)") }
        }
    }

    /// The result of Foundation's coders for a value, `nil` if they refuse it.
    private struct Expected<Value: CodableShape> {
        let data: Data
        let value: Value?
        let bytes: Data?

        init(_ value: Value) throws {
            data = try CodableShapeTests.encoded(value)
            self.value = try? JSONDecoder().decode(Value.self, from: data)
            // Equal values may differ in bytes, such as 0 and -0.
            bytes = try self.value.map { try CodableShapeTests.encoded($0) }
        }
    }

    private static func encoded(_ value: some Encodable) throws -> Data {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        return try encoder.encode(value)
    }

    private func check<Value: CodableShape>(
        _ type: Value.Type,
        _ random: inout SplitMix64,
        _ what: String
    ) throws {
        let value = Value.random(&random)
        let expected = try Expected(value)
        let json = try JSONValue(encoding: value)
        try expect(json, expected, "model: \(what)")
        let parsed = try JSONParser.parse(Array(expected.data), limits: .stored).value
        #expect(parsed == json, "wire: \(what)")
        let read = try JSONParser.parse(json.encoded, limits: .stored).value
        try expect(read, expected, "written: \(what)")
        let decoded = try JSONDecoder().decode(JSONValue.self, from: expected.data)
        try expect(decoded, expected, "Foundation's decoder: \(what)")
        let again = try JSONDecoder().decode(JSONValue.self, from: JSONEncoder().encode(json))
        #expect(again == json && again.hashValue == json.hashValue, "again: \(what)")
        let own = try? JSONDecoder().decode(Value.self, from: Data(json.encoded))
        #expect(own == expected.value, "our text: \(what)")
    }

    private func expect<Value: CodableShape>(
        _ json: JSONValue,
        _ expected: Expected<Value>,
        _ what: String
    ) throws {
        let value = try? json.decoded(as: Value.self)
        let isSame = value == expected.value
        #expect(isSame, "\(what): \(String(decoding: expected.data.prefix(300), as: UTF8.self))")
        // This type of dictionary is encoded as an array in random order.
        guard let value, !"\(Value.self)".contains("Dictionary<UUID") else { return }
        let bytes = try Self.encoded(value)
        #expect(bytes == expected.bytes, "the bytes of \(what)")
    }
}
