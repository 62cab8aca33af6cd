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

    /// Decodes a value that holds records: their numbers keep all digits, which Foundation's
    /// decoder rounds, and no member is dropped for another one.
    static func decodeRecords<Value: Decodable>(
        _ type: Value.Type,
        from data: Data
    ) throws(SanguineError) -> Value {
        do {
            return try JSONValue(written: Array(data)).decoded(as: type)
        } catch let error as DecodingError {
            throw .decoding("\(type): \(error.place)")
        } catch {
            throw .decoding("\(type): \(error)")
        }
    }

    /// Decodes an answer, which a failure then has with it.
    static func decode<Value: Decodable>(
        _ type: Value.Type,
        from response: TransportResponse,
        with decoder: JSONDecoder = makeDecoder()
    ) throws(SanguineError) -> Value {
        try noting(response) { body throws(SanguineError) in
            try decode(type, from: body, with: decoder)
        }
    }

    /// Decodes an answer that holds records, see ``decodeRecords(_:from:)-(_,Data)``.
    static func decodeRecords<Value: Decodable>(
        _ type: Value.Type,
        from response: TransportResponse
    ) throws(SanguineError) -> Value {
        try noting(response) { body throws(SanguineError) in
            try decodeRecords(type, from: body)
        }
    }

    private static func noting<Value>(
        _ response: TransportResponse,
        _ decode: (Data) throws(SanguineError) -> Value
    ) throws(SanguineError) -> Value {
        do throws(SanguineError) {
            return try decode(response.body)
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
            "'\((context.codingPath + [key]).memberPath)' is missing"
        case .typeMismatch(let type, let context):
            "'\(context.codingPath.memberPath)' is no \(type)"
        case .valueNotFound(let type, let context):
            "'\(context.codingPath.memberPath)' is null and not \(type)"
        case .dataCorrupted(let context):
            "'\(context.codingPath.memberPath)' cannot be read"
        @unknown default:
            "it cannot be read"
        }
    }
}
