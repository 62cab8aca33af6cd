import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@Suite("Calendar day", .bounded)
struct CalendarDayTests {
    private func zone(_ name: String) throws -> TimeZone {
        try #require(TimeZone(identifier: name))
    }

    private func day(_ text: String) throws -> CalendarDay { try #require(CalendarDay(text)) }

    @Test(arguments: [
        ("Europe/Berlin", "2026-03-29", 23), ("Europe/Berlin", "2026-10-25", 25),
        ("America/New_York", "2026-03-08", 23), ("America/New_York", "2026-11-01", 25),
        ("Australia/Lord_Howe", "2026-04-05", 24), ("Europe/Istanbul", "2026-03-29", 24),
        // Midnight itself was skipped, or occurred twice.
        ("America/Sao_Paulo", "2018-11-04", 23), ("America/Sao_Paulo", "2018-02-17", 25),
        ("Asia/Beirut", "2022-03-27", 23), ("America/Havana", "2023-11-05", 25),
    ])
    func `a day is as long as its zone's clocks make it`(
        name: String,
        text: String,
        hours: Int
    ) throws {
        let zone = try zone(name)
        let day = try day(text)
        let length = day.next.start(in: zone) - day.start(in: zone)

        #expect(Int(length / .seconds(3_600)) == hours)
    }

    @Test(arguments: [
        ("America/Sao_Paulo", "2018-11-04", "2018-11-04T03:00:00.000Z"),
        ("Asia/Beirut", "2022-03-27", "2022-03-26T22:00:00.000Z"),
        ("America/Havana", "2023-11-05", "2023-11-05T04:00:00.000Z"),
        ("America/Sao_Paulo", "2018-02-18", "2018-02-18T03:00:00.000Z"),
        ("Pacific/Kiritimati", "2026-11-21", "2026-11-20T10:00:00.000Z"),
        ("Pacific/Pago_Pago", "2026-11-21", "2026-11-21T11:00:00.000Z"),
    ])
    func `a day starts at the first moment that its zone's clocks show it`(
        name: String,
        text: String,
        start: String
    ) throws {
        #expect(try day(text).start(in: zone(name)).description == start)
    }

    @Test func `a day that a zone skipped starts where the next one does`() throws {
        let apia = try zone("Pacific/Apia")
        let skipped = try day("2011-12-30")

        #expect(skipped.start(in: apia) == skipped.next.start(in: apia))
        #expect(skipped.start(in: apia).description == "2011-12-30T10:00:00.000Z")
        #expect(CalendarDay(containing: skipped.start(in: apia), in: apia) == skipped.next)
    }

    @Test func `three different days exist on earth at the same time`() throws {
        let moment = try #require(Timestamp("2026-11-21T10:30:00Z"))

        #expect(
            CalendarDay(containing: moment, in: try zone("Pacific/Pago_Pago")).description
                == "2026-11-20"
        )
        #expect(CalendarDay(containing: moment, in: .gmt).description == "2026-11-21")
        #expect(
            CalendarDay(containing: moment, in: try zone("Pacific/Kiritimati")).description
                == "2026-11-22"
        )
    }

    @Test(arguments: UInt64(1)...5)
    func `in every zone a day begins and ends when its clocks turn, to the millisecond`(
        seed: UInt64
    ) throws {
        var random = SplitMix64(seed: seed)
        for name in TimeZone.knownTimeZoneIdentifiers {
            let zone = try zone(name)
            let moment = Timestamp(
                millisecondsSince1970: .random(in: 0...2_000_000_000_000, using: &random)
            )
            let day = CalendarDay(containing: moment, in: zone)
            let start = day.start(in: zone)

            #expect(CalendarDay(containing: start, in: zone) == day, "\(name)")
            #expect(CalendarDay(containing: start - .milliseconds(1), in: zone) < day, "\(name)")
            #expect(start <= moment && moment < day.next.start(in: zone), "\(name)")

            let midnight = CalendarDay.nextMidnight(after: moment, in: zone)
            let last = midnight - .milliseconds(1)

            #expect(midnight > moment && midnight - moment <= .seconds(27 * 3_600), "\(name)")
            #expect(CalendarDay(containing: midnight, in: zone) > day, "\(name)")
            #expect(CalendarDay(containing: last, in: zone) == day, "\(name)")
        }
    }

    @Test(arguments: [
        // Days of 24, 23 and 25 hours.
        ("Europe/Berlin", "2026-11-21T12:00:00Z", "2026-11-21T23:00:00.000Z"),
        ("Europe/Berlin", "2026-03-28T23:00:00Z", "2026-03-29T22:00:00.000Z"),
        ("Europe/Berlin", "2026-10-24T22:00:00Z", "2026-10-25T23:00:00.000Z"),
        // Midnight does not exist, so the day starts at 01:00.
        ("America/Sao_Paulo", "2018-11-04T02:59:59.999Z", "2018-11-04T03:00:00.000Z"),
        ("Asia/Beirut", "2022-03-26T12:00:00Z", "2022-03-26T22:00:00.000Z"),
        ("Africa/Cairo", "2024-04-25T12:00:00Z", "2024-04-25T22:00:00.000Z"),
        // The extreme offsets.
        ("Pacific/Kiritimati", "2026-11-21T09:59:59Z", "2026-11-21T10:00:00.000Z"),
        ("Etc/GMT+12", "2026-11-21T12:00:00Z", "2026-11-22T12:00:00.000Z"),
        ("Etc/GMT-14", "2026-11-21T10:00:00Z", "2026-11-22T10:00:00.000Z"),
        // December 30 was skipped.
        ("Pacific/Apia", "2011-12-30T09:00:00Z", "2011-12-30T10:00:00.000Z"),
        // 00:01 became 23:01 of the previous day, so midnight occurred twice.
        ("America/St_Johns", "2010-11-07T02:00:00Z", "2010-11-07T02:30:00.000Z"),
        ("America/St_Johns", "2010-11-07T03:10:00Z", "2010-11-07T03:30:00.000Z"),
    ])
    func `the next midnight is the moment at which the zone's clocks show another day`(
        name: String,
        moment: String,
        midnight: String
    ) throws {
        let moment = try #require(Timestamp(moment))

        #expect(
            CalendarDay.nextMidnight(after: moment, in: try zone(name)).description == midnight
        )
    }

    @Test(arguments: ["1969-12-31", "1970-01-01", "2000-02-29", "2024-02-29", "9999-12-31"])
    func `a day survives a round trip through its text`(text: String) throws {
        let day = try day(text)

        #expect(day.description == text)
        #expect(
            try JSONDecoder().decode([CalendarDay].self, from: JSONEncoder().encode([day]))
                == [day]
        )
    }

    @Test func `four centuries of days follow each other without gaps`() throws {
        var day = try day("1800-01-01")
        var count = 0
        while day.description != "2200-01-01" {
            #expect(day < day.next && CalendarDay(day.next.description) == day.next)
            day = day.next
            count += 1
        }
        #expect(count == 146_097)
    }

    @Test(arguments: [
        "", "2026-02-29", "2026-02-30", "1900-02-29", "2026-00-10", "2026-13-01", "2026-11-00",
        "2026-11-31", "26-11-21", "2026-11-1", "2026-11-211", "2026/11/21", "-026-11-21",
        "2026-+1-01", "2026-11-21T00:00:00Z", "2026-11--1", "２０２６-11-21",
    ])
    func `text that is not an existing day is refused`(text: String) {
        #expect(CalendarDay(text) == nil)
        #expect(throws: DecodingError.self) {
            try JSONDecoder().decode([CalendarDay].self, from: JSONEncoder().encode([text]))
        }
    }
}
