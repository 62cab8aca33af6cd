import Foundation

/// What the backend answers a request with.
struct Reply: Sendable {
    let status: Int
    let body: Data

    /// A value as JSON, in snake case and with dates of ISO 8601.
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

    /// Done, and nothing to say.
    static let done = Reply(status: 204, body: Data())
}

/// Why the backend does not do what it was asked: `{"error": {"code": …, "message": …}}`.
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
