import Foundation
import SanguineModel
import TestSupport
import Testing

@Suite("Time zone names", .bounded)
struct ZoneNameTests {
    @Test(arguments: [
        "UTC", "GMT", "Europe/Istanbul", "America/Argentina/Ushuaia", "Etc/GMT+5", "Turkey",
        "Japan",
        "EST", "EST5EDT", "PST8PDT", "W-SU", "GB-Eire", "NZ-CHAT", "ROK", "Zulu", "CET", "GMT0",
        "Asia/Calcutta", "US/Pacific",
    ])
    func `current and old names of the database are known`(name: String) {
        #expect(ZoneName.isKnown(name))
    }

    @Test func `every zone that the system lists is known`() {
        let unknown = TimeZone.knownTimeZoneIdentifiers.filter { !ZoneName.isKnown($0) }
        #expect(unknown.isEmpty)
    }

    @Test(arguments: [
        "", "CEST", "PST", "EST5", "GMT+3", "UTC+3", "+03:00", "Europe", "Europe/", "/", "turkey",
        "Mars/Olympus_Mons", "../../etc/passwd", "Europe/Istanbul\u{0}", "Europe/Istanbul ",
    ])
    func `abbreviations, offsets and invented names are unknown`(name: String) {
        #expect(!ZoneName.isKnown(name))
    }
}
