import Foundation
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

@Suite("Fresh until midnight", .bounded)
struct DayRuleTests {
    private func zone(_ name: String) throws -> TimeZone {
        try #require(TimeZone(identifier: name))
    }

    private func isFresh(
        _ asOf: String,
        in fetchZone: String,
        at now: String,
        in zoneNow: String? = nil
    ) throws -> Bool {
        let fetched = try #require(Timestamp(asOf))
        return DayRule.isFresh(
            fetchedOn: LocalDay(containing: fetched, in: try zone(fetchZone)),
            asOf: fetched,
            now: try #require(Timestamp(now)),
            zone: try zone(zoneNow ?? fetchZone)
        )
    }

    @Test(arguments: [
        // A day of 23 hours: it is tomorrow 24 hours later, and still today 22:59 later.
        ("Europe/Berlin", "2026-03-28T23:00:00Z", "2026-03-29T21:59:59.999Z", true),
        ("Europe/Berlin", "2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z", false),
        // A day of 25 hours: it is still today 24 hours later.
        ("Europe/Berlin", "2026-10-24T22:00:00Z", "2026-10-25T22:30:00Z", true),
        ("Europe/Berlin", "2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z", false),
        // Midnight does not exist.
        ("America/Sao_Paulo", "2018-11-03T20:00:00Z", "2018-11-04T02:59:59.999Z", true),
        ("America/Sao_Paulo", "2018-11-03T20:00:00Z", "2018-11-04T03:00:00Z", false),
        ("Asia/Beirut", "2022-03-26T12:00:00Z", "2022-03-26T22:00:00Z", false),
        ("Africa/Cairo", "2024-04-25T12:00:00Z", "2024-04-25T21:59:59Z", true),
        ("Africa/Cairo", "2024-04-25T12:00:00Z", "2024-04-25T22:00:00Z", false),
        // Half a second before and after a midnight that is not the server's.
        ("Pacific/Kiritimati", "2026-11-21T09:59:59.500Z", "2026-11-21T10:00:00Z", false),
        ("Etc/GMT+12", "2026-11-21T12:00:00Z", "2026-11-22T11:59:59.999Z", true),
        // A day that the zone skipped.
        ("Pacific/Apia", "2011-12-30T09:59:59Z", "2011-12-30T10:00:00Z", false),
    ])
    func `a value is fresh during the day on which it was fetched, however long that is`(
        zone: String,
        asOf: String,
        now: String,
        expected: Bool
    ) throws {
        #expect(try isFresh(asOf, in: zone, at: now) == expected)
    }

    @Test func `a value from the future is not fresh`() throws {
        #expect(
            try !isFresh("2026-11-21T12:00:00Z", in: "Europe/Berlin", at: "2026-11-21T11:59:59Z")
        )
    }

    @Test func `a user who travels to another day gets a new value`() throws {
        let (fetched, now) = ("2026-11-21T23:30:00Z", "2026-11-21T23:31:00Z")

        // It is the 22nd in Berlin, and the 21st in New York; and in Madrid it is the 22nd as well.
        #expect(
            try !isFresh(fetched, in: "Europe/Berlin", at: now, in: "America/New_York")
        )
        #expect(try isFresh(fetched, in: "Europe/Berlin", at: now, in: "Europe/Madrid"))
    }

    @Test(arguments: [
        // Fetched at 10:00 in Tokyo; the 20th in Los Angeles, and the 21st 19 hours later.
        ("2026-11-21T01:00:00Z", "Asia/Tokyo", "2026-11-21T20:00:00Z", "America/Los_Angeles"),
        // The same before Tokyo's midnight, but after a midnight in Los Angeles.
        ("2026-11-21T01:00:00Z", "Asia/Tokyo", "2026-11-21T09:00:00Z", "America/Los_Angeles"),
        // Fetched at 23:00 in Tokyo, the 21st in Los Angeles; read at Tokyo's midnight.
        ("2026-11-21T14:00:00Z", "Asia/Tokyo", "2026-11-21T15:00:00Z", "America/Los_Angeles"),
        // Fetched on the 20th in Los Angeles; it is the 21st in Tokyo.
        ("2026-11-21T01:00:00Z", "America/Los_Angeles", "2026-11-21T01:01:00Z", "Asia/Tokyo"),
    ])
    func `a value is stale after a midnight here or where it was fetched`(
        asOf: String,
        fetchZone: String,
        now: String,
        zoneNow: String
    ) throws {
        #expect(try !isFresh(asOf, in: fetchZone, at: now, in: zoneNow))
    }

    @Test(arguments: UInt64(1)...5)
    func `a value that is stale in a zone stays stale there, even if fetched in another zone`(
        seed: UInt64
    ) throws {
        var random = SplitMix64(seed: seed)
        let names = TimeZone.knownTimeZoneIdentifiers
        for _ in 1...200 {
            let zone = try zone(names.randomElement(using: &random) ?? "GMT")
            let other = try self.zone(names.randomElement(using: &random) ?? "GMT")
            let fetched = Timestamp(
                millisecondsSince1970: .random(in: 0...2_000_000_000_000, using: &random)
            )
            let day = LocalDay(containing: fetched, in: zone)
            let freshness = (0..<200).map { step in
                DayRule.isFresh(
                    fetchedOn: day,
                    asOf: fetched,
                    now: fetched + .minutes(20 * step),
                    zone: other
                )
            }
            let rises = zip(freshness, freshness.dropFirst()).contains { !$0 && $1 }

            #expect(!rises, "\(zone.identifier) to \(other.identifier) at \(fetched)")
        }
    }

    @Test(arguments: UInt64(1)...5)
    func `a value is fresh until just before the next midnight`(seed: UInt64) throws {
        var random = SplitMix64(seed: seed)
        for name in TimeZone.knownTimeZoneIdentifiers {
            let zone = try zone(name)
            let fetched = Timestamp(
                millisecondsSince1970: .random(in: 0...2_000_000_000_000, using: &random)
            )
            let day = LocalDay(containing: fetched, in: zone)
            let midnight = CalendarDay.nextMidnight(after: fetched, in: zone)
            func isFresh(_ now: Timestamp) -> Bool {
                DayRule.isFresh(fetchedOn: day, asOf: fetched, now: now, zone: zone)
            }

            #expect(isFresh(fetched) && isFresh(midnight - .milliseconds(1)), "\(name)")
            #expect(!isFresh(midnight), "\(name)")
        }
    }
}
