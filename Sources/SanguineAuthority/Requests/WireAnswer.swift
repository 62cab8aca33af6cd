import Crypto
package import SanguineModel

/// What a request is answered with: status, header fields and body.
package struct WireAnswer: Sendable {
    /// The HTTP status.
    package var status: Int
    /// The header fields that belong to the answer.
    package var fields: [(field: WireField, value: String)]
    /// The body; empty if there is none, or if it comes in parts.
    package var body: [UInt8]
    /// The body, if it comes in parts.
    ///
    /// Default: none.
    package var stream: WireStream?

    /// The type of JSON.
    package static let json = "application/json"
    /// The type of server-sent events (WHATWG HTML, section 9.2).
    package static let eventStream = "text/event-stream"
    /// The type of a ``Problem`` (RFC 9457).
    package static let problemJSON = "application/problem+json"

    /// Creates an answer.
    package init(
        status: Int,
        fields: [(field: WireField, value: String)] = [],
        body: [UInt8] = []
    ) {
        self.status = status
        self.fields = fields
        self.body = body
    }

    /// An answer that was stored with its change, fresh or once more.
    package static func answer(_ answer: Answer) -> WireAnswer {
        let isProblem = answer.stored.status >= 400
        var fields = [
            (field: WireField.contentType, value: isProblem ? problemJSON : json),
            (.cacheControl, "no-store"),
        ]
        if let head = answer.stored.head { fields.append((.sanguineHead, String(head))) }
        if answer.replayed { fields.append((.idempotencyReplayed, "true")) }
        return WireAnswer(status: answer.stored.status, fields: fields, body: answer.stored.body)
    }

    /// A change that is not stored under a key.
    package static func changed(
        _ body: some Encodable,
        status: Int = 200,
        head: Int64?
    ) -> WireAnswer {
        answer(Answer(StoredAnswer(status: status, body: AnswerEncoder.encode(body), head: head)))
    }

    /// What is the same for everyone, or for its reader alone, with a validator.
    ///
    /// - Parameters:
    ///   - body: The JSON.
    ///   - isPersonal: Whether a shared cache must not keep it.
    ///   - request: The request, whose `If-None-Match` may make the answer 304.
    /// - Returns: 200 with the body, or 304 without it.
    package static func read(
        _ body: [UInt8],
        isPersonal: Bool = true,
        to request: any WireRequest
    ) -> WireAnswer {
        read(body, tag: tag(of: body), isPersonal: isPersonal, to: request)
    }

    /// The tag of a body.
    ///
    /// A hash, and never a feed number: two accounts have the same numbers, and a browser that
    /// changed accounts would be told to go on showing the other one's balance.
    package static func tag(of body: [UInt8]) -> String { "\"\(hash(body))\"" }

    /// What was read, with a tag that is known.
    package static func read(
        _ body: [UInt8],
        tag: String,
        isPersonal: Bool,
        to request: any WireRequest
    ) -> WireAnswer {
        let fields = [
            (field: WireField.etag, value: tag),
            (.cacheControl, isPersonal ? "private, no-cache" : "no-cache"),
        ]
        if let known = request.field(.ifNoneMatch), matches(known, tag) {
            return WireAnswer(status: 304, fields: fields)
        }
        return WireAnswer(status: 200, fields: fields + [(.contentType, json)], body: body)
    }

    package static func read(
        _ body: some Encodable,
        isPersonal: Bool = true,
        to request: any WireRequest
    ) -> WireAnswer {
        read(AnswerEncoder.encode(body), isPersonal: isPersonal, to: request)
    }

    /// What was read as of a number of the account's feed.
    static func read(_ body: [UInt8], at head: Int64, to request: any WireRequest) -> WireAnswer {
        var answer = read(body, to: request)
        answer.fields.append((.sanguineHead, String(head)))
        return answer
    }

    /// The answer with the epoch of its numbers.
    ///
    /// A number is in a field `Sanguine-Head`, or in an event of a stream.
    package func stamped(with epoch: Epoch) -> WireAnswer {
        guard stream != nil || fields.contains(where: { $0.field == .sanguineHead }) else {
            return self
        }
        var answer = self
        answer.fields.append((.sanguineEpoch, epoch.text))
        return answer
    }

    /// A refusal.
    package static func problem(_ problem: Problem) -> WireAnswer {
        var fields = [
            (field: WireField.contentType, value: problemJSON), (.cacheControl, "no-store"),
        ]
        if let seconds = problem.retryAfter { fields.append((.retryAfter, String(seconds))) }
        if problem.status == 401 { fields.append((.wwwAuthenticate, "Bearer")) }
        return WireAnswer(
            status: problem.status,
            fields: fields,
            body: AnswerEncoder.encode(problem)
        )
    }

    /// The refusal of a method that a path does not take, with those that it takes (RFC 9110,
    /// sections 10.2.1 and 15.5.6).
    package static func refusal(allowing methods: some Sequence<String>) -> WireAnswer {
        var answer = problem(Problem(.methodNotAllowed, "Use a method that 'Allow' names."))
        answer.fields.append((.allow, methods.sorted().joined(separator: ", ")))
        return answer
    }

    /// `If-None-Match` (RFC 9110, section 13.1.2): a list of tags, compared weakly, or `*`.
    static func matches(_ header: String, _ tag: String) -> Bool {
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

extension Problem {
    /// What is answered where nothing is served.
    package static var noEndpoint: Problem {
        Problem(.notFound, "Check method and path against /openapi.json.")
    }
}
