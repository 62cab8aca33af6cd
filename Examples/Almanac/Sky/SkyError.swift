/// The reason why data of a birth, or a computation with it, is refused.
public enum SkyError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The date is not in the calendar, or not in ``Sky/years``.
    case date(String)
    case time(String)
    /// The clocks were set forward over the time.
    case skippedTime(String)
    case zone(String)
    case latitude(Double)
    case longitude(Double)
    /// The place is beyond a polar circle.
    case polarLatitude(Double)
    /// The year is not in ``Sky/years``.
    case year(Int)

    /// What failed and what to do, in two short sentences.
    public var description: String {
        switch self {
        case .date(let text):
            """
            The date '\(text)' is not a day from \(Sky.years.lowerBound) to \
            \(Sky.years.upperBound). Write it as '1999-12-31'.
            """
        case .time(let text):
            "The time '\(text)' is not a time of day. Write it as '23:59'."
        case .skippedTime(let text):
            """
            The clocks were set forward over '\(text)' in this zone. Set the time that a clock \
            showed, an hour earlier or later.
            """
        case .zone(let text):
            "The time zone '\(text)' is unknown. Use a name such as 'Europe/Istanbul'."
        case .latitude(let degrees):
            "The latitude \(degrees) does not exist. Set a value from -90 to 90."
        case .longitude(let degrees):
            "The longitude \(degrees) does not exist. Set a value from -180 to 180."
        case .polarLatitude(let degrees):
            """
            No ascendant is defined at all hours at the latitude \(degrees). Set the latitude of \
            a place between the polar circles.
            """
        case .year(let year):
            """
            The positions in the year \(year) are not exact enough. Choose a year from \
            \(Sky.years.lowerBound) to \(Sky.years.upperBound).
            """
        }
    }
}
