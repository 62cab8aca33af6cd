import Foundation
import SanguineAuthority
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

/// Values of any type are stored as they were sent.
///
/// `STORED=100000 swift test --filter StorageNumbersContractTests` tries more values, and `SEED=7`
/// different ones.
@Suite("Storage contract: values", .bounded(.seconds(3_600)))
struct StorageNumbersContractTests {
    private static let values = environmentNumber("STORED", or: 500)
    private static let seed = environmentNumber("SEED", or: UInt64(1))

    @Test(arguments: StorageDriver.allCases)
    func `a value of any shape is read as Foundation reads it`(
        driver: StorageDriver
    ) async throws {
        try await driver.withEmptyStorage { storage in
            for number in 0..<Self.values {
                let seed = Self.seed &+ UInt64(number) &* 0x9E37_79B9_7F4A_7C15
                var random = SplitMix64(seed: seed)
                let type = CodableShapes.type(&random, depth: 3)
                try await check(type, &random, storage, "\(type), SEED=\(seed)")
            }
        }
    }

    private func check<Value: CodableShape>(
        _ type: Value.Type,
        _ random: inout SplitMix64,
        _ storage: any Storage,
        _ what: String
    ) async throws {
        let value = Value.random(&random)
        let data = try JSONEncoder().encode(value)
        let expected = try? JSONDecoder().decode(Value.self, from: data)
        var row = RecordRow.sample("a", in: .numbered(1))
        row.value = JSONValue.object(["value": try JSONValue(encoding: value)]).encoded
        try await storage.store(.put(.record(row)))
        let loaded = try await storage.row(.record(row.name))
        guard case .record(let stored) = loaded else {
            Issue.record("No record: \(what)")
            return
        }
        let json = try #require(JSONValue(stored: stored.value)["value"])
        let read = try? json.decoded(as: Value.self)
        #expect(read == expected, "\(what)")
        #expect(json == (try JSONValue(encoding: value)), "\(what)")
    }

    /// In ascending order.
    private static let numbers = [
        "-1e300", "-18446744073709551616", "-9223372036854775809", "-9223372036854775808",
        "-9007199254740993.5", "-9007199254740993", "-1.00000000000000000001", "-1",
        "-0.99999999999999999999", "-0.1", "-1e-400", "0", "1e-400", "0.1",
        "0.1000000000000000055511151231257827", "0.99999999999999999999", "1",
        "1.00000000000000000001", "1.00000000000000000002", "1.5", "9007199254740992",
        "9007199254740992.5", "9007199254740993", "9007199254740993.25", "9223372036854775807",
        "9223372036854775807.5", "9223372036854775808", "18446744073709551615",
        "18446744073709551616", "1e300",
    ]

    @Test func `an index orders numbers by value, to the last digit`() throws {
        let keys = try Self.numbers.map { try #require(IndexKey(JSONValue(number: $0))) }
        #expect(keys == keys.sorted())
        #expect(Set(keys).count == keys.count)
        let same = [JSONValue(number: "1.0"), JSONValue(number: "10e-1"), .number(1)]
        #expect(Set(same.map { IndexKey($0)?.bytes }).count == 1)
        let long = try #require(JSONValue(number: "1." + String(repeating: "3", count: 600)))
        #expect(IndexKey(long) == nil)
    }

    @Test(arguments: StorageDriver.allCases)
    func `a record is found by all digits of a number`(driver: StorageDriver) async throws {
        try await driver.withEmptyStorage { storage in
            let list = IndexList("things", in: .numbered(1), by: "n")
            let keys = try ["18446744073709551615", "18446744073709551616"].map {
                try #require(IndexKey(JSONValue(number: $0)))
            }
            for (id, key) in zip(["a", "b"], keys) {
                let row = RecordRow.sample(id, in: .numbered(1))
                try await storage.store(
                    .put(.record(row)),
                    .index(IndexEntry(list, key, row.name.id))
                )
            }
            let key = keys[1]
            let read = Command(
                keys: [],
                reading: { _, reader throws(Problem) in
                    Decision(try? reader.ids(in: list, at: key, limit: 10))
                }
            )
            #expect(try await storage.perform(read).get()?.map(\.text) == ["b"])
        }
    }
}
