import Foundation
package import SanguineModel

/// Reads the bodies of requests.
package enum WireBody {
    /// Whether a `Content-Type` says JSON.
    package static func isJSON(_ contentType: String?) -> Bool {
        guard let contentType else { return false }
        if contentType == WireAnswer.json { return true }
        let type = contentType.prefix { $0 != ";" && $0 != " " }.lowercased()
        return type == WireAnswer.json || type.hasSuffix("+json")
    }

    /// The body that was sent: none at all counts as `{}`.
    ///
    /// - Throws: `unsupported_media_type`.
    package static func checked(
        _ bytes: [UInt8],
        _ contentType: String?
    ) throws(Problem) -> [UInt8] {
        guard !bytes.isEmpty else { return Array("{}".utf8) }
        guard isJSON(contentType) else {
            throw Problem(.unsupportedMediaType, "Send 'Content-Type: application/json'.")
        }
        return bytes
    }

    /// Decodes JSON: what is none is thrown, what is JSON of another shape is returned.
    package static func decode<Content: Decodable>(
        _ type: Content.Type,
        from bytes: [UInt8],
        values: Int = JSONBounds.values
    ) throws(Problem) -> Result<Content, Problem> {
        guard mayBeUTF8(bytes) else { throw .noObject }
        guard bytes.withUnsafeBytes({ JSONBounds.hold(for: $0, values: values) }) else {
            throw Problem(
                .malformedBody,
                """
                Send at most \(values) values, nested at most \(JSONBounds.nesting) deep.
                """
            )
        }
        do {
            return .success(try JSONDecoder().decode(type, from: Data(bytes)))
        } catch let error as DecodingError {
            // The error does not tell broken JSON from a number that does not fit; the body does.
            if isJSON(bytes), let problem = content(error) { return .failure(problem) }
        } catch {}
        throw .noObject
    }

    /// The problem of a body of more bytes than are taken.
    package static func tooLarge(_ limit: Int) -> Problem {
        Problem(.bodyTooLarge, "Send at most \(limit) bytes.")
    }

    private static func isJSON(_ bytes: [UInt8]) -> Bool {
        (try? JSONDecoder().decode(JSONValue.self, from: Data(bytes))) != nil
    }

    /// Whether the body is not UTF-16 or UTF-32, which the decoder would read as well.
    private static func mayBeUTF8(_ bytes: [UInt8]) -> Bool {
        bytes.prefix(2).allSatisfy { $0 != 0 && $0 < 0xFE }
    }

    /// The problem of JSON that has another shape than the call takes, or `nil` if it is no object.
    private static func content(_ error: DecodingError) -> Problem? {
        switch error {
        case .keyNotFound(let key, let context):
            let path = (context.codingPath + [key]).map(\.stringValue).joined(separator: ".")
            return Problem(.invalidContent, "Add the member '\(path)'.")
        case .typeMismatch(_, let context), .valueNotFound(_, let context):
            guard !context.codingPath.isEmpty else { return nil }
            return wrong(context)
        case .dataCorrupted(let context):
            guard !context.codingPath.isEmpty else {
                return Problem(.invalidContent, "Set each member to a value of its type.")
            }
            return wrong(context)
        @unknown default:
            return nil
        }
    }

    private static func wrong(_ context: DecodingError.Context) -> Problem {
        let path = context.codingPath.map(\.stringValue).joined(separator: ".")
        return Problem(.invalidContent, "Set the member '\(path)' to a value of its type.")
    }
}

extension Problem {
    fileprivate static var noObject: Problem {
        Problem(.malformedBody, "Send a JSON object in UTF-8.")
    }
}
