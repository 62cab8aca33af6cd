import SanguineModel

extension FunctionCaller {
    /// Stores a file, with retries: the same content has the same id.
    ///
    /// A file of more than ``ClientLimits/resumableUploadBytes`` is sent in parts.
    func upload(
        _ file: RequestBody,
        _ report: UploadReport
    ) async throws(SanguineError) -> BlobFacts {
        allowSignIn()
        if let source = UploadSource(file) {
            let upload = ResumableUpload(sender: sender, source: source, report: report)
            if case .stored(let facts) = try await upload.run() { return facts }
        }
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
