import Foundation
import HTTPTypes
import Hummingbird
import NIOCore
import NIOHTTPTypes
import SanguineAuthority
import SanguineModel

/// Lets a request in, or refuses it.
///
/// In the order of the wire contract: malformed (400, 413, 415), unauthenticated (401), another's
/// identity (403), too fast (429). What comes after is the handler's and the authority's.
struct Gate: Sendable {
    let authority: Authority
    let bodyBytes: Int
    let uploads: UploadWatch
    let accountLimiter: RateLimiter<Identifier>
    let addressLimiter: RateLimiter<String>

    /// A request that was let in.
    struct Admitted<Content: Sendable>: Sendable {
        var identity: Identity
        var submission: Submission<Content>
    }

    /// Lets in a request that reads.
    func read(_ request: Request, _ context: ServerContext) async throws(Problem) -> Identity {
        let identity = try await authenticate(request)
        try checkRate(identity, context)
        return identity
    }

    /// Lets in a request for a live connection.
    func live(_ request: Request, _ context: ServerContext) async throws(Problem) -> AccessPass {
        let pass = try await pass(request)
        try checkRate(pass.identity, context)
        return pass
    }

    /// Lets in a request for a live connection that came with a ticket.
    func live(
        _ request: Request,
        _ context: ServerContext,
        _ pass: AccessPass
    ) throws(Problem) -> AccessPass {
        try authority.tokens.check(pass)
        try checkClaim(request, pass.identity)
        try checkRate(pass.identity, context)
        return pass
    }

    /// Who sends a request, and for how long its token is valid.
    func pass(_ request: Request) async throws(Problem) -> AccessPass {
        let pass = try await authority.tokens.pass(try bearer(request))
        try checkClaim(request, pass.identity)
        return pass
    }

    /// Lets in a request that changes something under an idempotency key.
    ///
    /// The fingerprint is taken of what the body means: a repetition may write it differently.
    func submit<Content: Codable & Sendable>(
        _ request: Request,
        _ context: ServerContext,
        as type: Content.Type = Content.self,
        meaning: (Content) -> String
    ) async throws(Problem) -> Admitted<Content> {
        let submission = try await submission(request, context, meaning)
        let identity = try await authenticate(request)
        try checkRate(identity, context)
        return Admitted(identity: identity, submission: submission)
    }

    /// Lets in a request of support, which comes through the admin port and has no token.
    func adminSubmission<Content: Codable & Sendable>(
        _ request: Request,
        _ context: ServerContext,
        as type: Content.Type = Content.self,
        meaning: (Content) -> String
    ) async throws(Problem) -> Submission<Content> {
        try await submission(request, context, meaning)
    }

    private func submission<Content: Codable & Sendable>(
        _ request: Request,
        _ context: ServerContext,
        _ meaning: (Content) -> String
    ) async throws(Problem) -> Submission<Content> {
        let key = try idempotencyKey(request)
        let bytes = try await collect(request, context)
        let content = try decode(Content.self, from: bytes)
        let text =
            switch content {
            case .success(let content): meaning(content)
            case .failure: String(buffer: bytes)
            }
        return Submission(
            key: key,
            fingerprint: Fingerprint(request.method.rawValue, request.uri.path, text),
            content: content
        )
    }

    /// Lets in a request that has a body and needs no key.
    func body<Content: Decodable & Sendable>(
        _ request: Request,
        _ context: ServerContext,
        as type: Content.Type = Content.self,
        values: Int = JSONBounds.values
    ) async throws(Problem) -> (Identity, Result<Content, Problem>) {
        let bytes = try await collect(request, context)
        let content = try decode(Content.self, from: bytes, values: values)
        let identity = try await authenticate(request)
        try checkRate(identity, context)
        return (identity, content)
    }

    /// Lets in a request without a token, limited by its address.
    func anonymous<Content: Decodable & Sendable>(
        _ request: Request,
        _ context: ServerContext,
        as type: Content.Type = Content.self
    ) async throws(Problem) -> Content {
        let content = try decode(Content.self, from: try await collect(request, context))
        try checkRate(addressLimiter.admit(context.address), context)
        return try content.get()
    }

    /// Returns the request's key.
    func idempotencyKey(_ request: Request) throws(Problem) -> String {
        guard let key = request.headers[.idempotencyKey] else {
            throw Problem(
                .idempotencyKeyMissing,
                "Send an 'Idempotency-Key' header with a new UUID, and the same one on a retry."
            )
        }
        guard WireLimits.idempotencyKeyCharacters.contains(key.utf8.count),
            key.utf8.allSatisfy({ (0x21...0x7E).contains($0) })
        else {
            throw Problem(
                .idempotencyKeyInvalid,
                "Send an 'Idempotency-Key' of 1 to 128 visible ASCII characters."
            )
        }
        return key
    }

    /// Reads a body; none at all counts as `{}`.
    func collect(_ request: Request, _ context: ServerContext) async throws(Problem) -> ByteBuffer {
        let bytes: ByteBuffer
        let ticket = uploads.enter(context.channel)
        defer { uploads.leave(ticket) }
        if let length = request.headers[.contentLength].flatMap({ Int($0) }), length > bodyBytes {
            throw Problem(.bodyTooLarge, "Send at most \(bodyBytes) bytes.")
        }
        if request.headers[.expect]?.lowercased() == "100-continue" {
            // RFC 9110, section 10.1.1: the client waits for it before it sends the body. Whoever
            // is refused before this is never asked for one.
            let goOn = HTTPResponsePart.head(HTTPResponse(status: .continue))
            context.channel.writeAndFlush(goOn, promise: nil)
        }
        do {
            bytes = try await request.body.collect(upTo: bodyBytes)
        } catch is NIOTooManyBytesError {
            throw Problem(.bodyTooLarge, "Send at most \(bodyBytes) bytes.")
        } catch {
            throw Problem(.malformedBody, "Send the body whole: it ended early.")
        }
        context.exchange.hasReadBody = true
        guard bytes.readableBytes > 0 else { return ByteBuffer(string: "{}") }
        guard Self.isJSONType(request.headers[.contentType]) else {
            throw Problem(.unsupportedMediaType, "Send 'Content-Type: application/json'.")
        }
        return bytes
    }

    /// Decodes JSON: what is none is thrown, what is JSON of another shape is returned.
    func decode<Content: Decodable>(
        _ type: Content.Type,
        from bytes: ByteBuffer,
        values: Int = JSONBounds.values
    ) throws(Problem) -> Result<Content, Problem> {
        guard Self.mayBeUTF8(bytes) else { throw .noObject }
        guard bytes.withUnsafeReadableBytes({ JSONBounds.hold(for: $0, values: values) }) else {
            throw Problem(
                .malformedBody,
                """
                Send at most \(values) values, nested at most \(JSONBounds.nesting) deep.
                """
            )
        }
        do {
            return .success(try JSONDecoder().decode(type, from: Data(bytes.readableBytesView)))
        } catch let error as DecodingError {
            // The error does not tell broken JSON from a number that does not fit; the body does.
            if Self.isJSON(bytes), let problem = Self.content(error) { return .failure(problem) }
        } catch {}
        throw .noObject
    }

    private static func isJSON(_ bytes: ByteBuffer) -> Bool {
        (try? JSONDecoder().decode(JSONValue.self, from: Data(bytes.readableBytesView))) != nil
    }

    /// Whether the body is not UTF-16 or UTF-32, which the decoder would read as well.
    private static func mayBeUTF8(_ bytes: ByteBuffer) -> Bool {
        bytes.readableBytesView.prefix(2).allSatisfy { $0 != 0 && $0 < 0xFE }
    }

    private func authenticate(_ request: Request) async throws(Problem) -> Identity {
        let token = try bearer(request)
        let identity: Identity =
            if let known = try authority.tokens.verifyRemembered(token) {
                known
            } else {
                try await authority.tokens.verify(token)
            }
        try checkClaim(request, identity)
        return identity
    }

    private func bearer(_ request: Request) throws(Problem) -> String {
        guard let header = request.headers[.authorization],
            header.prefix(7).lowercased() == "bearer "
        else {
            throw Problem(
                .unauthenticated,
                "Send 'Authorization: Bearer' with an access token that this server issued."
            )
        }
        return String(header.dropFirst(7))
    }

    private func checkClaim(_ request: Request, _ identity: Identity) throws(Problem) {
        if let claimed = request.headers[.userID], Identifier(claimed) != identity.account {
            throw Problem(
                .identityMismatch,
                "Leave 'X-User-Id' out, or set it to the 'sub' of the access token."
            )
        }
    }

    private func checkRate(_ identity: Identity, _ context: ServerContext) throws(Problem) {
        try checkRate(accountLimiter.admit(identity.account), context)
    }

    private func checkRate(_ decision: RateDecision, _ context: ServerContext) throws(Problem) {
        context.exchange.rate = decision
        guard decision.isAdmitted else {
            throw Problem(
                .rateLimited,
                "Wait for 'Retry-After', then send the request again.",
                retryAfter: decision.retryAfterSeconds
            )
        }
    }

    private static func isJSONType(_ contentType: String?) -> Bool {
        guard let contentType else { return false }
        if contentType == Answers.json { return true }
        let type = contentType.prefix { $0 != ";" && $0 != " " }.lowercased()
        return type == Answers.json || type.hasSuffix("+json")
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
