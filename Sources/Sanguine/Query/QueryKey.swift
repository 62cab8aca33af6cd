import Foundation

/// A value that can be part of a query's key: equal values have equal encodings.
///
/// Strings, numbers, dates, UUIDs, `Identifier`s, and enums and structs that conform.
public typealias QueryParameter = Encodable & Hashable & Sendable

/// The key of a query, in memory and on disk: its name and its parameters as text.
///
/// The text is normalized, because Swift treats `é` as one scalar and as two as equal, but SQLite
/// compares bytes. The hash is computed once, because keys are looked up far more often than they
/// are created.
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

    /// The name of the query.
    var name: String {
        String(text.prefix { $0 != "/" }).replacingOccurrences(of: "%2F", with: "/")
            .replacingOccurrences(of: "%25", with: "%")
    }

    static func == (lhs: QueryKey, rhs: QueryKey) -> Bool {
        lhs.hash == rhs.hash && lhs.text == rhs.text
    }

    func hash(into hasher: inout Hasher) { hasher.combine(hash) }

    // Names and strings are escaped, so that different parameters never produce the same key.
    private static func text(of parameter: any QueryParameter) -> String {
        switch parameter {
        case let text as String:
            return "\"" + escaped(text) + "\""
        case let number as Int:
            return String(number)
        default:
            // Encoded as on disk, so that two times within one millisecond are different
            // parameters.
            if let data = try? StoredCoding.encode(parameter) {
                return escaped(String(decoding: data, as: UTF8.self))
            }
            // A parameter that cannot be encoded is described.
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
    /// The text in Unicode normalization form C, in which equal strings have the same bytes.
    var normalized: String {
        utf8.allSatisfy { $0 < 0x80 } ? self : precomposedStringWithCanonicalMapping
    }
}
