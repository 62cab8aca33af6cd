package import SanguineModel

/// Admits or refuses requests.
///
/// Checks in the order of the wire contract: malformed headers (400), unauthenticated (401), the
/// identity of another account (403), rate (429), and only then the body (413, 415, 400). The
/// endpoint and the authority make all later checks.
///
/// A body may arrive slowly. Whether the session is live is therefore checked again afterwards, so
/// that no request takes effect after the end of its session.
///
/// A request without a valid token counts against its address, with its number and its processor
/// time.
package struct Admission: Sendable {
    private let tokens: AccessTokens
    private let authority: Authority

    /// Creates the admission of an authority.
    package init(_ authority: Authority) {
        self.authority = authority
        tokens = authority.tokens
    }

    /// An admitted request, with the identity of its sender.
    package struct Admitted<Content: Sendable>: Sendable {
        package var identity: Identity
        package var submission: Submission<Content>

        package init(identity: Identity, submission: Submission<Content>) {
            self.identity = identity
            self.submission = submission
        }
    }

    /// Admits a request that reads.
    package func read(_ request: any WireRequest) async throws(Problem) -> Identity {
        let identity = try await authenticate(request)
        try request.admit(identity)
        return identity
    }

    /// Admits a request with a guest's token that merges the guest into an account.
    ///
    /// A merge ends the guest's sessions. Its token is still admitted here until it expires,
    /// because the answer may have been lost: the repetition receives the same result.
    func merging(_ request: any WireRequest) async throws(Problem) -> Identity {
        do throws(Problem) {
            return try await read(request)
        } catch {
            guard error.code == .sessionEnded else { throw error }
            let identity = try await tokens.identityOfEnded(try bearer(request))
            guard try await authority.alias(of: identity.account) != nil else { throw error }
            try checkClaim(request, identity)
            try request.admit(identity)
            return identity
        }
    }

    /// Admits a request with a body that merges a guest; see ``merging(_:)``.
    func merging<Content: Decodable & Sendable>(
        _ request: any WireRequest,
        as type: Content.Type
    ) async throws(Problem) -> (Identity, Result<Content, Problem>) {
        let identity = try await merging(request)
        let bytes = try await request.body()
        do throws(Problem) {
            try await checkLive(identity, request)
        } catch {
            guard error.code == .sessionEnded,
                try await authority.alias(of: identity.account) != nil
            else { throw error }
        }
        return (identity, try await decoded(Content.self, bytes, identity.account))
    }

    /// Admits a request for a live connection.
    package func live(_ request: any WireRequest) async throws(Problem) -> AccessPass {
        let pass = try await pass(request)
        try request.admit(pass.identity)
        return pass
    }

    /// Admits a request for a live connection with a ticket.
    package func live(
        _ request: any WireRequest,
        _ pass: AccessPass
    ) async throws(Problem) -> AccessPass {
        let pass = try await tokens.confirmed(pass)
        try checkClaim(request, pass.identity)
        try request.admit(pass.identity)
        return pass
    }

    /// Returns the identity of the sender, and the validity of its token.
    package func pass(_ request: any WireRequest) async throws(Problem) -> AccessPass {
        let pass = try await verify(request)
        try checkClaim(request, pass.identity)
        return pass
    }

    /// Admits a request that changes something under an idempotency key.
    ///
    /// - Parameters:
    ///   - request: The request.
    ///   - type: The type of the body.
    ///   - meaning: Returns the text for the fingerprint.
    /// - Returns: The identity and the submission.
    /// - Throws: The errors that the wire contract checks before the endpoint.
    package func submit<Content: Codable & Sendable>(
        _ request: any WireRequest,
        as type: Content.Type = Content.self,
        meaning: (Content) -> String
    ) async throws(Problem) -> Admitted<Content> {
        let key = try idempotencyKey(request)
        let (identity, bytes) = try await body(request)
        let account = identity.account
        let submission = try await submission(
            bytes,
            of: request,
            key,
            account,
            as: type,
            meaning: meaning
        )
        return Admitted(identity: identity, submission: submission)
    }

    /// Admits a request whose body is passed on as received.
    ///
    /// - Parameters:
    ///   - request: The request.
    ///   - keyIfNone: The idempotency key for a request without one.
    /// - Returns: The identity and the submission; one without a key cannot be repeated.
    /// - Throws: The errors that the wire contract checks before the endpoint.
    package func submitPassedOn(
        _ request: any WireRequest,
        keyIfNone: String
    ) async throws(Problem) -> Admitted<ForwardedBody> {
        let hasKey = request.field(.idempotencyKey) != nil
        let key = hasKey ? try idempotencyKey(request) : keyIfNone
        let (identity, bytes) = try await body(request)
        return try await WireBody.perform(bytes.count, for: identity.account) {
            () throws(Problem) in
            let body = try WireBody.passedOn(bytes)
            // A request that cannot be repeated needs no fingerprint.
            let meaning = hasKey ? body.meaning : ""
            var submission = Submission(
                key: key,
                fingerprint: Fingerprint(request.method, request.path, meaning),
                content: Result<ForwardedBody, Problem>.success(body)
            )
            submission.mayComeAgain = hasKey
            return Admitted(identity: identity, submission: submission)
        }
    }

    /// Decodes a request that changes something under an idempotency key, without an identity.
    ///
    /// The fingerprint covers the meaning of the body: a repetition may be formatted differently.
    package func submission<Content: Codable & Sendable>(
        _ request: any WireRequest,
        as type: Content.Type = Content.self,
        meaning: (Content) -> String
    ) async throws(Problem) -> Submission<Content> {
        let key = try idempotencyKey(request)
        let bytes = try await request.body()
        return try await submission(bytes, of: request, key, nil, as: type, meaning: meaning)
    }

    private func submission<Content: Codable & Sendable>(
        _ bytes: [UInt8],
        of request: any WireRequest,
        _ key: String,
        _ account: Identifier?,
        as type: Content.Type,
        meaning: (Content) -> String
    ) async throws(Problem) -> Submission<Content> {
        try await WireBody.perform(bytes.count, for: account) { () throws(Problem) in
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
    }

    /// Admits a request that has a body and needs no key.
    func body<Content: Decodable & Sendable>(
        _ request: any WireRequest,
        as type: Content.Type = Content.self
    ) async throws(Problem) -> (Identity, Result<Content, Problem>) {
        let (identity, bytes) = try await body(request)
        return (identity, try await decoded(Content.self, bytes, identity.account))
    }

    /// Admits a request that uploads a file.
    func file(
        _ request: any WireRequest
    ) async throws(Problem) -> (Identity, [UInt8]) {
        let identity = try await read(request)
        let bytes = try await request.file()
        try await checkLive(identity, request)
        return (identity, bytes)
    }

    /// Checks again that the session of a request is live, after a part of its body has arrived.
    ///
    /// - Throws: `session_ended` or `token_expired`.
    func confirm(_ identity: Identity, _ request: any WireRequest) async throws(Problem) {
        try await checkLive(identity, request)
    }

    /// Admits a push, and checks each of its operations against the limits.
    ///
    /// - Returns: The identity, the request, and the indexes of operations that exceed a limit.
    func push(
        _ request: any WireRequest
    ) async throws(Problem) -> (Identity, Result<PushRequest, Problem>, overLimit: Set<Int>) {
        let (identity, bytes) = try await body(request)
        let most = WireLimits.pushedOperations
        let limits = JSONParser.Limits(unit: "operations", units: most)
        return try await WireBody.perform(bytes.count, for: identity.account) {
            () throws(Problem) in
            switch try WireBody.parse(bytes, limits: limits) {
            case .success(let document):
                if case .array(let all) = document.value["operations"], all.count > most {
                    return (identity, .failure(.tooManyOperations), [])
                }
                let pushed = try WireBody.decode(PushRequest.self, from: document.value)
                return (identity, pushed, document.overLimit)
            case .failure(let problem):
                return (identity, .failure(problem), [])
            }
        }
    }

    /// Admits a request with an empty body that needs a token and no key.
    package func live(
        withBody request: any WireRequest
    ) async throws(Problem) -> (AccessPass, Result<EmptyBody, Problem>) {
        let pass = try await live(request)
        let bytes = try await request.body()
        try await checkLive(pass.identity, request)
        return (pass, try await decoded(EmptyBody.self, bytes, pass.identity.account))
    }

    /// Admits a request without a token, limited by its address.
    func anonymous<Content: Decodable & Sendable>(
        _ request: any WireRequest,
        as type: Content.Type = Content.self
    ) async throws(Problem) -> Content {
        try request.checkAddress()
        try request.admitAnonymous()
        let bytes = try await request.body()
        return try await WireBody.perform(bytes.count, for: nil) { () throws(Problem) in
            // The remaining work is a lookup and a signature, regardless of the body.
            let time = ProcessorTime()
            defer { request.charge(time.spent + ProcessorTime.signature) }
            return try WireBody.decode(Content.self, from: bytes).get()
        }
    }

    /// Admits a request and reads its body.
    private func body(
        _ request: any WireRequest
    ) async throws(Problem) -> (Identity, [UInt8]) {
        let identity = try await read(request)
        let bytes = try await request.body()
        try await checkLive(identity, request)
        return (identity, bytes)
    }

    private func checkLive(
        _ identity: Identity,
        _ request: any WireRequest
    ) async throws(Problem) {
        let token = try bearer(request)
        // The usual case, without a suspension.
        if let known = try? tokens.verifyRemembered(token), known == identity { return }
        try await tokens.checkLive(identity, token)
    }

    private func decoded<Content: Decodable & Sendable>(
        _ type: Content.Type,
        _ bytes: [UInt8],
        _ account: Identifier
    ) async throws(Problem) -> Result<Content, Problem> {
        try await WireBody.perform(bytes.count, for: account) { () throws(Problem) in
            try WireBody.decode(Content.self, from: bytes)
        }
    }

    /// Returns the idempotency key of a request that needs none; `nil` if it has none.
    ///
    /// - Throws: `idempotency_key_invalid`.
    func optionalKey(_ request: any WireRequest) throws(Problem) -> String? {
        request.field(.idempotencyKey) == nil ? nil : try idempotencyKey(request)
    }

    private func idempotencyKey(_ request: any WireRequest) throws(Problem) -> String {
        guard let key = request.field(.idempotencyKey) else {
            throw Problem(
                .idempotencyKeyMissing,
                "Send an 'Idempotency-Key' header with a new UUID, and the same one on a retry."
            )
        }
        guard key.isIdempotencyKey else {
            throw Problem(
                .idempotencyKeyInvalid,
                "Send an 'Idempotency-Key' of 1 to 128 visible ASCII characters."
            )
        }
        return key
    }

    private func authenticate(_ request: any WireRequest) async throws(Problem) -> Identity {
        guard let token = try? bearer(request),
            let known = try? tokens.verifyRemembered(token)
        else { return try await pass(request).identity }
        try checkClaim(request, known)
        return known
    }

    /// Returns the identity of a token that is not cached.
    private func verify(_ request: any WireRequest) async throws(Problem) -> AccessPass {
        try request.checkAddress()
        do throws(Problem) {
            return try await tokens.pass(try bearer(request))
        } catch {
            // Not measured, because the thread may have run other requests in between.
            request.charge(ProcessorTime.signature)
            try request.admitAnonymous()
            throw error
        }
    }

    private func bearer(_ request: any WireRequest) throws(Problem) -> String {
        guard let header = request.field(.authorization),
            header.hasPrefix("Bearer ") || header.prefix(7).lowercased() == "bearer "
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

extension StringProtocol {
    /// Whether the text is a valid idempotency key.
    var isIdempotencyKey: Bool {
        WireLimits.idempotencyKeyCharacters.contains(utf8.count)
            && utf8.allSatisfy { (0x21...0x7E).contains($0) }
    }
}
