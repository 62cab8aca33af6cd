import SanguineModel

// `/v1/blobs/{id}?w=&h=` and `/v1/public/blobs/{id}?w=&h=`.
extension Endpoints {
    /// Returns the thumbnail that fits into a box; `nil` if there is no box, or if the stored image
    /// fits.
    ///
    /// A thumbnail is small, so it has no parts: a `Range` is ignored, as HTTP permits (RFC 9110,
    /// section 14.2). HEAD makes it as GET does, so that both have the same fields.
    ///
    /// - Parameters:
    ///   - row: The file, which the caller may read.
    ///   - box: The box of the request.
    ///   - fields: The header fields that say who may keep the response and use it.
    ///   - request: The request.
    /// - Returns: The response.
    /// - Throws: `invalid_content` for a video, `precondition_failed`, or the problem of the
    ///   decoder.
    func thumbnail(
        of row: BlobRow,
        fitting box: ThumbnailBox?,
        _ fields: [(field: WireField, value: String)],
        to request: any WireRequest
    ) async throws(Problem) -> WireResponse? {
        guard let box else { return nil }
        guard let size = row.pixelSize else {
            throw Problem(
                .invalidContent,
                "Leave 'w' and 'h' out: this file is a video, of which there are no thumbnails."
            )
        }
        let choice = ThumbnailLadder.choose(size, width: box.width, height: box.height)
        guard case .thumbnail(let side) = choice else { return nil }
        // The thumbnail never changes, so its tag is known before it is made.
        let tag = "\"\(row.id)-\(side)\""
        try checkPrecondition(tag, of: request)
        let fields = fields + [(.etag, tag)]
        if let known = request.field(.ifNoneMatch), WireResponse.matches(known, tag) {
            return WireResponse(status: 304, fields: fields)
        }
        let thumbnail = try await authority.thumbnail(of: row, side: side)
        return WireResponse(
            status: 200,
            fields: fields + [
                (.contentType, thumbnail.type), (.contentTypeOptions, "nosniff"),
            ],
            body: thumbnail.bytes
        )
    }
}

/// The box into which the image of a response must fit.
struct ThumbnailBox: Equatable {
    /// The maximum width in pixels; `nil` for any.
    let width: Int?
    /// The maximum height in pixels; `nil` for any.
    let height: Int?

    /// Reads `w` and `h`; returns `nil` if the request has neither.
    ///
    /// - Throws: `malformed_request` for a number below the smallest thumbnail's side.
    init?(_ query: WireQuery) throws(Problem) {
        let least = Int64(WireLimits.imageSides[0])
        width = try query.number("w", from: least).map { Int(clamping: $0) }
        height = try query.number("h", from: least).map { Int(clamping: $0) }
        if width == nil, height == nil { return nil }
    }
}

extension BlobRow {
    /// The size of an image; `nil` for a video.
    fileprivate var pixelSize: PixelSize? {
        PixelSize(width.map { Int(clamping: $0) }, height.map { Int(clamping: $0) })
    }
}

extension Authority {
    /// Returns a thumbnail of a stored image.
    fileprivate func thumbnail(
        of row: BlobRow,
        side: Int
    ) async throws(Problem) -> Thumbnail {
        try await images.thumbnail(of: row, side: side) { [self] () async throws(Problem) in
            var bytes: [UInt8] = []
            bytes.reserveCapacity(Int(clamping: row.size))
            while bytes.count < row.size {
                let piece = try await readBlob(row.id, from: bytes.count)
                guard !piece.isEmpty else { break }
                bytes += piece
            }
            return bytes
        }
    }
}
