import Foundation

/// A period of a planet or node in a life, with the periods that it consists of.
public struct DashaPeriod: Hashable, Codable, Sendable {
    public let lord: Body
    public let start: Moment
    public let end: Moment
    /// The nine periods within this one, beginning with that of its own lord; empty in a part.
    public let parts: [DashaPeriod]

    /// Returns whether the period contains a moment.
    ///
    /// The end belongs to the next period.
    public func contains(_ moment: Moment) -> Bool { start <= moment && moment < end }
}

/// The system of periods of 120 years, from the Moon's place in its mansion.
///
/// The order and the years of the nine lords are those of the *Brihat Parashara Hora Shastra*,
/// chapter 46 (translation by R. Santhanam), in years of 365.25 days.
public enum Vimshottari {
    /// The lords with their years, beginning with that of the first mansion.
    static let order: [(lord: Body, years: Double)] = [
        (.ketu, 7), (.venus, 20), (.sun, 6), (.moon, 10), (.mars, 7),
        (.rahu, 18), (.jupiter, 16), (.saturn, 19), (.mercury, 17),
    ]

    /// The length of a year, in days.
    public static let year = 365.25

    /// Returns the nine periods from the one that runs at the birth, each with its nine parts.
    public static func periods(of birth: BirthData) -> [DashaPeriod] {
        let moment = birth.moment
        let moon = Sky.longitude(of: .moon, at: moment) - Zodiac.sidereal.origin(at: moment)
        return periods(moon: moon, at: moment)
    }

    /// Returns the periods of a birth with the Moon at a sidereal longitude.
    static func periods(moon longitude: Double, at birth: Moment) -> [DashaPeriod] {
        let moon = Angle.normalized(longitude)
        let nakshatra = Nakshatra(containing: moon)
        // The part of the mansion behind the Moon is the part of the period before the birth.
        let passed = moon / Nakshatra.length - Double(nakshatra.index)
        var first = nakshatra.index % 9
        var start = birth.advanced(byDays: -passed * order[first].years * year)
        var periods: [DashaPeriod] = []
        for _ in order {
            let period = period(of: first, from: start)
            periods.append(period)
            (start, first) = (period.end, (first + 1) % 9)
        }
        return periods
    }

    /// Returns the period of a lord, divided in the proportion of the lords' years.
    private static func period(of index: Int, from start: Moment) -> DashaPeriod {
        let days = order[index].years * year
        var parts: [DashaPeriod] = []
        var partStart = start
        for next in 0..<9 {
            let lord = order[(index + next) % 9]
            let end = partStart.advanced(byDays: days * lord.years / 120)
            parts.append(DashaPeriod(lord: lord.lord, start: partStart, end: end, parts: []))
            partStart = end
        }
        let end = start.advanced(byDays: days)
        return DashaPeriod(lord: order[index].lord, start: start, end: end, parts: parts)
    }
}
