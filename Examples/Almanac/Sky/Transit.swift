import Foundation

/// The entry of a body into a sign.
public struct Transit: Hashable, Codable, Sendable {
    public let body: Body
    /// The sign that the body enters.
    public let sign: Sign
    /// The moment, to a second of the computed longitude.
    ///
    /// An error of 0.006° in the longitude is two hours of Jupiter's usual motion and five of
    /// Saturn's; near a station it can be days.
    public let moment: Moment
    /// Whether the body moves backward, into the sign before.
    public let isRetrograde: Bool

    /// The bodies whose entries ``all(in:of:zodiac:)`` finds by default.
    public static let slowBodies: [Body] = [.mars, .jupiter, .saturn, .rahu, .ketu]

    /// Returns the entries in a year of UTC, in the order of time.
    ///
    /// A visit of a sign that lasts less than a day, which needs a station on the border, is not
    /// found.
    ///
    /// - Throws: ``SkyError/year(_:)`` for a year that is not in ``Sky/years``.
    public static func all(
        in year: Int,
        of bodies: [Body] = slowBodies,
        zodiac: Zodiac = .sidereal
    ) throws(SkyError) -> [Transit] {
        guard Sky.years.contains(year) else { throw .year(year) }
        let (start, end) = (Self.start(of: year), Self.start(of: year + 1))
        return bodies.flatMap { body in entries(of: body, zodiac, from: start, to: end) }
            .sorted { $0.moment < $1.moment }
    }

    private static func entries(
        of body: Body,
        _ zodiac: Zodiac,
        from start: Moment,
        to end: Moment
    ) -> [Transit] {
        let place = { (moment: Moment) in
            Angle.normalized(Sky.longitude(of: body, at: moment) - zodiac.origin(at: moment))
        }
        var transits: [Transit] = []
        var (before, known) = (start, place(start))
        while before < end {
            let after = min(before.advanced(byDays: 1), end)
            let next = place(after)
            if Sign(containing: next) != Sign(containing: known) {
                let isRetrograde = Angle.difference(from: known, to: next) < 0
                let border = Sign(containing: isRetrograde ? known : next).index * 30
                let moment = crossing(of: Double(border), between: before, and: after, place)
                let sign = Sign(containing: Double(border) + (isRetrograde ? -15 : 15))
                transits.append(
                    Transit(body: body, sign: sign, moment: moment, isRetrograde: isRetrograde)
                )
            }
            (before, known) = (after, next)
        }
        return transits
    }

    /// Returns the moment at which the place crosses a border, by halving the time.
    private static func crossing(
        of border: Double,
        between start: Moment,
        and end: Moment,
        _ place: (Moment) -> Double
    ) -> Moment {
        var (start, end) = (start, end)
        let side = Angle.difference(from: border, to: place(start)) < 0
        // A day is halved 17 times to less than a second.
        for _ in 0..<17 {
            let middle = start.advanced(byDays: (end.julianDay - start.julianDay) / 2)
            if (Angle.difference(from: border, to: place(middle)) < 0) == side {
                start = middle
            } else {
                end = middle
            }
        }
        return end
    }

    /// Returns the start of a year in UTC.
    private static func start(of year: Int) -> Moment {
        let days = (year - 1) * 365 + (year - 1) / 4 - (year - 1) / 100 + (year - 1) / 400
        return Moment(julianDay: 1_721_425.5 + Double(days))
    }
}
