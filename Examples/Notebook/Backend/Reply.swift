import Foundation

/// A response of the backend.
struct Reply: Sendable {
    let status: Int
    let body: Data

    /// Creates a response with a value as JSON, in snake case and with dates in ISO 8601.
    static func json(_ value: some Encodable, status: Int = 200) -> Reply {
        let encoder = JSONEncoder()
        encoder.keyEncodingStrategy = .convertToSnakeCase
        encoder.dateEncodingStrategy = .iso8601
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        guard let body = try? encoder.encode(value) else {
            return Reply(status: 500, body: Data())
        }
        return Reply(status: status, body: body)
    }

    /// A response without a body.
    static let done = Reply(status: 204, body: Data())
}

/// The reason that the backend refuses a request: `{"error": {"code": …, "message": …}}`.
package struct Refusal: Error, Sendable {
    private struct Body: Encodable {
        struct Content: Encodable {
            let code: String
            let message: String
        }
        let error: Content
    }

    let status: Int
    let code: String
    let message: String

    init(_ status: Int, _ code: String, _ message: String) {
        self.status = status
        self.code = code
        self.message = message
    }

    var reply: Reply {
        .json(Body(error: Body.Content(code: code, message: message)), status: status)
    }
}
