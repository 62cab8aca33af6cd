import Foundation

/// A value that can stand in a query's key: equal values have equal encodings.
///
/// Strings, numbers, dates, UUIDs, `Identifier`s, and enums and structs that conform.
public typealias QueryParameter = Encodable & Hashable & Sendable

/// What a query is known by, in memory and on disk: its name and its parameters as text.
///
/// The text is normalized: to Swift `é` as one scalar equals `é` as two, SQLite compares bytes, and
/// a query must be one in both. The hash is computed once, because `cached` looks a key up far more
/// often than it is made.
struct QueryKey: Hashable, Sendable {
    let text: String
    private let hash: Int

    init(name: String, parameters: [any QueryParameter]) {
        var text = Self.escaped(name)
        for parameter in parameters {
            text += "/"
            text += Self.text(of: parameter)
        }
        text = text.normalized
        self.text = text
        hash = text.hashValue
    }

    static func == (lhs: QueryKey, rhs: QueryKey) -> Bool {
        lhs.hash == rhs.hash && lhs.text == rhs.text
    }

    func hash(into hasher: inout Hasher) { hasher.combine(hash) }

    // Names and texts are escaped, so that no two lists of parameters give one key.
    private static func text(of parameter: any QueryParameter) -> String {
        switch parameter {
        case let text as String:
            return "\"" + escaped(text) + "\""
        case let number as Int:
            return String(number)
        default:
            // As on disk: two moments of one millisecond are two parameters.
            if let data = try? StoredCoding.encode(parameter) {
                return escaped(String(decoding: data, as: UTF8.self))
            }
            // What cannot be encoded still has a description.
            return "?" + escaped(String(reflecting: parameter))
        }
    }

    private static func escaped(_ text: String) -> String {
        guard text.utf8.contains(where: { $0 == UInt8(ascii: "/") || $0 == UInt8(ascii: "%") })
        else { return text }
        return text.replacingOccurrences(of: "%", with: "%25")
            .replacingOccurrences(of: "/", with: "%2F")
    }
}

extension String {
    /// The text in Unicode's normalization form C: equal texts have the same bytes.
    var normalized: String {
        utf8.allSatisfy { $0 < 0x80 } ? self : precomposedStringWithCanonicalMapping
    }
}
