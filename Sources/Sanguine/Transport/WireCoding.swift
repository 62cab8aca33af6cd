import Foundation
import SanguineModel

/// The JSON of requests and responses.
///
/// Dates are RFC 3339, written with milliseconds, and read with or without decimals, which the
/// encoder's own strategy cannot do. Stored values are encoded by ``StoredCoding``.
enum WireCoding {
    static func encode(_ value: some Encodable) throws -> Data {
        try makeEncoder().encode(value)
    }

    /// Encodes a part of a request, such as "the body", which a failure then names.
    static func encode(
        _ value: some Encodable,
        as subject: String
    ) throws(SanguineError) -> Data {
        do {
            return try encode(value)
        } catch {
            throw .unencodable(subject, error)
        }
    }

    /// The encoder that is also a configuration's default.
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

    /// The decoder that is also a configuration's default.
    static func makeDecoder() -> JSONDecoder {
        let decoder = JSONDecoder()
        decoder.dateDecodingStrategy = .custom { decoder in
            try Timestamp(from: decoder).date
        }
        return decoder
    }

    /// Decodes a value that contains records: their numbers keep all digits, which Foundation's
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

    /// Decodes a response, which a failure then contains.
    static func decode<Value: Decodable>(
        _ type: Value.Type,
        from response: TransportResponse,
        with decoder: JSONDecoder = makeDecoder()
    ) throws(SanguineError) -> Value {
        try recordingFailure(response) { body throws(SanguineError) in
            try decode(type, from: body, with: decoder)
        }
    }

    /// Decodes a response that contains records, see ``decodeRecords(_:from:)-(_,Data)``.
    static func decodeRecords<Value: Decodable>(
        _ type: Value.Type,
        from response: TransportResponse
    ) throws(SanguineError) -> Value {
        try recordingFailure(response) { body throws(SanguineError) in
            try decodeRecords(type, from: body)
        }
    }

    private static func recordingFailure<Value>(
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

    /// Decodes a value; a failure describes where the data differs from the type.
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

extension SanguineError {
    /// A value of the app that JSON cannot represent, so that nothing was sent.
    ///
    /// - Parameters:
    ///   - subject: The part of the request, such as "the body".
    ///   - error: The encoder's error.
    /// - Returns: The error, which names the member but not its value.
    static func unencodable(_ subject: String, _ error: any Error) -> SanguineError {
        var problem = Problem(
            .malformedBody,
            "Give \(subject) only values that JSON can encode: \(error.encodingFault)"
        )
        problem.title = "The request was not sent."
        return .problem(problem)
    }
}

extension Error {
    fileprivate var encodingFault: String {
        guard case .invalidValue(_, let context)? = self as? EncodingError else { return "\(self)" }
        let path = context.codingPath.memberPath
        return (path.isEmpty ? "" : "'\(path)': ") + context.debugDescription
    }
}

extension DecodingError {
    /// Describes where the data differs from the type.
    ///
    /// It contains names of fields but no values of the user's.
    var place: String {
        switch self {
        case .keyNotFound(let key, let context):
            "'\((context.codingPath + [key]).memberPath)' is missing"
        case .typeMismatch(let type, let context):
            "'\(context.codingPath.memberPath)' is not of type \(type)"
        case .valueNotFound(let type, let context):
            "'\(context.codingPath.memberPath)' is null instead of \(type)"
        case .dataCorrupted(let context):
            "'\(context.codingPath.memberPath)' cannot be read"
        @unknown default:
            "it cannot be read"
        }
    }
}
