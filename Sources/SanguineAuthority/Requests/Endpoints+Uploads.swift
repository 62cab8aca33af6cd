import Foundation
import SanguineModel

// `/v1/uploads`: resumable uploads by the protocol tus 1.0.0 (https://tus.io), with the extensions
// creation, termination, checksum and expiration.
//
// Refusals are decided in this order: the token (401), `Tus-Resumable` (412), other header fields
// (400), the type and size of the body (415, 413), the upload (404), its offset (409), the file
// (400, 413, 415, 422). The repetition of a request whose answer was lost is not refused: HEAD
// tells the offset from which to go on.
extension Endpoints {
    /// The version of the protocol.
    static let tusVersion = "1.0.0"
    /// The type of the bytes of an upload.
    static let offsetType = "application/offset+octet-stream"

    var uploads: [Endpoint] {
        [
            Endpoint("OPTIONS", "uploads", uploadOptions),
            tus("POST", "uploads", createUpload),
            Endpoint("GET", "uploads", listUploads),
            tus("GET", "uploads/:id", upload),
            tus("PATCH", "uploads/:id", appendToUpload),
            tus("DELETE", "uploads/:id", removeUpload),
            tus("POST", "uploads/:id", overridden),
        ]
    }

    private typealias TusHandler =
        @Sendable (any WireRequest, Identity) async throws(Problem) -> WireResponse

    /// Creates an endpoint that checks the version, and names it in all responses.
    private func tus(
        _ method: String,
        _ path: String,
        _ handler: @escaping TusHandler
    ) -> Endpoint {
        Endpoint(method, path) { request throws(Problem) in
            let version = (field: WireField.tusResumable, value: Self.tusVersion)
            do throws(Problem) {
                let identity = try await admission.read(request)
                // GET is not a method of the protocol.
                if request.method != "GET" { try checkVersion(request) }
                var response = try await handler(request, identity)
                response.fields.append(version)
                return response
            } catch {
                var problem = error
                let own = problem.context.value as? WireResponse.ProblemFields
                var fields = [version] + (own?.fields ?? [])
                if error.code == .tusVersionUnsupported {
                    fields.append((.tusVersion, Self.tusVersion))
                }
                problem.context.value = WireResponse.ProblemFields(fields: fields)
                throw problem
            }
        }
    }

    private func checkVersion(_ request: any WireRequest) throws(Problem) {
        guard request.field(.tusResumable) == Self.tusVersion else {
            throw Problem(
                .tusVersionUnsupported,
                "Send 'Tus-Resumable: \(Self.tusVersion)'."
            )
        }
    }

    /// Answers what the server supports, to everyone.
    @Sendable
    private func uploadOptions(_ request: any WireRequest) async throws(Problem) -> WireResponse {
        try request.checkAddress()
        try request.admitAnonymous()
        return WireResponse(
            status: 204,
            fields: [
                (.tusResumable, Self.tusVersion), (.tusVersion, Self.tusVersion),
                (.tusMaxSize, String(request.fileLimit)),
                (.tusExtension, "creation,termination,checksum,expiration"),
                (.tusChecksumAlgorithm, UploadChecksum.algorithms.joined(separator: ",")),
                (.cacheControl, "no-cache"),
            ]
        )
    }

    @Sendable
    private func createUpload(
        _ request: any WireRequest,
        _ identity: Identity
    ) async throws(Problem) -> WireResponse {
        let key = try admission.optionalKey(request)
        guard request.field(.uploadDeferLength) == nil else {
            throw Problem(
                .malformedRequest,
                "Send 'Upload-Length' instead of 'Upload-Defer-Length'."
            )
        }
        let limit = request.fileLimit
        guard let length = Self.number(request.field(.uploadLength)), length > 0 else {
            throw Problem(
                .malformedRequest,
                "Set 'Upload-Length' to the size of the file in bytes."
            )
        }
        // tus-py-client sends an empty field if there is none.
        let metadata = request.field(.uploadMetadata).flatMap { $0.isEmpty ? nil : $0 }
        try metadata.map { text throws(Problem) in try UploadMetadata.check(text) }
        guard length <= limit else { throw WireBody.tooLarge(limit) }
        do throws(Problem) {
            try await request.parts(upTo: 0) { _ in }
        } catch {
            guard error.code == .bodyTooLarge else { throw error }
            throw Problem(
                .bodyTooLarge,
                "Create the upload without a body, and send the bytes with PATCH."
            )
        }
        try await admission.confirm(identity, request)
        let (upload, isNew) = try await authority.createUpload(
            length: length,
            metadata: metadata,
            key: key,
            for: identity.account
        )
        var response = response(to: upload, status: 201)
        // Relative, because the server does not know its URL behind a proxy.
        response.fields.append((.location, "/v1/uploads/\(upload.id)"))
        if !isNew { response.fields.append((.idempotencyReplayed, "true")) }
        return response
    }

    @Sendable
    private func listUploads(_ request: any WireRequest) async throws(Problem) -> WireResponse {
        let identity = try await admission.read(request)
        let uploads = try await authority.uploads(of: identity.account)
        return WireResponse(
            status: 200,
            fields: [(.contentType, WireResponse.json), (.cacheControl, "no-store")],
            body: ResponseEncoder.encode(UploadList(items: uploads.map(\.status)))
        )
    }

    /// Answers HEAD with the offset, and GET with the whole state.
    @Sendable
    private func upload(
        _ request: any WireRequest,
        _ identity: Identity
    ) async throws(Problem) -> WireResponse {
        let upload = try await authority.upload(try id(of: request), of: identity.account)
        var response = response(to: upload, status: 200)
        response.fields.append((.uploadLength, String(upload.length)))
        if let metadata = upload.metadata { response.fields.append((.uploadMetadata, metadata)) }
        response.fields.append((.contentType, WireResponse.json))
        response.body = ResponseEncoder.encode(upload.status)
        return response
    }

    @Sendable
    private func appendToUpload(
        _ request: any WireRequest,
        _ identity: Identity
    ) async throws(Problem) -> WireResponse {
        guard let offset = Self.number(request.field(.uploadOffset)) else {
            throw Problem(
                .malformedRequest,
                "Set 'Upload-Offset' to the offset that HEAD has returned."
            )
        }
        let checksum = try request.field(.uploadChecksum).map { text throws(Problem) in
            try UploadChecksum(text)
        }
        guard request.field(.contentType)?.lowercased() == Self.offsetType else {
            throw Problem(.unsupportedMediaType, "Send 'Content-Type: \(Self.offsetType)'.")
        }
        let upload = try await authority.upload(try id(of: request), of: identity.account)
        guard upload.offset == offset else { throw .offsetMismatch(upload.offset) }
        var receiver = try await UploadReceiver(
            upload,
            checksum: checksum,
            authority: authority,
            reserve: { count throws(Problem) in try request.reserve(count) },
            confirm: { () async throws(Problem) in
                try await admission.confirm(identity, request)
            }
        )
        do throws(Problem) {
            try await request.parts(upTo: upload.length - offset) { bytes throws(Problem) in
                try await receiver.receive(bytes)
            }
        } catch {
            await receiver.cut()
            throw error
        }
        return response(to: try await receiver.end(), status: 204)
    }

    @Sendable
    private func removeUpload(
        _ request: any WireRequest,
        _ identity: Identity
    ) async throws(Problem) -> WireResponse {
        try await authority.removeUpload(try id(of: request), of: identity.account)
        return WireResponse(status: 204, fields: [(.cacheControl, "no-store")])
    }

    /// Performs the method that a client which can only send POST names in another field.
    @Sendable
    private func overridden(
        _ request: any WireRequest,
        _ identity: Identity
    ) async throws(Problem) -> WireResponse {
        switch request.field(.methodOverride) {
        case "PATCH": return try await appendToUpload(request, identity)
        case "DELETE": return try await removeUpload(request, identity)
        case "HEAD":
            var response = try await upload(request, identity)
            response.body = []
            response.fields.removeAll { $0.field == .contentType }
            response.status = 204
            return response
        default:
            throw Problem(
                .malformedRequest,
                "Set 'X-HTTP-Method-Override' to PATCH, DELETE or HEAD, or send that method."
            )
        }
    }

    private func response(to upload: StoredUpload, status: Int) -> WireResponse {
        var fields = [
            (field: WireField.uploadOffset, value: String(upload.offset)),
            (.uploadExpires, HTTPDate.text(upload.expiresAt)), (.cacheControl, "no-store"),
        ]
        if let file = upload.file { fields.append((.sanguineBlob, file.id)) }
        return WireResponse(status: status, fields: fields)
    }

    private func id(of request: any WireRequest) throws(Problem) -> UploadID {
        guard let id = UploadID(request.parameter("id") ?? "") else { throw .noUpload }
        return id
    }

    /// Reads a number of bytes; `nil` for any other text.
    private static func number(_ text: String?) -> Int? {
        guard let text, !text.isEmpty, text.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else {
            return nil
        }
        return Int(text)
    }
}

/// The value of `Upload-Metadata`: pairs of a name and a Base64 value, separated by commas.
enum UploadMetadata {
    /// Refuses a value that is malformed or too long.
    ///
    /// - Throws: `malformed_request`.
    static func check(_ text: String) throws(Problem) {
        let pairs = text.split(separator: ",", omittingEmptySubsequences: false)
        let names = Set(pairs.map { $0.prefix { $0 != " " } })
        guard text.utf8.count <= WireLimits.uploadMetadataBytes, names.count == pairs.count,
            pairs.allSatisfy(isPair)
        else {
            throw Problem(
                .malformedRequest,
                """
                Set 'Upload-Metadata' to pairs of a name and a Base64 value, separated by commas, \
                with at most \(WireLimits.uploadMetadataBytes) bytes.
                """
            )
        }
    }

    private static func isPair(_ text: Substring) -> Bool {
        let parts = text.split(separator: " ", omittingEmptySubsequences: false)
        guard let name = parts.first, !name.isEmpty, parts.count <= 2,
            name.utf8.allSatisfy({ (0x21...0x7E).contains($0) })
        else { return false }
        return parts.count == 1 || Data(base64Encoded: String(parts[1])) != nil
    }
}
