import Foundation

/// The time and place of a birth, valid by construction.
///
/// ```swift
/// let birth = try BirthData(
///     date: "1990-05-17", time: "14:35", zone: "Europe/Istanbul",
///     latitude: 41.0082, longitude: 28.9784
/// )
/// ```
public struct BirthData: Hashable, Sendable {
    /// The date on the calendar of the place, such as `1990-05-17`.
    public let date: String
    /// The time on the clocks of the place, such as `14:35`.
    public let time: String
    /// The name of the time zone, such as `Europe/Istanbul`.
    ///
    /// The database of the IANA promises the history of a zone from 1970 on. Before, it can be that
    /// of a neighbouring zone, and before standard time, that of the zone's main city: four minutes
    /// for each degree of longitude. Convert such a time by hand and choose `UTC`.
    public let zone: String
    /// The latitude in degrees, north positive, rounded to four decimals (11 m).
    public let latitude: Double
    /// The longitude in degrees, east positive, rounded to four decimals.
    public let longitude: Double
    /// Whether the time is the second of two equal ones, after the clocks were set back.
    public let isSecond: Bool
    /// The moment of the birth.
    public let moment: Moment

    /// Checks the data.
    ///
    /// Refusals are decided in the order of the parameters.
    ///
    /// - Parameters:
    ///   - date: A date from 1900 to 2050, as `1990-05-17`.
    ///   - time: A time, as `14:35`.
    ///   - zone: The name of a time zone in the database of the IANA.
    ///   - latitude: Degrees from -90 to 90.
    ///   - longitude: Degrees from -180 to 180.
    ///   - isSecond: Whether the time is the second of two equal ones. Ignored for other times.
    /// - Throws: The reason and what to do.
    public init(
        date: String,
        time: String,
        zone: String,
        latitude: Double,
        longitude: Double,
        isSecond: Bool = false
    ) throws(SkyError) {
        guard let day = Self.day(date) else { throw .date(date) }
        guard let minutes = Self.minutes(time) else { throw .time(time) }
        guard zone.utf8.count <= 64, let timeZone = TimeZone(identifier: zone),
            zone.contains("/") || zone == "UTC"
        else { throw .zone(zone) }
        guard (-90...90).contains(latitude) else { throw .latitude(latitude) }
        guard (-180...180).contains(longitude) else { throw .longitude(longitude) }
        let local = day.timeIntervalSince1970 + Double(minutes * 60)
        let moments = Self.moments(of: local, in: timeZone)
        guard let first = moments.first, let last = moments.last else {
            throw .skippedTime("\(date) \(time)")
        }
        (self.date, self.time, self.zone) = (date, time, zone)
        (self.latitude, self.longitude) = (Self.rounded(latitude), Self.rounded(longitude))
        self.isSecond = isSecond && first != last
        moment = Moment(isSecond ? last : first)
    }

    /// Returns the start of a day in UTC, or `nil` if the text is no day of the years.
    private static func day(_ text: String) -> Date? {
        guard let match = text.wholeMatch(of: /(\d{4})-(\d\d)-(\d\d)/),
            let year = Int(match.1), let month = Int(match.2), let day = Int(match.3),
            Sky.years.contains(year)
        else { return nil }
        var calendar = Calendar(identifier: .gregorian)
        calendar.timeZone = .gmt
        let parts = DateComponents(year: year, month: month, day: day)
        guard let date = calendar.date(from: parts),
            calendar.dateComponents([.year, .month, .day], from: date) == parts
        else { return nil }
        return date
    }

    private static func minutes(_ text: String) -> Int? {
        guard let match = text.wholeMatch(of: /(\d\d):(\d\d)/),
            let hour = Int(match.1), let minute = Int(match.2), hour < 24, minute < 60
        else { return nil }
        return hour * 60 + minute
    }

    /// Returns the moments at which clocks show a time: none, one or two, in order.
    ///
    /// The time is given in seconds since 1970, as if the clocks showed UTC.
    private static func moments(of local: Double, in zone: TimeZone) -> [Date] {
        let offsets = Set(
            [-86_400.0, 86_400].map {
                zone.secondsFromGMT(for: Date(timeIntervalSince1970: local + $0))
            }
        )
        return
            offsets
            .map { (Date(timeIntervalSince1970: local - Double($0)), $0) }
            .filter { zone.secondsFromGMT(for: $0.0) == $0.1 }
            .map(\.0)
            .sorted()
    }

    private static func rounded(_ degrees: Double) -> Double {
        let rounded = (degrees * 10_000).rounded() / 10_000
        return rounded == 0 ? 0 : rounded  // Not minus zero.
    }
}

extension BirthData {
    /// A key of everything that follows from the data: a SHA-256 in hexadecimal digits.
    ///
    /// It is the same in all versions of the app, because it follows from ``canonical`` only.
    public var key: String { SHA256.hexadecimal(of: Array(canonical.utf8)) }

    /// The data as one line of text.
    ///
    /// Coordinates are written in ten-thousandths of a degree, which no locale and no printing of
    /// floating-point numbers affects.
    var canonical: String {
        let place = [latitude, longitude].map { String(Int(($0 * 10_000).rounded())) }
        return "birth 1 \(date) \(time) \(zone) \(place[0]) \(place[1]) \(isSecond ? 2 : 1)"
    }
}

extension BirthData: Codable {
    private enum CodingKeys: String, CodingKey {
        case date, time, zone, latitude, longitude, isSecond
    }

    public init(from decoder: any Decoder) throws {
        let container = try decoder.container(keyedBy: CodingKeys.self)
        do {
            try self.init(
                date: container.decode(String.self, forKey: .date),
                time: container.decode(String.self, forKey: .time),
                zone: container.decode(String.self, forKey: .zone),
                latitude: container.decode(Double.self, forKey: .latitude),
                longitude: container.decode(Double.self, forKey: .longitude),
                isSecond: container.decodeIfPresent(Bool.self, forKey: .isSecond) ?? false
            )
        } catch let error as SkyError {
            // With its path, so that a server names the member.
            throw DecodingError.dataCorrupted(
                .init(codingPath: decoder.codingPath, debugDescription: error.description)
            )
        }
    }

    public func encode(to encoder: any Encoder) throws {
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(date, forKey: .date)
        try container.encode(time, forKey: .time)
        try container.encode(zone, forKey: .zone)
        try container.encode(latitude, forKey: .latitude)
        try container.encode(longitude, forKey: .longitude)
        if isSecond { try container.encode(true, forKey: .isSecond) }
    }
}
