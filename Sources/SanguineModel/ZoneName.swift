import Foundation

/// The time zone names that client and server accept: those of the IANA time zone database,
/// including old names that it still links (`Turkey`, `EST5EDT`).
public enum ZoneName {
    /// The maximum number of bytes in a name.
    public static let bytes = 64

    /// Returns whether the database and this system know the name.
    ///
    /// `TimeZone` also accepts abbreviations, offsets and a name with U+0000 after it.
    public static func isKnown(_ name: String) -> Bool {
        guard name.utf8.count <= bytes, name.utf8.allSatisfy(isAllowed),
            withoutArea.contains(name) || name.contains("/")
        else { return false }
        return TimeZone(identifier: name) != nil
    }

    private static func isAllowed(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"), UInt8(ascii: "+"),
            UInt8(ascii: "-"), UInt8(ascii: "/"):
            true
        default: false
        }
    }

    /// The names without an area, from the database's files `etcetera` and `backward`.
    private static let withoutArea: Set<String> = [
        "CET", "CST6CDT", "Cuba", "EET", "EST", "EST5EDT", "Egypt", "Eire", "GB", "GB-Eire", "GMT",
        "GMT+0", "GMT-0", "GMT0", "Greenwich", "HST", "Hongkong", "Iceland", "Iran", "Israel",
        "Jamaica", "Japan", "Kwajalein", "Libya", "MET", "MST", "MST7MDT", "NZ", "NZ-CHAT",
        "Navajo", "PRC", "PST8PDT", "Poland", "Portugal", "ROC", "ROK", "Singapore", "Turkey",
        "UCT", "UTC", "Universal", "W-SU", "WET", "Zulu",
    ]
}
