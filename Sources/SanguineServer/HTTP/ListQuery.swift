import Foundation
import Hummingbird
import SanguineAuthority
import SanguineModel

/// What every list takes: `?limit=`, `?cursor=` and `?fields=a,b`.
struct ListQuery: Sendable {
    /// How many items, or `nil` for the default; more than the largest page is clamped.
    let limit: Int?
    /// Where to go on, or `nil` for the start.
    let cursor: String?
    /// The members that each item keeps, or `nil` for all.
    let fields: Set<String>?

    /// Reads the query.
    ///
    /// - Throws: `malformed_request` for a limit that is no number of 1 and more, and for a cursor
    ///   that no list gave. Whether it is of this list and account is decided with the page.
    init(_ request: Request) throws(Problem) {
        let parameters = request.uri.queryParameters
        if let text = parameters["limit"] {
            guard let number = Self.number(text), case let limit = Int(clamping: number), limit > 0
            else {
                throw Problem(.malformedRequest, "Set 'limit' to a whole number from 1.")
            }
            self.limit = limit
        } else {
            limit = nil
        }
        cursor = parameters["cursor"].map(String.init)
        if let cursor { try Cursor.checkForm(cursor) }
        let names = parameters["fields"].map { Set($0.split(separator: ",").map(String.init)) }
        fields = names?.isEmpty == false ? names : nil
    }

    /// A whole number of any length, at most the largest there is; `nil` if it is none.
    static func number(_ text: Substring) -> Int64? {
        guard !text.isEmpty, text.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else {
            return nil
        }
        return Int64(text) ?? .max
    }

    /// The page as an answer, with the items' members that were asked for.
    func response<Item>(to request: Request, _ page: Page<Item>) throws -> Response {
        let body = AnswerEncoder.encode(page)
        guard let fields else { return Answers.read(body, to: request) }
        var json = try JSONDecoder().decode(JSONValue.self, from: Data(body))
        guard case .object(var members) = json, case .array(let items) = members["items"] else {
            return Answers.read(body, to: request)
        }
        members["items"] = .array(
            items.map { item in
                guard case .object(let members) = item else { return item }
                return .object(members.filter { fields.contains($0.key) })
            }
        )
        json = .object(members)
        return Answers.read(json, to: request)
    }
}
