import Foundation
import TestSupport
import Testing

@testable import AlmanacSky

/// Charts, periods, entries and comparisons.
@Suite("Charts", .bounded)
struct ChartTests {
    private static func birth() throws -> BirthData {
        try BirthData(
            date: "1990-05-17",
            time: "14:35",
            zone: "Europe/Istanbul",
            latitude: 41.0082,
            longitude: 28.9784
        )
    }

    @Test func `a sidereal chart is a tropical one, turned by the ayanamsa`() throws {
        let birth = try Self.birth()
        let (tropical, sidereal) = (try Chart(of: birth, in: .tropical), try Chart(of: birth))
        #expect(tropical.ayanamsa == 0 && abs(sidereal.ayanamsa - 23.7235) < 0.001)
        let origin = Zodiac.sidereal.origin(at: birth.moment)
        for (first, second) in zip(tropical.positions, sidereal.positions) {
            let turn = Angle.difference(from: second.longitude, to: first.longitude)
            #expect(abs(turn - origin) < 0.00001)
            #expect(first.nakshatra == second.nakshatra && first.quarter == second.quarter)
        }
        #expect(tropical.positions.map(\.body) == Body.allCases)
    }

    @Test func `the ayanamsa is that of the birth and not of today`() throws {
        let charts = try ["1964-06-01", "2026-06-01"].map { date in
            try Chart(
                of: BirthData(date: date, time: "12:00", zone: "UTC", latitude: 0, longitude: 0)
            )
        }
        // The precession of 62 years.
        #expect(abs(charts[1].ayanamsa - charts[0].ayanamsa - 0.866) < 0.001)
    }

    @Test func `the zone of a birth moves what rises`() throws {
        let rising = try ["Asia/Kolkata", "Europe/Istanbul", "UTC"].map { zone in
            try Chart(
                of: BirthData(
                    date: "1990-05-17",
                    time: "14:35",
                    zone: zone,
                    latitude: 28.6139,
                    longitude: 77.209
                )
            ).ascendant
        }
        // Two and a half hours, and three.
        let turns = zip(rising, rising.dropFirst()).map { Angle.difference(from: $0, to: $1) }
        #expect(turns.allSatisfy { (25...50).contains($0) }, "\(turns)")
    }

    @Test func `houses are whole signs from the one that rises`() throws {
        for zodiac in Zodiac.allCases {
            let chart = try Chart(of: Self.birth(), in: zodiac)
            #expect(chart.sign(ofHouse: 1) == chart.rising)
            #expect(Set((1...12).map(chart.sign(ofHouse:))).count == 12)
            for position in chart.positions {
                #expect(chart.sign(ofHouse: position.house) == position.sign)
                #expect(position.sign == Sign(containing: position.longitude))
            }
        }
    }

    @Test func `a chart survives JSON and is made equal again`() throws {
        let chart = try Chart(of: Self.birth())
        let json = try JSONEncoder().encode(chart)
        let decoded = try JSONDecoder().decode(Chart.self, from: json)
        #expect(decoded.positions == chart.positions && decoded.aspects == chart.aspects)
        #expect(decoded.moment.description == "1990-05-17T11:35:00Z")
        #expect(try Chart(of: Self.birth()) == chart)
    }

    @Test func `a chart beyond a polar circle is refused`() throws {
        let birth = try BirthData(
            date: "1990-05-17",
            time: "14:35",
            zone: "Europe/Oslo",
            latitude: 69.6492,
            longitude: 18.9553
        )
        #expect(throws: SkyError.polarLatitude(69.6492)) { try Chart(of: birth) }
    }

    @Test func `aspects are found up to their greatest deviation, across the zodiac's start`() {
        let aspect = { (first: (body: Body, longitude: Double), second: (Body, Double)) in
            Aspect.between(first, (body: second.0, longitude: second.1))
        }
        #expect(aspect((.sun, 359), (.moon, 1))?.kind == .conjunction)
        #expect(aspect((.sun, 359), (.moon, 1))?.orb == 2)
        #expect(aspect((.sun, 10), (.mars, 78))?.kind == .sextile)
        #expect(aspect((.venus, 10), (.mars, 78)) == nil)
        #expect(aspect((.venus, 10), (.mars, 284))?.kind == .square)
        #expect(aspect((.jupiter, 300), (.saturn, 60))?.kind == .trine)
        #expect(aspect((.jupiter, 350), (.saturn, 175))?.orb == 5)
        #expect(aspect((.rahu, 10), (.ketu, 190)) == nil)
    }

    @Test func `periods begin as PyJHora has them`() {
        for (moon, expected, parts) in References.dashas {
            let periods = Vimshottari.periods(moon: moon, at: Moment(julianDay: 2_448_029))
            #expect(periods.map(\.lord) == expected.map(\.lord), "\(moon)")
            #expect(periods[1].parts.map(\.lord) == parts.map(\.lord), "\(moon)")
            let starts = periods.map(\.start) + periods[1].parts.map(\.start)
            for (own, other) in zip(starts, expected.map(\.start) + parts.map(\.start)) {
                #expect(abs(own.julianDay - other) < 0.01, "\(moon)")
            }
        }
    }

    @Test func `periods have no gaps, and one of them contains the birth`() throws {
        let birth = try Self.birth()
        let periods = Vimshottari.periods(of: birth)
        #expect(periods[0].contains(birth.moment))
        for (period, next) in zip(periods, periods.dropFirst()) {
            #expect(period.end == next.start)
        }
        for period in periods {
            try #require(period.parts.count == 9 && period.parts[0].lord == period.lord)
            #expect(period.parts[0].start == period.start)
            let end = try #require(period.parts.last?.end)
            #expect(abs(end.julianDay - period.end.julianDay) < 0.000_01)
        }
        let moon = try #require(try Chart(of: birth)[.moon])
        #expect(moon.nakshatra.lord == periods[0].lord)
        let days = periods[8].end.julianDay - periods[0].start.julianDay
        #expect(abs(days / Vimshottari.year - 120) < 0.000_01)
    }

    @Test func `entries into signs are those of DE421, backward ones included`() throws {
        for (body, year, zodiac, expected) in References.ingresses {
            let transits = try Transit.all(in: year, of: [body], zodiac: zodiac)
            #expect(transits.map(\.sign) == expected.map(\.sign), "\(body) in \(year)")
            for (own, other) in zip(transits, expected) {
                // Two hours, and for a slow or retrograde body half a day.
                let hours = abs(own.moment.julianDay - other.julianDay) * 24
                #expect(hours < (body == .mars ? 2 : 12), "\(body) in \(year): \(own)")
            }
        }
        let saturn = try Transit.all(in: 2020, of: [.saturn], zodiac: .tropical)
        #expect(saturn.map(\.isRetrograde) == [false, true, false])
    }

    @Test func `entries of several bodies are in the order of time, and a wrong year is refused`()
        throws
    {
        let transits = try Transit.all(in: 2022)
        #expect(transits.count > 6 && transits.map(\.moment) == transits.map(\.moment).sorted())
        #expect(transits.allSatisfy { $0.moment.description.hasPrefix("2022") })
        #expect(throws: SkyError.year(1899)) { try Transit.all(in: 1899) }
    }

    @Test func `comparisons have the points of PyJHora`() {
        let kutas: [Compatibility.Kuta] = [.vashya, .yoni, .grahaMaitri, .gana, .bhakoot, .nadi]
        for (groom, bride, points) in References.matches {
            let match = Compatibility(groom: Self.place(groom), bride: Self.place(bride))
            #expect(kutas.map { match[$0] } == points, "\(groom) \(bride)")
        }
    }

    @Test func `comparisons of all quarters stay within their maximum, and 36 in all`() {
        #expect(Compatibility.Kuta.allCases.map(\.maximum).reduce(0, +) == 36)
        var best = 0.0
        for groom in 0..<108 {
            for bride in 0..<108 {
                let match = Compatibility(groom: Self.place(groom), bride: Self.place(bride))
                for score in match.scores {
                    #expect(score.points >= 0 && score.points <= score.kuta.maximum)
                }
                best = max(best, match.total)
            }
        }
        #expect(best > 30 && best <= 36)
    }

    /// Ashwini and Bharani: the second and the twenty-seventh from each other have full points.
    @Test func `tara counts in both directions, and varna favours the groom's rank`() {
        let at = { (nakshatra: Int) in MoonPlace(longitude: Double(nakshatra) * 360 / 27 + 1) }
        #expect(Compatibility(groom: at(0), bride: at(1))[.tara] == 3)
        // The third from one side is the twenty-sixth, or eighth, from the other.
        #expect(Compatibility(groom: at(2), bride: at(0))[.tara] == 1.5)
        #expect(Compatibility(groom: at(0), bride: at(4))[.tara] == 1.5)
        let (cancer, libra) = (MoonPlace(longitude: 100), MoonPlace(longitude: 200))
        #expect(Compatibility(groom: cancer, bride: libra)[.varna] == 1)
        #expect(Compatibility(groom: libra, bride: cancer)[.varna] == 0)
        #expect(Compatibility(groom: libra, bride: libra)[.varna] == 1)
    }

    @Test func `Sagittarius and Capricorn belong to two groups of vashya`() {
        let groups = [241.0, 256, 271, 286].map { MoonPlace(longitude: $0).vashya }
        #expect(groups == [.human, .quadruped, .quadruped, .water])
    }

    /// Returns a place in a quarter of a mansion, from 0 to 107.
    private static func place(_ quarter: Int) -> MoonPlace {
        MoonPlace(longitude: (Double(quarter) + 0.1) * 360 / 108)
    }
}
