public import SanguineModel

extension SanguineClient {
    /// Stores a file with the user's account, for a call to bring along.
    ///
    /// ```swift
    /// let photo = try await client.upload(.file(url, type: "image/jpeg"))
    /// let question = Describe.Input(question: "What is this?")
    /// let answer = try await client.call(Describe(input: question, attachments: [photo.id]))
    /// ```
    ///
    /// The id is made of the content: to send the same file again stores and costs nothing more, so
    /// a sending that fails is repeated, up to four times. The server knows the type by the
    /// content, and removes what says where a picture was taken.
    ///
    /// - Parameters:
    ///   - file: Bytes or a file, of at most 25 MiB unless the server says otherwise; no form.
    ///   - progress: Is told how much has been sent, at most once for each hundredth, on any
    ///     thread; a repeated sending begins again at nothing. Default: nobody is.
    /// - Returns: The id by which `FunctionCall.attachments` names it, size and type.
    /// - Throws: ``SanguineError``: a problem with `unsupported_media_type`, `body_too_large` or
    ///   what else the server says; ``SanguineError/cancelled``;
    ///   ``SanguineError/invalidDeclaration(_:)`` for a form.
    public nonisolated(nonsending) func upload(
        _ file: RequestBody,
        progress: (@Sendable (UploadProgress) -> Void)? = nil
    ) async throws(SanguineError) -> BlobFacts {
        if let refusal = configuration.refusal { throw refusal }
        if case .parts = file.content {
            throw .invalidDeclaration("Upload bytes or a file by itself, and not in a form.")
        }
        return try await users.present.functions.upload(
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
    /// Before a byte of the file is sent, the server is asked for the rules of the function, and
    /// for what is left of the quotas and the balance. A file that is one too many, too large, or
    /// declared as another type is refused then, and so is one for a call that the user cannot pay.
    /// If answers of the function are kept, the call may cost nothing, and
    /// only the rules of the function are checked.
    ///
    /// - Parameters:
    ///   - file: Bytes or a file, as for ``upload(_:progress:)``.
    ///   - call: The function that is to be called.
    ///   - others: The files that the call brings already. Default: none.
    ///   - progress: As for ``upload(_:progress:)``.
    /// - Returns: The id by which `FunctionCall.attachments` names it, size and type.
    /// - Throws: ``SanguineError``: in this order `not_found`, `invalid_content`,
    ///   `quota_exhausted`, `insufficient_tokens`, and what ``upload(_:progress:)`` throws.
    public nonisolated(nonsending) func upload<Call: FunctionCall>(
        _ file: RequestBody,
        for call: Call.Type,
        besides others: [BlobFacts] = [],
        progress: (@Sendable (UploadProgress) -> Void)? = nil
    ) async throws(SanguineError) -> BlobFacts {
        if let refusal = configuration.refusal { throw refusal }
        let functions = users.present.functions
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
    /// Stores a file, as often as it takes: the same content has the same id.
    func upload(
        _ file: RequestBody,
        _ report: UploadReport
    ) async throws(SanguineError) -> BlobFacts {
        allowSignIn()
        let spool = UploadSpool(in: nil)  // Only forms are put together there.
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
