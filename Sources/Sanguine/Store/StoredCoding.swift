import Foundation
import SanguineModel

/// The JSON of stored values, which are read back exactly as they were written.
///
/// A date is written in RFC 3339 if that is exact, which it is for whole milliseconds, and
/// otherwise as its seconds since 2001, a number. Numbers that are not finite are strings. Values
/// that are sent are encoded by ``WireCoding``.
enum StoredCoding {
    private static let (positive, negative, none) = ("inf", "-inf", "nan")

    private static let form = StoredForm(
        .missing,
        date: { try StoredForm.eitherDate(from: $0) },
        notFinite: [positive: .infinity, negative: -.infinity, none: .nan],
        encoder: { makeEncoder() }
    )

    static func encode(_ value: some Encodable) throws -> Data {
        try makeEncoder().encode(value)
    }

    private static func makeEncoder() -> JSONEncoder {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        encoder.nonConformingFloatEncodingStrategy = .convertToString(
            positiveInfinity: positive,
            negativeInfinity: negative,
            nan: none
        )
        encoder.dateEncodingStrategy = .custom { date, encoder in
            var container = encoder.singleValueContainer()
            let moment = Timestamp(date)
            if moment.date == date {
                try container.encode(moment.description)
            } else {
                try container.encode(date.timeIntervalSinceReferenceDate)
            }
        }
        return encoder
    }

    static func decode<Value: Decodable>(
        _ type: Value.Type,
        from data: Data
    ) throws(SanguineError) -> Value {
        do {
            return try form.decode(type, from: data)
        } catch {
            throw .decoding("\(type): \(error.memberFault)")
        }
    }
}
