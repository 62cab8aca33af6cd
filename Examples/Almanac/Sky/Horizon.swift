import Foundation

/// The points of the ecliptic on the eastern horizon and on the southern meridian of a place.
///
/// The formulas are those of Meeus, *Astronomical Algorithms*, 2nd edition, chapters 13 and 14.
public struct Horizon: Hashable, Sendable {
    /// The longitude that rises, from the true equinox of the date.
    public let ascendant: Double
    /// The longitude that culminates, from the true equinox of the date.
    public let midheaven: Double

    /// Computes the points.
    ///
    /// - Throws: ``SkyError/polarLatitude(_:)`` beyond the polar circles, where the ecliptic can
    ///   coincide with the horizon, so that no ascendant is defined for some hours.
    public init(latitude: Double, longitude: Double, at moment: Moment) throws(SkyError) {
        let earth = EarthOrientation(at: moment)
        guard abs(latitude) < 90 - earth.obliquity else { throw .polarLatitude(latitude) }
        let time = Angle.normalized(earth.siderealTime + longitude)
        let (sine, cosine) = (Angle.sine(time), Angle.cosine(time))
        midheaven = Angle.direction(x: cosine * Angle.cosine(earth.obliquity), y: sine)
        let height =
            sine * Angle.cosine(earth.obliquity)
            + Angle.tangent(latitude) * Angle.sine(earth.obliquity)
        ascendant = Angle.direction(x: -height, y: cosine)
    }
}
