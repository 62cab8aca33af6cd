import Foundation
import SanguineModel

/// JSON as values are kept on disk: what is read is what was written, to the last bit.
///
/// A date is RFC 3339 where that says all of it, which is so for whole milliseconds, and otherwise
/// its seconds since 2001 as a number. Numbers that are not finite are strings. What travels is
/// encoded by ``WireCoding``.
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
