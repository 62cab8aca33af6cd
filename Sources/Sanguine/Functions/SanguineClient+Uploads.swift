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
