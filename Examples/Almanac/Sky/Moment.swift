public import Foundation

/// A moment in universal time, as a Julian day.
///
/// It is encoded as a date and time in ISO 8601 with whole seconds, such as `1999-12-31T23:59:59Z`.
public struct Moment: Hashable, Comparable, Sendable {
    /// The Julian day at the start of 1970.
    private static let epoch1970 = 2_440_587.5

    /// The days since noon of the 1st of January 4713 BC.
    public let julianDay: Double

    public init(julianDay: Double) { self.julianDay = julianDay }

    public init(_ date: Date) {
        julianDay = Self.epoch1970 + date.timeIntervalSince1970 / 86_400
    }

    public var date: Date {
        Date(timeIntervalSince1970: (julianDay - Self.epoch1970) * 86_400)
    }

    public static func < (first: Self, second: Self) -> Bool {
        first.julianDay < second.julianDay
    }

    /// Returns the moment a number of days later.
    public func advanced(byDays days: Double) -> Self { Self(julianDay: julianDay + days) }

    /// The year in UTC.
    public var year: Int {
        Int(description.prefix(while: { $0 != "-" })) ?? 0
    }

    /// The year with its fraction, which is exact to a day.
    var decimalYear: Double { 2000 + (julianDay - 2_451_544.5) / 365.2425 }

    /// The Julian centuries of terrestrial time since 2000-01-01 12:00.
    var centuries: Double {
        (julianDay + Self.deltaT(inYear: decimalYear) / 86_400 - 2_451_545) / 36_525
    }

    /// Returns terrestrial time minus universal time in seconds, for a year from 1860 to 2150.
    ///
    /// The polynomials are those of Espenak and Meeus, *Five Millennium Canon of Solar Eclipses*,
    /// NASA/TP-2006-214141, section 2.7. For years after 2005 they are a prediction, which is 6
    /// seconds more than the observed value in 2025: the Moon moves 3″ in this time.
    static func deltaT(inYear year: Double) -> Double {
        let t = year - 2000
        switch year {
        case ..<1900:
            let t = year - 1860
            return Angle.polynomial(
                t,
                [7.62, 0.5737, -0.251754, 0.01680668, -0.0004473624, 1 / 233_174]
            )
        case ..<1920:
            return Angle.polynomial(
                year - 1900,
                [-2.79, 1.494119, -0.0598939, 0.0061966, -0.000197]
            )
        case ..<1941:
            return Angle.polynomial(year - 1920, [21.20, 0.84493, -0.076100, 0.0020936])
        case ..<1961:
            return Angle.polynomial(year - 1950, [29.07, 0.407, -1 / 233, 1 / 2547])
        case ..<1986:
            return Angle.polynomial(year - 1975, [45.45, 1.067, -1 / 260, -1 / 718])
        case ..<2005:
            return Angle.polynomial(
                t,
                [63.86, 0.3345, -0.060374, 0.0017275, 0.000651814, 0.00002373599]
            )
        case ..<2050:
            return Angle.polynomial(t, [62.92, 0.32217, 0.005589])
        default:
            let u = (year - 1820) / 100
            return -20 + 32 * u * u - 0.5628 * (2150 - year)
        }
    }
}

extension Moment: Codable, CustomStringConvertible {
    /// The moment in ISO 8601, in UTC.
    public var description: String {
        Date(timeIntervalSince1970: date.timeIntervalSince1970.rounded())
            .formatted(.iso8601)
    }

    public init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        let text = try container.decode(String.self)
        guard let date = try? Date(text, strategy: .iso8601) else {
            throw DecodingError.dataCorruptedError(
                in: container,
                debugDescription: "Write a moment as '1999-12-31T23:59:59Z'."
            )
        }
        self.init(date)
    }

    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(description)
    }
}
