import Foundation
import SanguineModel

/// JSON as it travels.
///
/// Dates are RFC 3339, written with milliseconds, and read with or without decimals, which the
/// encoder's own strategy cannot do. What is kept on disk is encoded by ``StoredCoding``.
enum WireCoding {
    static func encode(_ value: some Encodable) throws -> Data {
        try makeEncoder().encode(value)
    }

    /// What a configuration begins with, too.
    static func makeEncoder() -> JSONEncoder {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        encoder.dateEncodingStrategy = .custom { date, encoder in
            var container = encoder.singleValueContainer()
            try container.encode(Timestamp(date).description)
        }
        return encoder
    }

    static func decode<Value: Decodable>(
        _ type: Value.Type,
        from data: Data
    ) throws(SanguineError) -> Value {
        try decode(type, from: data, with: makeDecoder())
    }

    /// What a configuration begins with, too.
    static func makeDecoder() -> JSONDecoder {
        let decoder = JSONDecoder()
        decoder.dateDecodingStrategy = .custom { decoder in
            try Timestamp(from: decoder).date
        }
        return decoder
    }

    /// Decodes an answer, which a failure then has with it.
    static func decode<Value: Decodable>(
        _ type: Value.Type,
        from response: TransportResponse,
        with decoder: JSONDecoder = makeDecoder()
    ) throws(SanguineError) -> Value {
        do throws(SanguineError) {
            return try decode(type, from: response.body, with: decoder)
        } catch .decoding(var failure) {
            failure.response = response.short
            throw .decoding(failure)
        }
    }

    /// Decodes, and says of a failure where the data differs from the type.
    static func decode<Value: Decodable>(
        _ type: Value.Type,
        from data: Data,
        with decoder: JSONDecoder
    ) throws(SanguineError) -> Value {
        do {
            return try decoder.decode(type, from: data)
        } catch let error as DecodingError {
            throw .decoding("\(type): \(error.place)")
        } catch {
            throw .decoding("\(type): \(error)")
        }
    }
}

extension DecodingError {
    /// Where the data differs from the type.
    ///
    /// Holds names of fields and never a value of the user's.
    fileprivate var place: String {
        switch self {
        case .keyNotFound(let key, let context):
            "'\(Self.path(context.codingPath + [key]))' is missing"
        case .typeMismatch(let type, let context):
            "'\(Self.path(context.codingPath))' is no \(type)"
        case .valueNotFound(let type, let context):
            "'\(Self.path(context.codingPath))' is null and not \(type)"
        case .dataCorrupted(let context):
            "'\(Self.path(context.codingPath))' cannot be read"
        @unknown default:
            "it cannot be read"
        }
    }

    private static func path(_ keys: [any CodingKey]) -> String {
        keys.map { $0.intValue.map(String.init) ?? $0.stringValue }.joined(separator: ".")
    }
}

/// The `Retry-After` header (RFC 9110, section 10.2.3): seconds, or a date.
enum RetryAfter {
    /// Whole seconds to wait from now, zero and more, or `nil` if the header cannot be read.
    static func seconds(_ header: String, now: Timestamp) -> Int? {
        let text = header.trimmingCharacters(in: .whitespaces)
        if let seconds = Int(text) { return max(0, seconds) }
        return date(text).map { max(0, ($0 - now).secondsRoundedUp) }
    }

    private static let months = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ]

    // `Sun, 06 Nov 1994 08:49:37 GMT`, rewritten for the parser of RFC 3339.
    private static func date(_ text: String) -> Timestamp? {
        let parts = text.split(separator: " ")
        guard parts.count == 6, parts[5] == "GMT", parts[1].count == 2,
            let month = months.firstIndex(of: String(parts[2]))
        else { return nil }
        let number = month < 9 ? "0\(month + 1)" : "\(month + 1)"
        return Timestamp("\(parts[3])-\(number)-\(parts[1])T\(parts[4])Z")
    }
}
