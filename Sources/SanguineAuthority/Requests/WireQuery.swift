import Foundation
import SanguineModel

/// The parameters of a request, in their order; of several with one name the first one counts.
package struct WireQuery: Sendable {
    /// The parameters, percent-decoded.
    package let items: [(name: String, value: String)]

    /// Creates a query.
    package init(_ items: [(name: String, value: String)] = []) { self.items = items }

    package subscript(_ name: String) -> String? {
        items.first { $0.name.hasBytes(of: name) }?.value
    }

    /// A whole number, at most the largest there is; `nil` if the parameter is missing.
    ///
    /// - Throws: `malformed_request` for what is no number from `least`.
    func number(_ name: String, from least: Int64 = 0) throws(Problem) -> Int64? {
        guard let text = self[name] else { return nil }
        guard let number = Self.number(text), number >= least else {
            throw Problem(.malformedRequest, "Set '\(name)' to a whole number from \(least).")
        }
        return number
    }

    /// The parts between commas, at most ``WireLimits/operationsAsked``; `nil` if the parameter is
    /// missing.
    ///
    /// - Throws: `malformed_request` for more.
    func operations() throws(Problem) -> [Substring]? {
        guard
            let operations = self["operations"]?.utf8.split(separator: UInt8(ascii: ","))
                .map(Substring.init)
        else { return nil }
        guard operations.count <= WireLimits.operationsAsked else {
            throw Problem(
                .malformedRequest,
                "Ask about at most \(WireLimits.operationsAsked) operations."
            )
        }
        return operations
    }

    private static func number(_ text: String) -> Int64? {
        guard !text.isEmpty, text.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else {
            return nil
        }
        return Int64(text) ?? .max
    }
}

/// What every list takes: `?limit=`, `?cursor=` and `?fields=a,b`.
struct WireListQuery: Sendable {
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
    init(_ query: WireQuery) throws(Problem) {
        limit = try query.number("limit", from: 1).map { Int(clamping: $0) }
        cursor = query["cursor"]
        if let cursor { try CursorSeal.checkForm(cursor) }
        let names = query["fields"].map { text in
            let names = text.utf8.split(separator: UInt8(ascii: ",")).map { String(Substring($0)) }
            return Set(names.filter(\.isMemberName))  // No member has another name.
        }
        fields = names?.isEmpty == false ? names : nil
    }

    /// The page as an answer, with the items' members that were asked for.
    func answer<Item>(to request: any WireRequest, _ page: ListPage<Item>) -> WireAnswer {
        let body = AnswerEncoder.encode(page)
        guard let fields,
            case .object(var members)? = try? JSONValue(stored: body),
            case .array(let items) = members["items"]
        else { return .read(body, to: request) }
        members["items"] = .array(
            items.map { item in
                guard case .object(let members) = item else { return item }
                return .object(members.filter { fields.contains($0.key) })
            }
        )
        return .read(JSONValue.object(members), to: request)
    }
}
