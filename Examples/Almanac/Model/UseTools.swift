public import AlmanacSky
public import SanguineModel

/// Computes the positions at any moment, without a birth.
///
/// Nothing keeps the answer: it is another one at each moment.
public struct UseTools: FunctionCall {
    public struct Input: Hashable, Codable, Sendable {
        public var moment: Moment
        public var zodiac: Zodiac
    }

    public static let name = "tools"
    public static let rules = FunctionRules(
        price: .free,
        limits: FunctionLimits(inputBytes: 1 << 10, runningPerAccount: 4)
    )
    public typealias Output = SkyReport
    public let input: Input

    public init(at moment: Moment, in zodiac: Zodiac) {
        input = Input(moment: moment, zodiac: zodiac)
    }
}

/// The positions of all bodies at a moment.
public struct SkyReport: Hashable, Codable, Sendable {
    /// The position of one body.
    public struct Position: Hashable, Codable, Sendable {
        public let body: Body
        /// The longitude in degrees, to four decimals.
        public let longitude: Double
        public let sign: Sign
        public let isRetrograde: Bool
    }

    public let moment: Moment
    /// The Moon's angle from the Sun in degrees: 0 is new, 180 full.
    public let phase: Double
    public let positions: [Position]

    /// - Throws: ``SkyError/year(_:)`` for a moment that is not in ``Sky/years``.
    public init(_ input: UseTools.Input) throws(SkyError) {
        let moment = input.moment
        guard Sky.years.contains(moment.year) else { throw .year(moment.year) }
        let origin = input.zodiac.origin(at: moment)
        self.moment = moment
        phase = Self.rounded(
            Sky.longitude(of: .moon, at: moment) - Sky.longitude(of: .sun, at: moment)
        )
        positions = Body.allCases.map { body in
            let longitude = Self.rounded(Sky.longitude(of: body, at: moment) - origin)
            return Position(
                body: body,
                longitude: longitude,
                sign: Sign(containing: longitude),
                isRetrograde: Sky.speed(of: body, at: moment) < 0
            )
        }
    }

    private static func rounded(_ degrees: Double) -> Double {
        let turn = degrees < 0 ? degrees + 360 : degrees
        return (turn * 10_000).rounded() / 10_000
    }
}
