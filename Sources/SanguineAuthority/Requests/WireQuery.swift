import Foundation
import SanguineModel

/// The parameters of a request, in order; if several have the same name, the first one counts.
package struct WireQuery: Sendable {
    /// The parameters, percent-decoded.
    package let items: [(name: String, value: String)]

    /// Creates a query.
    package init(_ items: [(name: String, value: String)] = []) { self.items = items }

    package subscript(_ name: String) -> String? {
        items.first { $0.name.hasBytes(of: name) }?.value
    }

    /// Returns a whole number, clamped to the largest integer; `nil` if the parameter is missing.
    ///
    /// - Throws: `malformed_request` for a value that is not a number of at least `least`.
    func number(_ name: String, from least: Int64 = 0) throws(Problem) -> Int64? {
        guard let text = self[name] else { return nil }
        guard let number = Self.number(text), number >= least else {
            throw Problem(.malformedRequest, "Set '\(name)' to a whole number, at least \(least).")
        }
        return number
    }

    /// Returns the comma-separated parts, at most ``WireLimits/operationsAsked``; `nil` if the
    /// parameter is missing.
    ///
    /// - Throws: `malformed_request` for more parts.
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

/// The common parameters of lists: `?limit=`, `?cursor=` and `?fields=a,b`.
struct WireListQuery: Sendable {
    /// The number of items, or `nil` for the default; more than the largest page is clamped.
    let limit: Int?
    /// The cursor from which the list continues, or `nil` for the beginning.
    let cursor: String?
    /// The members to return of each item, or `nil` for all.
    let fields: Set<String>?

    /// Parses the query.
    ///
    /// - Throws: `malformed_request` for a limit that is not a number of 1 or more, and for a
    ///   malformed cursor. The page checks whether the cursor belongs to this list and account.
    init(_ query: WireQuery) throws(Problem) {
        limit = try query.number("limit", from: 1).map { Int(clamping: $0) }
        cursor = query["cursor"]
        if let cursor { try CursorSeal.checkForm(cursor) }
        fields = Self.fields(query)
    }

    /// Returns the members that `fields` selects, or `nil` for all.
    static func fields(_ query: WireQuery) -> Set<String>? {
        guard let text = query["fields"] else { return nil }
        let names = text.utf8.split(separator: UInt8(ascii: ",")).map { String(Substring($0)) }
        let usable = Set(names.filter(\.isMemberName))  // No member has another name.
        return usable.isEmpty ? nil : usable
    }

    /// Creates the response for a page, with the requested members of its items.
    func answer<Item>(to request: any WireRequest, _ page: ListPage<Item>) -> WireResponse {
        let body = ResponseEncoder.encode(page)
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
