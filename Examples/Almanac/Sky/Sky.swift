import Foundation

/// Apparent geocentric longitudes on the ecliptic of the date.
///
/// From 1900 to 2050, the longitudes are exact to 0.006° (22″), compared with the ephemeris DE421
/// of the Jet Propulsion Laboratory: the greatest of 3,000 deviations are those of the Moon (18″),
/// Mars (16″) and Venus (13″), all others are below 9″. The sources of the formulas are named at
/// ``PlanetSeries`` and ``MoonSeries``.
public enum Sky {
    /// The years in which the stated errors are tested.
    public static let years = 1900...2050

    /// Returns the apparent longitude of a body, from 0 up to 360 degrees.
    public static func longitude(of body: Body, at moment: Moment) -> Double {
        let nutation = EarthOrientation(at: moment).nutation
        return Angle.normalized(meanLongitude(of: body, at: moment.centuries) + nutation)
    }

    /// Returns the longitude of the Moon's true ascending node, which is exact to 0.35°.
    public static func trueNode(at moment: Moment) -> Double {
        let nutation = EarthOrientation(at: moment).nutation
        return Angle.normalized(MoonSeries.trueNode(at: moment.centuries) + nutation)
    }

    /// Returns the change of a body's longitude, in degrees a day.
    public static func speed(of body: Body, at moment: Moment) -> Double {
        let before = longitude(of: body, at: moment.advanced(byDays: -0.05))
        let after = longitude(of: body, at: moment.advanced(byDays: 0.05))
        return Angle.difference(from: before, to: after) / 0.1
    }

    /// Returns the longitude in the mean equinox of the date, with light time and aberration.
    static func meanLongitude(of body: Body, at centuries: Double) -> Double {
        switch body {
        case .moon: MoonSeries.longitude(at: centuries)
        case .rahu: MoonSeries.meanNode(at: centuries)
        case .ketu: Angle.normalized(MoonSeries.meanNode(at: centuries) + 180)
        default: geocentric(body.series, at: centuries)
        }
    }

    /// Returns the longitude of a planet, or of the Sun.
    ///
    /// If both positions are those at the time when the light left the planet, the direction
    /// contains the aberration (Meeus, chapter 33). The last term turns the equinox of VSOP87 to
    /// that of the catalogue FK5 (chapter 32).
    private static func geocentric(_ planet: PlanetSeries?, at centuries: Double) -> Double {
        var direction = PlanetSeries.Position(x: 0, y: 0, z: 0)
        var lightTime = 0.0
        for _ in 0..<2 {
            let sent = centuries - lightTime
            let earth = PlanetSeries.earth.position(at: sent)
            let sun = PlanetSeries.Position(x: 0, y: 0, z: 0)
            direction = (planet?.position(at: sent) ?? sun) - earth
            lightTime = direction.distance * lightTimePerUnit
        }
        let longitude = Angle.direction(x: direction.x, y: direction.y)
        return Angle.normalized(longitude - 0.09033 / 3600)
    }

    /// The time in which light travels an astronomical unit, in Julian centuries.
    private static let lightTimePerUnit = 499.004784 / 86_400 / 36_525
}
