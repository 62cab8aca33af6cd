import Foundation

/// The directions of the equator and the equinox at a moment.
///
/// The formulas are those of Meeus, *Astronomical Algorithms*, 2nd edition, chapters 12 and 22. The
/// nutation's four greatest terms are exact to 0.5″.
struct EarthOrientation {
    /// The nutation in longitude, in degrees.
    let nutation: Double
    /// The true obliquity of the ecliptic, in degrees.
    let obliquity: Double
    /// The apparent sidereal time at Greenwich, in degrees.
    let siderealTime: Double

    init(at moment: Moment) {
        let t = moment.centuries
        let node = 125.04452 - 1934.136261 * t
        let (sun, moon) = (280.4665 + 36_000.7698 * t, 218.3165 + 481_267.8813 * t)
        nutation =
            (-17.20 * Angle.sine(node) - 1.32 * Angle.sine(2 * sun) - 0.23 * Angle.sine(2 * moon)
                + 0.21 * Angle.sine(2 * node)) / 3600
        let mean = Angle.polynomial(t, [84_381.448, -46.8150, -0.00059, 0.001813]) / 3600
        obliquity =
            mean
            + (9.20 * Angle.cosine(node) + 0.57 * Angle.cosine(2 * sun)
                + 0.10 * Angle.cosine(2 * moon) - 0.09 * Angle.cosine(2 * node)) / 3600
        let days = moment.julianDay - 2_451_545
        let ut = days / 36_525
        siderealTime = Angle.normalized(
            280.46061837 + 360.98564736629 * days
                + Angle.polynomial(ut, [0, 0, 0.000387933, -1 / 38_710_000])
                + nutation * Angle.cosine(obliquity)
        )
    }
}
