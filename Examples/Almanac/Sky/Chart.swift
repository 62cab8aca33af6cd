import Foundation

/// The positions at a birth, in the houses of its place.
public struct Chart: Hashable, Codable, Sendable {
    /// The position of one body.
    public struct Position: Hashable, Codable, Sendable {
        public let body: Body
        /// The longitude in degrees, in the chart's zodiac.
        public let longitude: Double
        public let sign: Sign
        /// The whole-sign house, from 1 to 12.
        public let house: Int
        /// The lunar mansion, which is that of the sidereal longitude in every chart.
        public let nakshatra: Nakshatra
        /// The quarter of the lunar mansion, from 1 to 4.
        public let quarter: Int
        public let isRetrograde: Bool
    }

    public let zodiac: Zodiac
    /// The moment of the birth.
    public let moment: Moment
    /// Lahiri's ayanamsa in degrees; 0 in a tropical chart.
    public let ayanamsa: Double
    /// The longitude that rises, in the chart's zodiac.
    public let ascendant: Double
    /// The longitude that culminates, in the chart's zodiac.
    public let midheaven: Double
    /// The positions of all bodies, in the order of ``Body``.
    public let positions: [Position]
    /// The aspects between the bodies, the closest first.
    public let aspects: [Aspect]

    /// Computes a chart.
    ///
    /// - Throws: ``SkyError/polarLatitude(_:)`` beyond the polar circles.
    public init(of birth: BirthData, in zodiac: Zodiac = .sidereal) throws(SkyError) {
        let moment = birth.moment
        let origin = zodiac.origin(at: moment)
        let stars = Zodiac.sidereal.origin(at: moment)
        let horizon = try Horizon(
            latitude: birth.latitude,
            longitude: birth.longitude,
            at: moment
        )
        let ascendant = Angle.normalized(horizon.ascendant - origin)
        let rising = Sign(containing: ascendant)
        let positions = Body.allCases.map { body in
            let apparent = Sky.longitude(of: body, at: moment)
            let longitude = Angle.normalized(apparent - origin)
            let sign = Sign(containing: longitude)
            return Position(
                body: body,
                longitude: Self.rounded(longitude),
                sign: sign,
                house: sign.count(from: rising),
                nakshatra: Nakshatra(containing: apparent - stars),
                quarter: Nakshatra.quarter(of: apparent - stars),
                isRetrograde: Sky.speed(of: body, at: moment) < 0
            )
        }
        (self.zodiac, self.moment, self.positions) = (zodiac, moment, positions)
        ayanamsa = Self.rounded(zodiac.ayanamsa(at: moment))
        self.ascendant = Self.rounded(ascendant)
        midheaven = Self.rounded(Angle.normalized(horizon.midheaven - origin))
        aspects = Aspect.all(between: positions)
    }

    /// Returns the position of a body.
    public subscript(_ body: Body) -> Position? { positions.first { $0.body == body } }

    /// The sign that rises, which is the first house.
    public var rising: Sign { Sign(containing: ascendant) }

    /// Returns the sign of a house, whose number is from 1 to 12.
    public func sign(ofHouse number: Int) -> Sign {
        Sign.allCases[(rising.index + number + 11) % 12]
    }

    /// Returns the angle to a millionth of a degree, so that equal charts are equal as JSON.
    private static func rounded(_ degrees: Double) -> Double {
        (degrees * 1_000_000).rounded() / 1_000_000
    }
}
