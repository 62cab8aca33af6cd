package import SanguineModel

/// Lets a request in, or refuses it.
///
/// In the order of the wire contract: malformed (400, 413, 415), unauthenticated (401), another's
/// identity (403), too fast (429). What comes after is the endpoint's and the authority's.
package struct Admission: Sendable {
    private let tokens: AccessTokens

    /// Creates the admission of an authority.
    package init(_ authority: Authority) { tokens = authority.tokens }

    /// A request that was let in.
    struct Admitted<Content: Sendable>: Sendable {
        var account: Identifier
        var submission: Submission<Content>
    }

    /// Lets in a request that reads.
    package func read(_ request: any WireRequest) async throws(Problem) -> Identity {
        let identity = try await authenticate(request)
        try request.admit(identity)
        return identity
    }

    /// Lets in a request for a live connection.
    package func live(_ request: any WireRequest) async throws(Problem) -> AccessPass {
        let pass = try await pass(request)
        try request.admit(pass.identity)
        return pass
    }

    /// Lets in a request for a live connection that came with a ticket.
    package func live(
        _ request: any WireRequest,
        _ pass: AccessPass
    ) throws(Problem) -> AccessPass {
        try tokens.check(pass)
        try checkClaim(request, pass.identity)
        try request.admit(pass.identity)
        return pass
    }

    /// Who sends a request, and for how long its token is valid.
    package func pass(_ request: any WireRequest) async throws(Problem) -> AccessPass {
        let pass = try await tokens.pass(try bearer(request))
        try checkClaim(request, pass.identity)
        return pass
    }

    /// Lets in a request that changes something under an idempotency key.
    func submit<Content: Codable & Sendable>(
        _ request: any WireRequest,
        as type: Content.Type = Content.self,
        meaning: (Content) -> String
    ) async throws(Problem) -> Admitted<Content> {
        let submission = try await submission(request, as: type, meaning: meaning)
        let identity = try await authenticate(request)
        try request.admit(identity)
        return Admitted(account: identity.account, submission: submission)
    }

    /// Reads a request that changes something under an idempotency key, whoever sends it.
    ///
    /// The fingerprint is taken of what the body means: a repetition may write it differently.
    package func submission<Content: Codable & Sendable>(
        _ request: any WireRequest,
        as type: Content.Type = Content.self,
        meaning: (Content) -> String
    ) async throws(Problem) -> Submission<Content> {
        let key = try idempotencyKey(request)
        let bytes = try await request.body()
        let content = try WireBody.decode(Content.self, from: bytes)
        let text =
            switch content {
            case .success(let content): meaning(content)
            case .failure: String(decoding: bytes, as: UTF8.self)
            }
        return Submission(
            key: key,
            fingerprint: Fingerprint(request.method, request.path, text),
            content: content
        )
    }

    /// Lets in a request that has a body and needs no key.
    package func body<Content: Decodable & Sendable>(
        _ request: any WireRequest,
        as type: Content.Type = Content.self,
        values: Int = JSONBounds.values
    ) async throws(Problem) -> (Identity, Result<Content, Problem>) {
        let bytes = try await request.body()
        let content = try WireBody.decode(Content.self, from: bytes, values: values)
        let identity = try await authenticate(request)
        try request.admit(identity)
        return (identity, content)
    }

    /// Lets in a request without a token, limited by where it comes from.
    func anonymous<Content: Decodable & Sendable>(
        _ request: any WireRequest,
        as type: Content.Type = Content.self
    ) async throws(Problem) -> Content {
        let content = try WireBody.decode(Content.self, from: try await request.body())
        try request.admitAnonymous()
        return try content.get()
    }

    private func idempotencyKey(_ request: any WireRequest) throws(Problem) -> String {
        guard let key = request.field(.idempotencyKey) else {
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

    private func authenticate(_ request: any WireRequest) async throws(Problem) -> Identity {
        let token = try bearer(request)
        let identity: Identity =
            if let known = try tokens.verifyRemembered(token) {
                known
            } else {
                try await tokens.verify(token)
            }
        try checkClaim(request, identity)
        return identity
    }

    private func bearer(_ request: any WireRequest) throws(Problem) -> String {
        guard let header = request.field(.authorization), header.prefix(7).lowercased() == "bearer "
        else {
            throw Problem(
                .unauthenticated,
                "Send 'Authorization: Bearer' with an access token that this server issued."
            )
        }
        return String(header.dropFirst(7))
    }

    private func checkClaim(
        _ request: any WireRequest,
        _ identity: Identity
    ) throws(Problem) {
        if let claimed = request.field(.userID), Identifier(claimed) != identity.account {
            throw Problem(
                .identityMismatch,
                "Leave 'X-User-Id' out, or set it to the 'sub' of the access token."
            )
        }
    }
}
