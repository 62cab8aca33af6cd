import Foundation
import TestSupport
import Testing

@testable import AlmanacSky

/// The data of a birth: what is refused, the moment and the key.
@Suite("Birth data", .bounded)
struct BirthDataTests {
    private static func birth(
        _ date: String = "1990-05-17",
        _ time: String = "14:35",
        _ zone: String = "Europe/Istanbul",
        _ latitude: Double = 41.0082,
        _ longitude: Double = 28.9784,
        isSecond: Bool = false
    ) throws(SkyError) -> BirthData {
        try BirthData(
            date: date,
            time: time,
            zone: zone,
            latitude: latitude,
            longitude: longitude,
            isSecond: isSecond
        )
    }

    @Test func `a time on clocks becomes universal time by the rules of its zone and year`() throws
    {
        for (date, time, zone, utc) in References.times {
            let birth = try Self.birth(date, time, zone)
            #expect(birth.moment.description == utc, "\(date) \(time) \(zone)")
        }
    }

    @Test(arguments: ["2023-02-29", "1899-12-31", "2051-01-01", "1990-5-17", "1990-13-01", "", "x"])
    func `a date that does not exist is refused`(_ date: String) {
        #expect(throws: SkyError.date(date)) { try Self.birth(date) }
    }

    @Test(arguments: ["24:00", "12:60", "9:00", "12", "-1:00", "12:00:00"])
    func `a time that does not exist is refused`(_ time: String) {
        #expect(throws: SkyError.time(time)) { try Self.birth("1990-05-17", time) }
    }

    @Test(arguments: ["Mars/Olympus", "", "CET", "GMT+3", "+03:00"])
    func `a zone without a place is refused`(_ zone: String) {
        #expect(throws: SkyError.zone(zone)) { try Self.birth("1990-05-17", "14:35", zone) }
    }

    @Test(arguments: [90.1, -91, .infinity])
    func `a latitude that does not exist is refused`(_ latitude: Double) {
        #expect(throws: SkyError.latitude(latitude)) {
            try Self.birth("1990-05-17", "14:35", "UTC", latitude)
        }
    }

    @Test func `coordinates that are no numbers are refused`() {
        #expect(throws: SkyError.self) { try Self.birth("1990-05-17", "14:35", "UTC", .nan) }
        #expect(throws: SkyError.self) { try Self.birth("1990-05-17", "14:35", "UTC", 0, .nan) }
        #expect(throws: SkyError.longitude(180.5)) {
            try Self.birth("1990-05-17", "14:35", "UTC", 0, 180.5)
        }
    }

    @Test func `a time that clocks skipped is refused`() {
        #expect(throws: SkyError.skippedTime("2021-03-28 02:30")) {
            try Self.birth("2021-03-28", "02:30", "Europe/Berlin")
        }
    }

    @Test func `of two equal times the first is taken, or the second on request`() throws {
        let first = try Self.birth("2021-10-31", "02:30", "Europe/Berlin")
        let second = try Self.birth("2021-10-31", "02:30", "Europe/Berlin", isSecond: true)
        #expect(first.moment.description == "2021-10-31T00:30:00Z")
        #expect(second.moment.description == "2021-10-31T01:30:00Z")
        #expect(first.key != second.key)
        // No other time has a second one.
        #expect(try Self.birth() == Self.birth(isSecond: true))
    }

    @Test func `the key is the same forever`() throws {
        let birth = try Self.birth()
        #expect(
            birth.canonical == "birth 1 1990-05-17 14:35 Europe/Istanbul 410082 289784 1"
        )
        // printf '%s' "$canonical" | sha256sum
        #expect(birth.key == "78b423a9c8fc9124626758b4e4c28dcf6a59061a96b7e0c3c0be647efd8d5166")
    }

    @Test func `equal data has the same key, and other data another one`() throws {
        let birth = try Self.birth()
        #expect(try Self.birth("1990-05-17", "14:35", "Europe/Istanbul", 41.00821).key == birth.key)
        #expect(
            try Self.birth("1990-05-17", "14:35", "UTC", -0.00001, 0).key
                == Self.birth("1990-05-17", "14:35", "UTC", 0, -0.00001).key
        )
        let others = [
            try Self.birth("1990-05-18"), try Self.birth("1990-05-17", "14:36"),
            try Self.birth("1990-05-17", "14:35", "Europe/Athens"),
            try Self.birth("1990-05-17", "14:35", "Europe/Istanbul", 41.0083),
            try Self.birth("1990-05-17", "14:35", "Europe/Istanbul", 41.0082, 28.9785),
        ]
        #expect(Set((others + [birth]).map(\.key)).count == 6)
    }

    @Test func `data is checked when it is decoded, too`() throws {
        let birth = try Self.birth()
        let json = try JSONEncoder().encode(birth)
        let decoded = try JSONDecoder().decode(BirthData.self, from: json)
        #expect(decoded == birth && decoded.key == birth.key)
        let text = String(decoding: json, as: UTF8.self)
        let wrong = text.replacing("1990-05-17", with: "1990-02-30")
        let error = #expect(throws: DecodingError.self) {
            try JSONDecoder().decode(
                [String: BirthData].self,
                from: Data("{\"birth\":\(wrong)}".utf8)
            )
        }
        guard case .dataCorrupted(let context) = error else {
            Issue.record("\(error as Any)")
            return
        }
        #expect(context.codingPath.map(\.stringValue) == ["birth"])
        #expect(context.debugDescription == SkyError.date("1990-02-30").description)
    }

    @Test func `every refusal says what to do`() {
        let refusals: [SkyError] = [
            .date("x"), .time("x"), .skippedTime("x"), .zone("x"), .latitude(91), .longitude(181),
            .polarLatitude(80), .year(1800),
        ]
        for refusal in refusals {
            let sentences = refusal.description.split(separator: ". ")
            #expect(sentences.count == 2 && refusal.description.hasSuffix("."), "\(refusal)")
        }
    }

    /// The examples of FIPS 180-4, and lengths around a block's end.
    @Test func `the hash is SHA-256`() {
        #expect(SHA256.hexadecimal(of: Array("abc".utf8)).hasPrefix("ba7816bf8f01cfea414140de"))
        #expect(SHA256.hexadecimal(of: []).hasSuffix("a495991b7852b855"))
        let two = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"
        #expect(SHA256.hexadecimal(of: Array(two.utf8)).hasPrefix("248d6a61d20638b8e5c02693"))
        let lengths = [55, 56, 63, 64, 65].map {
            String(SHA256.hexadecimal(of: [UInt8](repeating: 97, count: $0)).prefix(8))
        }
        #expect(lengths == ["9f4390f8", "b35439a4", "7d3e74a0", "ffe054fe", "635361c4"])
    }
}
