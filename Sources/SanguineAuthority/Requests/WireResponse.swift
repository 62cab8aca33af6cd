import Crypto
package import SanguineModel

/// A response: status, header fields and body.
package struct WireResponse: Sendable {
    /// The HTTP status.
    package var status: Int
    /// The header fields.
    package var fields: [(field: WireField, value: String)]
    /// The body; empty if there is none, or if it is streamed.
    package var body: [UInt8]
    /// The body, if it is streamed.
    ///
    /// Default: none.
    package var stream: WireStream?

    /// The media type of JSON.
    package static let json = "application/json"
    /// The media type of server-sent events (WHATWG HTML, section 9.2).
    package static let eventStream = "text/event-stream"
    /// The media type of a ``Problem`` (RFC 9457).
    package static let problemJSON = "application/problem+json"

    /// Creates a response.
    package init(
        status: Int,
        fields: [(field: WireField, value: String)] = [],
        body: [UInt8] = []
    ) {
        self.status = status
        self.fields = fields
        self.body = body
    }

    /// Creates the response to an operation, either new or replayed.
    package static func answer(_ answer: Answer) -> WireResponse {
        let isProblem = answer.stored.status >= 400
        var fields = [
            (field: WireField.contentType, value: isProblem ? problemJSON : json),
            (.cacheControl, "no-store"),
        ]
        if let head = answer.stored.head { fields.append((.sanguineHead, String(head))) }
        if answer.replayed { fields.append((.idempotencyReplayed, "true")) }
        return WireResponse(status: answer.stored.status, fields: fields, body: answer.stored.body)
    }

    /// Creates the response to a change that is not stored under a key.
    package static func changed(
        _ body: some Encodable,
        status: Int = 200,
        head: Int64?
    ) -> WireResponse {
        answer(Answer(StoredAnswer(status: status, body: ResponseEncoder.encode(body), head: head)))
    }

    /// Creates the response to a read, with a validator.
    ///
    /// - Parameters:
    ///   - body: The JSON.
    ///   - isPersonal: Whether shared caches must not store the response.
    ///   - request: The request, whose `If-None-Match` may lead to 304.
    /// - Returns: 200 with the body, or 304 without it.
    package static func read(
        _ body: [UInt8],
        isPersonal: Bool = true,
        to request: any WireRequest
    ) -> WireResponse {
        read(body, tag: tag(of: body), isPersonal: isPersonal, to: request)
    }

    /// Returns the entity tag of a body.
    ///
    /// It is a hash and never a feed number: two accounts can have the same numbers, and a browser
    /// that switched accounts would continue to show the other account's balance.
    package static func tag(of body: [UInt8]) -> String { "\"\(hash(body))\"" }

    /// Creates the response to a read with a known tag.
    package static func read(
        _ body: [UInt8],
        tag: String,
        isPersonal: Bool,
        type: String = json,
        to request: any WireRequest
    ) -> WireResponse {
        let fields = [
            (field: WireField.etag, value: tag),
            (.cacheControl, isPersonal ? "private, no-cache" : "no-cache"),
        ]
        if let known = request.field(.ifNoneMatch), matches(known, tag) {
            return WireResponse(status: 304, fields: fields)
        }
        return WireResponse(status: 200, fields: fields + [(.contentType, type)], body: body)
    }

    package static func read(
        _ body: some Encodable,
        isPersonal: Bool = true,
        to request: any WireRequest
    ) -> WireResponse {
        read(ResponseEncoder.encode(body), isPersonal: isPersonal, to: request)
    }

    /// Creates the response to a read as of a number of the account's feed.
    static func read(_ body: [UInt8], at head: Int64, to request: any WireRequest) -> WireResponse {
        var answer = read(body, to: request)
        answer.fields.append((.sanguineHead, String(head)))
        return answer
    }

    /// Returns the response with the epoch of its feed numbers.
    ///
    /// These are in the field `Sanguine-Head`, or in the events of a stream.
    package func stamped(with epoch: Epoch) -> WireResponse {
        guard stream != nil || fields.contains(where: { $0.field == .sanguineHead }) else {
            return self
        }
        var answer = self
        answer.fields.append((.sanguineEpoch, epoch.text))
        return answer
    }

    /// Creates the response for a problem.
    package static func problem(_ problem: Problem) -> WireResponse {
        var fields = [
            (field: WireField.contentType, value: problemJSON), (.cacheControl, "no-store"),
        ]
        if let seconds = problem.retryAfter { fields.append((.retryAfter, String(seconds))) }
        if let more = problem.context.value as? ProblemFields { fields += more.fields }
        if problem.status == 401 { fields.append((.wwwAuthenticate, "Bearer")) }
        return WireResponse(
            status: problem.status,
            fields: fields,
            body: ResponseEncoder.encode(problem)
        )
    }

    /// The header fields of a problem's response that its endpoint adds.
    package struct ProblemFields: Sendable {
        var fields: [(field: WireField, value: String)]
    }

    /// Creates the response to an unsupported method, with the supported ones (RFC 9110, sections
    /// 10.2.1 and 15.5.6).
    package static func refusal(allowing methods: some Sequence<String>) -> WireResponse {
        var answer = problem(Problem(.methodNotAllowed, "Use a method that 'Allow' lists."))
        answer.fields.append((.allow, methods.sorted().joined(separator: ", ")))
        return answer
    }

    /// Matches `If-None-Match` (RFC 9110, section 13.1.2): a list of tags, compared weakly, or `*`.
    static func matches(_ header: String, _ tag: String) -> Bool {
        tags(in: header).contains { candidate in
            let candidate = candidate.hasPrefix("W/") ? candidate.dropFirst(2) : candidate
            return candidate == "*" || candidate == tag
        }
    }

    /// Matches `If-Match` (RFC 9110, section 13.1.1): a list of tags, compared strongly, or `*`.
    static func matchesStrongly(_ header: String, _ tag: String) -> Bool {
        tags(in: header).contains { $0 == "*" || $0 == tag }
    }

    private static func tags(in header: String) -> [Substring] {
        header.split(separator: ",").map { tag in
            var tag = tag.trimmingPrefix(while: \.isWhitespace)
            while tag.last?.isWhitespace == true { tag.removeLast() }
            return tag
        }
    }

    private static func hash(_ body: [UInt8]) -> String {
        var hash = SHA256.hash(data: body).makeIterator()
        var value: UInt64 = 0
        for _ in 0..<8 { value = value << 8 | UInt64(hash.next() ?? 0) }
        return String(value, radix: 36)
    }
}
