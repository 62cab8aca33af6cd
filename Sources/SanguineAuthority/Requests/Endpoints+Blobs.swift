import SanguineModel
import Synchronization

// `/v1/blobs`.
extension Endpoints {
    var blobs: [Endpoint] {
        [
            Endpoint("POST", "blobs", addBlob),
            Endpoint("GET", "blobs/:id", blob),
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
        guard let id = BlobID(request.parameter("id") ?? ""),
            let row = try await authority.blobs([id], of: identity.account).first
        else {
            throw Problem(.notFound, "Use the id of a file that this account has uploaded.")
        }
        let tag = "\"\(id)\""
        let fields = [
            (field: WireField.etag, value: tag),
            (.cacheControl, "private, max-age=31536000, immutable"),
        ]
        if let answer = try await thumbnail(of: row, fitting: box, fields, to: request) {
            return answer
        }
        if let known = request.field(.ifNoneMatch), WireResponse.matches(known, tag) {
            return WireResponse(status: 304, fields: fields)
        }
        var answer = WireResponse(
            status: 200,
            fields: fields + [(.contentType, row.type), (.contentTypeOptions, "nosniff")]
        )
        answer.stream = WireStream(
            of: row,
            from: authority,
            beginning: try await authority.readBlob(id, from: 0)
        )
        return answer
    }
}

extension WireStream {
    /// Creates the body of a file, which is read piece by piece.
    init(of row: BlobRow, from authority: Authority, beginning: [UInt8]) {
        let reading = BlobReading(row, authority, beginning)
        self.init(next: { await reading.next() }, close: {})
        length = Int(clamping: row.size)
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
    private let authority: Authority
    private let state: Mutex<State>

    init(_ row: BlobRow, _ authority: Authority, _ beginning: [UInt8]) {
        id = row.id
        self.authority = authority
        state = Mutex(State(piece: beginning, offset: beginning.count))
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
            guard let read = try? await authority.readBlob(id, from: offset) else { return nil }
            state.withLock { $0.offset = offset + read.count }
            piece = read
        }
        return piece.isEmpty ? nil : piece
    }
}
