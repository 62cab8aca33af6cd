import Foundation
import TestSupport
import Testing

@testable import AlmanacSky

/// Positions against those of independent packages.
@Suite("Positions", .bounded)
struct PositionTests {
    /// The greatest deviations, in arc seconds.
    ///
    /// Without aberration, they would be up to 20″ greater.
    private static let stated: [Body: Double] = [
        .sun: 7, .moon: 20, .mercury: 9, .venus: 15, .mars: 18, .jupiter: 6, .saturn: 9,
        .uranus: 9, .neptune: 7,
    ]

    @Test func `the longitudes of Sun, Moon and planets deviate by less than the stated error`()
        throws
    {
        let bodies = Body.allCases.prefix(9)
        var greatest: [Body: Double] = [:]
        for reference in References.positions {
            let moment = Moment(julianDay: reference.julianDay)
            for (body, longitude) in zip(bodies, reference.longitudes) {
                let own = Sky.longitude(of: body, at: moment)
                let deviation = abs(Angle.difference(from: longitude, to: own))
                let stated = try #require(Self.stated[body])
                #expect(deviation * 3600 < stated, "\(body) at \(reference.julianDay): \(own)")
                greatest[body] = max(greatest[body] ?? 0, deviation)
            }
        }
        #expect(References.positions.count * bodies.count == 108 && greatest.count == 9)
    }

    @Test func `the nodes are opposite and deviate by less than the stated errors`() {
        for reference in References.frames {
            let moment = Moment(julianDay: reference.julianDay)
            let rahu = Sky.longitude(of: .rahu, at: moment)
            let (mean, true_) = (reference.values[3], reference.values[4])
            #expect(abs(Angle.difference(from: mean, to: rahu)) < 0.001)
            #expect(abs(Angle.difference(from: true_, to: Sky.trueNode(at: moment))) < 0.35)
            let ketu = Sky.longitude(of: .ketu, at: moment)
            #expect(abs(abs(Angle.difference(from: rahu, to: ketu)) - 180) < 0.000001)
        }
    }

    @Test func `ayanamsa, obliquity and sidereal time agree with the Swiss Ephemeris`() {
        for reference in References.frames {
            let moment = Moment(julianDay: reference.julianDay)
            let earth = EarthOrientation(at: moment)
            let ayanamsa = Zodiac.sidereal.ayanamsa(at: moment)
            #expect(abs(ayanamsa - reference.values[0]) < 0.0002)
            #expect(abs(earth.obliquity - reference.values[1]) < 0.0002)
            let time = Angle.difference(from: reference.values[2], to: earth.siderealTime)
            #expect(abs(time) < 0.001)
        }
    }

    @Test func `the ayanamsa of 1956-03-21 is that of the Calendar Reform Committee`() {
        // The day's 0:00 is given in terrestrial time.
        let moment = Moment(julianDay: 2_435_553.5)
        let origin = Zodiac.sidereal.origin(at: moment)
        #expect(abs(origin - (23 + 15.0 / 60 + 0.658 / 3600)) < 0.0002, "\(origin)")
        #expect(Zodiac.tropical.origin(at: moment) == 0)
    }

    @Test func `ascendant and midheaven agree with the Swiss Ephemeris`() throws {
        for reference in References.horizons {
            let horizon = try Horizon(
                latitude: reference.latitude,
                longitude: reference.longitude,
                at: Moment(julianDay: reference.julianDay)
            )
            let points = [horizon.ascendant, horizon.midheaven]
            for (own, other) in zip(points, [reference.ascendant, reference.midheaven]) {
                #expect(abs(Angle.difference(from: other, to: own)) < 0.002, "\(reference)")
            }
        }
    }

    @Test(arguments: [66.6, 90, -66.6, -90])
    func `an ascendant beyond a polar circle is refused`(_ latitude: Double) {
        let moment = Moment(julianDay: 2_451_545)
        let error = #expect(throws: SkyError.self) {
            try Horizon(latitude: latitude, longitude: 0, at: moment)
        }
        #expect(error == .polarLatitude(latitude))
        #expect(error?.description.contains("between the polar circles") == true)
    }

    @Test func `an ascendant near a polar circle is computed`() throws {
        for latitude in [66.5, -66.5] {
            let moment = Moment(julianDay: 2_451_545)
            let horizon = try Horizon(latitude: latitude, longitude: 0, at: moment)
            // The eastern point rises after the culminating one.
            let angle = Angle.normalized(horizon.ascendant - horizon.midheaven)
            #expect(angle > 0 && angle < 180)
        }
    }

    /// Meeus, *Astronomical Algorithms*, 2nd edition, examples 12.a, 25.b and 47.a.
    @Test func `worked examples of Meeus are reproduced`() {
        // 1987-04-10 0:00 UT: the apparent sidereal time is 13h 10m 46.1351s.
        let april = EarthOrientation(at: Moment(julianDay: 2_446_895.5))
        let time = 15 * (13 + 10.0 / 60 + 46.1351 / 3600)
        #expect(abs(april.siderealTime - time) < 0.0002)
        // 1992-10-13 0:00 TD: the Sun's apparent longitude is 199°54′21.818″.
        let october = (2_448_908.5 - 2_451_545) / 36_525
        let sun = Sky.meanLongitude(of: .sun, at: october) + 15.908 / 3600
        #expect(abs(sun - (199 + 54.0 / 60 + 21.818 / 3600)) < 0.0016, "\(sun)")
        // 1992-04-12 0:00 TD: the Moon's mean longitude of the date is 133.162655°.
        let moon = MoonSeries.longitude(at: -0.077221081451)
        #expect(abs(moon - 133.162655) < 0.000002, "\(moon)")
    }

    @Test func `Mercury is retrograde three times in 2023, for 21 to 25 days`() {
        let start = 2_459_945.5
        let days = (0..<365).filter { day in
            Sky.speed(of: .mercury, at: Moment(julianDay: start + Double(day))) < 0
        }
        let stretches = days.filter { !days.contains($0 - 1) }
        // The first began in December 2022, and the last ended in January 2024.
        #expect(stretches.count == 4 && days.first == 0)
        let april = days.filter { (100..<140).contains($0) }
        #expect((21...25).contains(april.count))
    }

    /// Espenak and Meeus, table of ΔT from direct observations.
    @Test(arguments: [
        (1900.0, -2.8), (1910, 10.4), (1930, 24.0), (1950, 29.1), (1970, 40.2), (1990, 56.9),
        (2000, 63.8), (2005, 64.7), (2050, 93),
    ])
    func `delta T agrees with its published table`(_ year: Double, _ seconds: Double) {
        #expect(abs(Moment.deltaT(inYear: year) - seconds) < 0.6)
    }

    @Test func `delta T is continuous`() {
        for year in [1900.0, 1920, 1941, 1961, 1986, 2005, 2050] {
            let step = Moment.deltaT(inYear: year) - Moment.deltaT(inYear: year - 0.0001)
            #expect(abs(step) < 0.6, "\(year): \(step)")
        }
    }
}
