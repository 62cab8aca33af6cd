import Foundation

/// The position of a planet as sums of periodic terms.
///
/// The terms are those of the theory VSOP87D by Bretagnon and Francou (*Planetary theories in
/// rectangular and spherical variables*, Astronomy and Astrophysics 202, 1988, pages 309 to 315):
/// heliocentric spherical coordinates in the ecliptic and equinox of the date. Terms below 5 · 10⁻⁶
/// radians (1″) are left out, in the radius below the same part of the planet's mean distance.
struct PlanetSeries: Sendable {
    /// Each power of time has a list of amplitude, phase and frequency, one after the other.
    ///
    /// Units: radians or astronomical units, radians, and radians in a thousand years.
    typealias Terms = [[Double]]

    let longitude: Terms
    let latitude: Terms
    let radius: Terms

    /// A heliocentric position in rectangular coordinates, in astronomical units.
    struct Position {
        var x, y, z: Double

        static func - (first: Self, second: Self) -> Self {
            Self(x: first.x - second.x, y: first.y - second.y, z: first.z - second.z)
        }

        var distance: Double { (x * x + y * y + z * z).squareRoot() }
    }

    /// Returns the position at a time in Julian centuries since 2000.
    func position(at centuries: Double) -> Position {
        let t = centuries / 10
        let (l, b, r) = (
            Self.sum(longitude, t), Self.sum(latitude, t), Self.sum(radius, t)
        )
        return Position(x: r * cos(b) * cos(l), y: r * cos(b) * sin(l), z: r * sin(b))
    }

    private static func sum(_ terms: Terms, _ t: Double) -> Double {
        var (sum, power) = (0.0, 1.0)
        for list in terms {
            var part = 0.0
            for index in stride(from: 0, to: list.count, by: 3) {
                part += list[index] * cos(list[index + 1] + list[index + 2] * t)
            }
            sum += part * power
            power *= t
        }
        return sum
    }
}
