import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@Suite("Timestamp", .bounded)
struct TimestampTests {
    @Test(arguments: [
        (0, "1970-01-01T00:00:00.000Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
        (1_763_752_719_250, "2025-11-21T19:18:39.250Z"),
        (951_782_400_000, "2000-02-29T00:00:00.000Z"),
        (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
        (-2_203_891_200_000, "1900-03-01T00:00:00.000Z"),
        (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
        (-62_167_219_200_000, "0000-01-01T00:00:00.000Z"),
    ])
    func `a timestamp survives a round trip through RFC 3339`(milliseconds: Int64, text: String) {
        #expect(Timestamp(millisecondsSince1970: milliseconds).description == text)
        #expect(Timestamp(text)?.millisecondsSince1970 == milliseconds)
    }

    @Test(arguments: UInt64(1)...20)
    func `random timestamps match Foundation's text and survive a round trip`(seed: UInt64) {
        var random = SplitMix64(seed: seed)
        let foundation = Date.ISO8601FormatStyle(includingFractionalSeconds: true)
        // From the year 1600, because Foundation uses the Julian calendar before 1582.
        for _ in 0..<50 {
            let moment = Timestamp(
                millisecondsSince1970: .random(
                    in: -11_676_096_000_000...253_402_300_799_999,
                    using: &random
                )
            )
            // Almost half a millisecond is added, because Foundation truncates floating point
            // errors.
            let date = moment.date.addingTimeInterval(0.000_4)

            #expect(moment.description == foundation.format(date))
            #expect(Timestamp(moment.description) == moment)
            #expect(Timestamp(moment.date) == moment)
        }
    }

    @Test(arguments: [
        ("2026-11-21T19:18:39Z", "2026-11-21T19:18:39.000Z"),
        ("2026-11-21T19:18:39.2Z", "2026-11-21T19:18:39.200Z"),
        ("2026-11-21T19:18:39.2509Z", "2026-11-21T19:18:39.250Z"),
        ("2026-11-21T19:18:39.999999999Z", "2026-11-21T19:18:39.999Z"),
        ("2026-11-21T22:18:39.250+03:00", "2026-11-21T19:18:39.250Z"),
        ("2026-11-22T01:03:39+05:45", "2026-11-21T19:18:39.000Z"),
        ("2026-11-21T14:18:39-05:00", "2026-11-21T19:18:39.000Z"),
        ("2026-11-21T19:18:39-00:00", "2026-11-21T19:18:39.000Z"),
        ("2026-11-21t19:18:39z", "2026-11-21T19:18:39.000Z"),
        ("2026-12-31T23:59:60Z", "2027-01-01T00:00:00.000Z"),
        ("2024-02-29T12:00:00Z", "2024-02-29T12:00:00.000Z"),
    ])
    func `every form of RFC 3339 is parsed, and digits after the third are dropped`(
        text: String,
        moment: String
    ) {
        #expect(Timestamp(text)?.description == moment)
    }

    @Test(arguments: [
        "", "now", "2026-11-21", "2026-11-21T19:18Z", "2026-11-21T19:18:39",
        "2026-02-29T00:00:00Z", "1900-02-29T00:00:00Z", "2026-04-31T00:00:00Z",
        "2026-13-01T00:00:00Z", "2026-00-01T00:00:00Z", "2026-01-00T00:00:00Z",
        "2026-11-21T24:00:00Z", "2026-11-21T19:60:00Z", "2026-11-21T19:18:61Z",
        "2026-11-21T19:18:39.Z", "2026-11-21T19:18:39.2.5Z", "2026-11-21T19:18:39,25Z",
        "2026-11-21T19:18:39+0300", "2026-11-21T19:18:39+24:00", "2026-11-21T19:18:39+03:60",
        "2026-11-21T19:18:39Z ", " 2026-11-21T19:18:39Z", "2026-11-21T19:18:39ZZ",
        "2026-1-1T1:1:1Z", "+026-11-21T19:18:39Z", "2026-11-21T+9:18:39Z", "12026-11-21T19:18:39Z",
        "9999-12-31T23:59:59-00:01", "0000-01-01T00:00:00+00:01",
        "２０２６-11-21T19:18:39Z", "2026-11-21T19:18:39Z\u{301}",
    ])
    func `text that is not a timestamp is refused`(text: String) {
        #expect(Timestamp(text) == nil)
        #expect(throws: DecodingError.self) {
            try JSONDecoder().decode([Timestamp].self, from: JSONEncoder().encode([text]))
        }
    }

    @Test func `a date is rounded down to the millisecond, even before 1970`() {
        #expect(Timestamp(Date(timeIntervalSince1970: 0.000_8)).millisecondsSince1970 == 0)
        #expect(Timestamp(Date(timeIntervalSince1970: -0.000_2)).millisecondsSince1970 == -1)
        #expect(Timestamp(Date(timeIntervalSince1970: 1.999_8)).millisecondsSince1970 == 1_999)
    }

    @Test(arguments: [
        (Int64.max, "9999-12-31T23:59:59.999Z"), (253_402_300_800_000, "9999-12-31T23:59:59.999Z"),
        (.min, "0000-01-01T00:00:00.000Z"), (-62_167_219_200_001, "0000-01-01T00:00:00.000Z"),
    ])
    func `a timestamp outside the range of RFC 3339 becomes the closest one inside`(
        milliseconds: Int64,
        text: String
    ) throws {
        let moment = Timestamp(millisecondsSince1970: milliseconds)

        #expect(moment.description == text)
        #expect(Timestamp(text) == moment)
        #expect(
            try JSONDecoder().decode([Timestamp].self, from: JSONEncoder().encode([moment]))
                == [moment]
        )
    }

    @Test func `dates and durations never exceed the first and the last timestamp`() {
        let first = Timestamp(millisecondsSince1970: .min)
        let last = Timestamp(millisecondsSince1970: .max)

        #expect(Timestamp(Date(timeIntervalSince1970: 1e300)) == last)
        #expect(Timestamp(Date(timeIntervalSince1970: -.infinity)) == first)
        #expect(Timestamp(Date(timeIntervalSince1970: .nan)) == last)
        #expect(last + .seconds(1) == last && last - .seconds(-1) == last)
        #expect(first - .milliseconds(Int64.max) == first)
        #expect(first + .milliseconds(Int64.min) == first)
    }

    @Test func `durations are added and subtracted exactly`() {
        let moment = Timestamp(millisecondsSince1970: 1_000)

        #expect((moment + .milliseconds(-1_500)).millisecondsSince1970 == -500)
        #expect((moment - .seconds(60 * 86_400)).millisecondsSince1970 == 1_000 - 5_184_000_000)
        #expect(moment - (moment + .seconds(3)) == .seconds(-3))
    }

    @Test(arguments: [(0, 0), (1, 1), (999, 1), (1_000, 1), (1_001, 2), (-1, 0), (-1_000, -1)])
    func `a wait is rounded up to whole seconds`(milliseconds: Int, seconds: Int) {
        #expect(Duration.milliseconds(milliseconds).secondsRoundedUp == seconds)
    }
}
