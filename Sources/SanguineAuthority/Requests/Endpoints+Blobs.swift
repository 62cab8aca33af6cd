import SanguineModel
import Synchronization

// `/v1/blobs`.
extension Endpoints {
    var blobs: [Endpoint] {
        [
            Endpoint("POST", "blobs", addBlob),
            Endpoint("GET", "blobs/:id", blob),
            Endpoint("DELETE", "blobs/:id", removeBlob),
            Endpoint("GET", "blobs/:id/link", blobLink),
            Endpoint("GET", "public/blobs/:id", publicBlob),
        ]
    }

    @Sendable
    private func addBlob(_ request: any WireRequest) async throws(Problem) -> WireResponse {
        let (identity, file) = try await admission.file(request)
        let (facts, isNew) = try await authority.addBlob(file, to: identity.account)
        return .changed(facts, status: isNew ? 201 : 200, head: nil)
    }

    @Sendable
    private func blob(_ request: any WireRequest) async throws(Problem) -> WireResponse {
        let box = try ThumbnailBox(request.query)
        let identity = try await admission.read(request)
        let row = try await authority.readableBlob(try id(of: request), by: identity.account)
        // The cache of a browser outlives a sign-out, and does not ask again for the file.
        let fields = [
            (field: WireField.cacheControl, value: BlobCaching.personal), (.vary, "Authorization"),
        ]
        return try await file(row, fitting: box, fields, to: request)
    }

    /// Removes the file from the account; also succeeds if the account does not have it, so that a
    /// repetition does.
    @Sendable
    private func removeBlob(_ request: any WireRequest) async throws(Problem) -> WireResponse {
        let identity = try await admission.read(request)
        let id = try id(of: request)
        try checkPrecondition("\"\(id)\"", of: request)
        try await authority.removeBlob(id, of: identity.account)
        return WireResponse(status: 204, fields: [(.cacheControl, "no-store")])
    }

    @Sendable
    private func blobLink(_ request: any WireRequest) async throws(Problem) -> WireResponse {
        let identity = try await admission.read(request)
        let link = try await authority.blobLink(try id(of: request), for: identity.account)
        // The link of a file changes with the time, and with the records that name it.
        return WireResponse(
            status: 200,
            fields: [(.contentType, WireResponse.json), (.cacheControl, "no-store")],
            body: ResponseEncoder.encode(link)
        )
    }

    /// Answers a request without a token for a file that a record names publicly, or whose URL is
    /// signed.
    @Sendable
    private func publicBlob(_ request: any WireRequest) async throws(Problem) -> WireResponse {
        let box = try ThumbnailBox(request.query)
        try request.checkAddress()
        try request.admitAnonymous()
        let id = try id(of: request)
        let (row, caching) = try await authority.linkedBlob(
            id,
            expires: request.query["expires"],
            signature: request.query["signature"]
        )
        let fields = [
            (field: WireField.cacheControl, value: caching), (.allowOrigin, "*"),
            (.resourcePolicy, "cross-origin"),
        ]
        return try await file(row, fitting: box, fields, to: request)
    }

    private func id(of request: any WireRequest) throws(Problem) -> BlobID {
        guard let id = BlobID(request.parameter("id") ?? "") else { throw .noBlob }
        return id
    }

    /// Checks the precondition of a request (`If-Match`), before any other condition (RFC 9110,
    /// section 13.2.2).
    ///
    /// - Parameters:
    ///   - tag: The strong tag of the file or thumbnail.
    ///   - request: The request.
    /// - Throws: `precondition_failed` if the request accepts only other tags.
    func checkPrecondition(_ tag: String, of request: any WireRequest) throws(Problem) {
        guard let tags = request.field(.ifMatch), !WireResponse.matchesStrongly(tags, tag) else {
            return
        }
        throw Problem(
            .preconditionFailed,
            "Leave 'If-Match' out, or send the current 'ETag': the file has another one."
        )
    }

    /// Answers with a file, with the part that the request asks for, or with a thumbnail.
    private func file(
        _ row: BlobRow,
        fitting box: ThumbnailBox?,
        _ fields: [(field: WireField, value: String)],
        to request: any WireRequest
    ) async throws(Problem) -> WireResponse {
        if let answer = try await thumbnail(of: row, fitting: box, fields, to: request) {
            return answer
        }
        let tag = "\"\(row.id)\""
        try checkPrecondition(tag, of: request)
        let size = Int(clamping: row.size)
        let fields = fields + [(.etag, tag), (.acceptRanges, "bytes")]
        if let known = request.field(.ifNoneMatch), WireResponse.matches(known, tag) {
            return WireResponse(status: 304, fields: fields)
        }
        var answer = WireResponse(
            status: 200,
            fields: fields + [(.contentType, row.type), (.contentTypeOptions, "nosniff")]
        )
        var part = 0..<size
        // Only GET has ranges (RFC 9110, section 14.2).
        let range = request.method == "GET" ? request.field(.range) : nil
        switch ByteRange(range, if: request.field(.ifRange), tag: tag, size: size) {
        case .whole: break
        case .part(let requested):
            part = requested
            answer.status = 206
            let last = part.upperBound - 1
            answer.fields.append((.contentRange, "bytes \(part.lowerBound)-\(last)/\(size)"))
        case .unsatisfiable:
            var refusal = WireResponse.problem(
                Problem(.rangeNotSatisfiable, "Ask for bytes below \(size), the file's size.")
            )
            refusal.fields.append((.contentRange, "bytes */\(size)"))
            return refusal
        }
        answer.stream = try await WireStream(part, of: row.id, from: authority)
        return answer
    }
}

/// The values of `Cache-Control` for files, whose content never changes.
enum BlobCaching {
    private static let year = 31_536_000
    /// A file that only some accounts may read: kept by their devices only.
    static let personal = "private, max-age=\(year), immutable"
    /// A file that everyone may read: kept by shared caches too.
    static let everyone = "public, max-age=\(year), immutable"

    /// A file whose URL is valid for a time: kept for as long, and not by shared caches.
    static func signed(for seconds: Int64) -> String { "private, max-age=\(seconds), immutable" }
}

extension WireStream {
    /// Creates the body for a part of a file, which is read piece by piece.
    ///
    /// - Throws: see ``Authority/readBlob(_:from:count:)``; the first piece is read at once.
    init(_ part: Range<Int>, of id: BlobID, from authority: Authority) async throws(Problem) {
        let count = min(part.count, Authority.blobPieceBytes)
        let beginning = try await authority.readBlob(id, from: part.lowerBound, count: count)
        let reading = BlobReading(id, part, authority, beginning)
        self.init(next: { await reading.next() }, close: {})
        length = part.count
        pieceBytes = Authority.blobPieceBytes
    }
}

/// The progress of reading a file.
///
/// Mutable state: `state`, guarded by its mutex; the reader requests one piece at a time.
private final class BlobReading: Sendable {
    private struct State {
        /// A piece that was read but not returned yet.
        var piece: [UInt8]?
        var offset: Int
    }

    private let id: BlobID
    private let end: Int
    private let authority: Authority
    private let state: Mutex<State>

    init(_ id: BlobID, _ part: Range<Int>, _ authority: Authority, _ beginning: [UInt8]) {
        self.id = id
        end = part.upperBound
        self.authority = authority
        state = Mutex(State(piece: beginning, offset: part.lowerBound + beginning.count))
    }

    /// Returns the next piece; `nil` at the end, or when the file can no longer be read.
    func next() async -> [UInt8]? {
        let (ready, offset) = state.withLock { state in
            defer { state.piece = nil }
            return (state.piece, state.offset)
        }
        let piece: [UInt8]
        if let ready {
            piece = ready
        } else {
            let count = min(end - offset, Authority.blobPieceBytes)
            guard count > 0,
                let read = try? await authority.readBlob(id, from: offset, count: count)
            else { return nil }
            state.withLock { $0.offset = offset + read.count }
            piece = read
        }
        return piece.isEmpty ? nil : piece
    }
}
