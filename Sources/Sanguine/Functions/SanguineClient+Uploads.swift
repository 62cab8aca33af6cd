public import SanguineModel

extension SanguineClient {
    /// Stores a file in the user's account, to be attached to a call.
    ///
    /// ```swift
    /// let photo = try await client.upload(.file(url, type: "image/jpeg"))
    /// let question = Describe.Input(question: "What is this?")
    /// let answer = try await client.call(Describe(input: question, attachments: [photo.id]))
    /// ```
    ///
    /// The id is derived from the content: sending the same file again stores and costs nothing
    /// more, so a failed upload is repeated, up to four times. The server determines the type from
    /// the content, and removes data that shows where a picture was taken.
    ///
    /// - Parameters:
    ///   - file: Bytes or a file, of at most 25 MiB unless the server sets another limit; no form.
    ///   - progress: Called with the progress, at most once for each hundredth, on any thread; a
    ///     repeated upload starts again at zero. Default: no callback.
    /// - Returns: The id for `FunctionCall.attachments`, with size and type.
    /// - Throws: ``SanguineError``: a problem with `unsupported_media_type`, `body_too_large` or
    ///   another code of the server; ``SanguineError/cancelled``;
    ///   ``SanguineError/invalidDeclaration(_:)`` for a form.
    public nonisolated(nonsending) func upload(
        _ file: RequestBody,
        progress: (@Sendable (UploadProgress) -> Void)? = nil
    ) async throws(SanguineError) -> BlobFacts {
        if let refusal = configuration.refusal { throw refusal }
        if case .parts = file.content {
            throw .invalidDeclaration("Upload bytes or a file, not a form.")
        }
        return try await users.current.functions.upload(
            file,
            UploadReport(tell: progress ?? { _ in })
        )
    }

    /// Stores a file for a call of a function, unless that call would be refused.
    ///
    /// ```swift
    /// let photo = try await client.upload(.file(url, type: "image/jpeg"), for: Describe.self)
    /// ```
    ///
    /// Before any byte of the file is sent, the client fetches the function's rules, the quotas and
    /// the balance from the server. It refuses a file that is one too many, too large, or declared
    /// as another type, and a file for a call that the user cannot pay. If answers of the function
    /// are cached, the call may cost nothing, and only the function's rules are checked.
    ///
    /// - Parameters:
    ///   - file: Bytes or a file, as for ``upload(_:progress:)``.
    ///   - call: The function to be called.
    ///   - others: Files that are already attached to the call. Default: none.
    ///   - progress: As for ``upload(_:progress:)``.
    /// - Returns: The id for `FunctionCall.attachments`, with size and type.
    /// - Throws: ``SanguineError``: in this order `not_found`, `invalid_content`,
    ///   `quota_exhausted`, `insufficient_tokens`, and the errors of ``upload(_:progress:)``.
    public nonisolated(nonsending) func upload<Call: FunctionCall>(
        _ file: RequestBody,
        for call: Call.Type,
        besides others: [BlobFacts] = [],
        progress: (@Sendable (UploadProgress) -> Void)? = nil
    ) async throws(SanguineError) -> BlobFacts {
        if let refusal = configuration.refusal { throw refusal }
        let functions = users.current.functions
        functions.allowSignIn()
        let list = try await functions.call.call(
            "GET",
            "/v1/functions",
            as: Items<FunctionDescription>.self
        ).value
        guard let function = list.items.first(where: { $0.name == Call.name }) else {
            throw .problem(Problem(.notFound, "Use a name that GET /v1/functions lists."))
        }
        let check = UploadCheck(function: function)
        try check.check(type: file.type, bytes: file.knownBytes, besides: others)
        if function.cache == ResultCache.none.name {
            let quotas = function.price.quota == nil ? [] : try await refresh(.quotas)
            try check.check(quotas, try await refresh(.balance))
        }
        return try await upload(file, progress: progress)
    }
}

extension FunctionCaller {
    /// Stores a file, with retries: the same content has the same id.
    func upload(
        _ file: RequestBody,
        _ report: UploadReport
    ) async throws(SanguineError) -> BlobFacts {
        allowSignIn()
        let spool = UploadSpool(in: nil)  // Only forms are assembled there.
        return try await sender.repeatedly { () async throws(SanguineError) in
            let body = try await PreparedBody(file, seed: "", in: spool)
            var request = try TransportRequest(method: "POST", base: call.server, path: "/v1/blobs")
            (request.body, request.bodyFile) = (body.data, body.file)
            request.headers.setHeader("Content-Type", body.type)
            return try WireCoding.decode(
                BlobFacts.self,
                from: try await call.send(request, within: nil, report)
            )
        }
    }
}
