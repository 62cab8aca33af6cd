import Foundation
import Sanguine
import SanguineModel

/// A network with a long feed whose pages are slices of prepared bytes.
///
/// It accepts no operations, so performed operations stay pending.
final class RecordFeed: HTTPTransport {
    private let records: Data
    /// The start of each record's JSON, and the end of the last one.
    private let places: [Int]
    private let guest: Data

    var count: Int { places.count - 1 }

    /// Creates a feed.
    ///
    /// - Parameters:
    ///   - count: The number of its records.
    ///   - record: Returns the JSON of the record with a number, from 1. Default: a note.
    /// - Throws: The error of encoding its account.
    init(count: Int, _ record: (Int) -> String = RecordFeed.note) throws {
        var records = Data()
        var places = [0]
        for number in 1...max(1, count) {
            records += Data(record(number).utf8) + Data(",".utf8)
            places.append(records.count)
        }
        self.records = records
        self.places = places
        let account = Account(
            id: Identifier(at: Timestamp(millisecondsSince1970: 0)),
            kind: .guest,
            timeZone: "UTC",
            language: "en",
            createdAt: Timestamp(millisecondsSince1970: 0)
        )
        let session = Session(accessToken: "a", expiresIn: 900, refreshToken: "r")
        guest = try JSONEncoder().encode(SignedIn(account: account, session: session))
    }

    static let text = "A note of a length that notes have, on average, in a list of notes."

    static func id(_ number: Int) -> String { "note-\(number)" }

    private static func note(_ number: Int) -> String {
        """
        {"collection":"notes","id":"\(id(number))","seq":\(number),"deleted":false,\
        "value":{"text":"\(text)","count":\(number)}}
        """
    }

    func send(_ request: TransportRequest) async throws(TransportError) -> TransportResponse {
        switch request.url.path() {
        case "/v1/accounts/guest": answer(guest)
        case "/v1/sync/pull": answer(page(of: request.url))
        default: throw .offline("The benchmark's network accepts no writes.")
        }
    }

    private func answer(_ body: Data) -> TransportResponse {
        TransportResponse(status: 200, headers: ["content-type": "application/json"], body: body)
    }

    private func page(of url: URL) -> Data {
        let items = URLComponents(url: url, resolvingAgainstBaseURL: false)?.queryItems ?? []
        let numbers = Dictionary(items.map { ($0.name, Int($0.value ?? "") ?? 0) }) { $1 }
        let since = min(max(0, numbers["since"] ?? 0), count)
        let end = min(since + (numbers["limit"] ?? 100), count)
        var body = Data(#"{"changes":["#.utf8)
        if since < end { body += records[places[since]..<(places[end] - 1)] }
        let rest = #"],"next":\#(end),"head":\#(count),"hasMore":\#(end < count),"reset":false}"#
        body += Data(rest.utf8)
        return body
    }
}
