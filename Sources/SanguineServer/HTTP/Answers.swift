import Crypto
import HTTPTypes
import Hummingbird
import NIOCore
import SanguineAuthority
import SanguineModel

extension HTTPField.Name {
    static let idempotencyKey = named("Idempotency-Key")
    static let idempotencyReplayed = named("Idempotency-Replayed")
    static let sanguineHead = named("Sanguine-Head")
    static let userID = named("X-User-Id")
    static let rateLimit = named("RateLimit")
    static let rateLimitPolicy = named("RateLimit-Policy")
    static let cacheStatus = named("Cache-Status")
    static let lastEventID = named("Last-Event-ID")
    static let accelBuffering = named("X-Accel-Buffering")

    private static func named(_ text: String) -> Self {
        guard let name = Self(text) else {
            preconditionFailure("'\(text)' is written above, and is a token of RFC 9110.")
        }
        return name
    }
}

extension HTTPFields {
    /// Adds a field that is not there yet, which setting it by its name would look for.
    mutating func add(_ name: HTTPField.Name, _ value: String) {
        append(HTTPField(name: name, value: value))
    }
}

/// Makes responses of answers.
enum Answers {
    static let json = "application/json"
    static let problemJSON = "application/problem+json"

    /// An answer that was stored with its change, fresh or once more.
    static func answer(_ answer: Answer) -> Response {
        let isProblem = answer.stored.status >= 400
        var headers = HTTPFields()
        headers.add(.contentType, isProblem ? problemJSON : json)
        headers.add(.cacheControl, "no-store")
        if let head = answer.stored.head { headers.add(.sanguineHead, String(head)) }
        if answer.replayed { headers.add(.idempotencyReplayed, "true") }
        return Response(
            status: .init(code: answer.stored.status),
            headers: headers,
            body: .init(byteBuffer: ByteBuffer(bytes: answer.stored.body))
        )
    }

    /// A change that is not stored under a key.
    static func changed(
        _ body: some Encodable,
        status: HTTPResponse.Status = .ok,
        head: Int64?
    ) -> Response {
        let stored = StoredAnswer(status: status.code, body: AnswerEncoder.encode(body), head: head)
        return answer(Answer(stored))
    }

    /// What is the same for everyone, or for its reader alone, with a validator.
    ///
    /// - Parameters:
    ///   - body: The JSON.
    ///   - isPersonal: Whether a shared cache must not keep it.
    ///   - request: The request, whose `If-None-Match` may make the answer 304.
    /// - Returns: 200 with the body, or 304 without it.
    static func read(
        _ body: [UInt8],
        isPersonal: Bool = true,
        to request: Request
    ) -> Response {
        // A hash, and never a feed number: two accounts have the same numbers, and a browser that
        // changed accounts would be told to go on showing the other one's balance.
        let tag = "\"\(hash(body))\""
        var headers = HTTPFields()
        headers.add(.eTag, tag)
        headers.add(.cacheControl, isPersonal ? "private, no-cache" : "no-cache")
        if let known = request.headers[.ifNoneMatch], matches(known, tag) {
            return Response(status: .notModified, headers: headers)
        }
        headers.add(.contentType, json)
        return Response(
            status: .ok,
            headers: headers,
            body: .init(byteBuffer: ByteBuffer(bytes: body))
        )
    }

    static func read(
        _ body: some Encodable,
        isPersonal: Bool = true,
        to request: Request
    ) -> Response {
        read(AnswerEncoder.encode(body), isPersonal: isPersonal, to: request)
    }

    static func problem(_ problem: Problem) -> Response {
        var headers: HTTPFields = [.contentType: problemJSON]
        headers[.cacheControl] = "no-store"
        if let seconds = problem.retryAfter { headers[.retryAfter] = String(seconds) }
        if problem.status == 401 { headers[.wwwAuthenticate] = "Bearer" }
        // What is left of a body that is too large is not worth waiting for.
        if problem.status == 413 { headers[.connection] = "close" }
        return Response(
            status: .init(code: problem.status),
            headers: headers,
            body: .init(byteBuffer: ByteBuffer(bytes: AnswerEncoder.encode(problem)))
        )
    }

    /// `If-None-Match` (RFC 9110, section 13.1.2): a list of tags, compared weakly, or `*`.
    private static func matches(_ header: String, _ tag: String) -> Bool {
        header.split(separator: ",").contains { candidate in
            var candidate = candidate.trimmingPrefix(while: \.isWhitespace)
            while candidate.last?.isWhitespace == true { candidate.removeLast() }
            if candidate.hasPrefix("W/") { candidate.removeFirst(2) }
            return candidate == "*" || candidate == tag
        }
    }

    private static func hash(_ body: [UInt8]) -> String {
        var hash = SHA256.hash(data: body).makeIterator()
        var value: UInt64 = 0
        for _ in 0..<8 { value = value << 8 | UInt64(hash.next() ?? 0) }
        return String(value, radix: 36)
    }
}
