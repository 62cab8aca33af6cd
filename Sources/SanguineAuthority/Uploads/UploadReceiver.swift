import SanguineMedia
import SanguineModel

/// Stores the bytes of one request of a resumable upload.
///
/// Bytes are stored in pieces while they arrive, and an upload's offset contains them as soon as
/// they are durable. So after a lost connection or a crash at most one piece is sent again. Bytes
/// with a checksum are contained in the offset once all of them have arrived and the checksum is
/// right.
///
/// The last piece is never stored as such: it is in memory until the whole file is stored. So the
/// offset reaches the length if and only if there is a file, and a client that repeats the last
/// request after a failure finishes the upload.
///
/// Two requests that add bytes to one upload exclude each other by its offset: the second one to
/// store a piece gets `offset_mismatch`.
struct UploadReceiver {
    private let authority: Authority
    /// Throws if the session of the request has ended.
    private let confirm: () async throws(Problem) -> Void
    /// Reserves memory for the whole file; throws `overloaded`.
    private let reserve: (Int) throws(Problem) -> Void

    private let request: Identifier
    /// The upload as it is stored.
    private(set) var upload: StoredUpload
    private var checksum: UploadChecksum?
    /// The number of bytes before ``buffer``, all of them in stored pieces.
    private var base: Int
    /// The bytes that are not stored yet, and those of the upload's incomplete last piece.
    private var buffer: [UInt8]
    /// Stored pieces that the upload does not contain yet; they follow its whole pieces.
    private var pending: [BlobID] = []
    /// Whether bytes were dropped because of a failure.
    private var hasFailed = false

    /// Creates a receiver, and reads the incomplete last piece of the upload.
    ///
    /// - Throws: `not_found` if bytes of the upload are lost.
    init(
        _ upload: StoredUpload,
        checksum: UploadChecksum?,
        authority: Authority,
        reserve: @escaping (Int) throws(Problem) -> Void,
        confirm: @escaping () async throws(Problem) -> Void
    ) async throws(Problem) {
        self.upload = upload
        self.checksum = checksum
        self.authority = authority
        request = Identifier(at: authority.clock.now())
        self.reserve = reserve
        self.confirm = confirm
        let whole = upload.wholePieces
        (base, buffer) = (whole * UploadPiece.bytes, [])
        try reserve(min(UploadPiece.bytes, upload.length))
        if upload.offset > base {
            buffer = try await bytes(of: whole, count: upload.offset - base)
        }
    }

    /// The number of bytes with those that are not stored yet.
    private var position: Int { base + buffer.count }

    /// Adds bytes of the request's body.
    ///
    /// - Throws: `body_too_large` for more bytes than the upload has, `unsupported_media_type` for
    ///   a beginning that is not one of a file, `offset_mismatch`, or a failure to store.
    mutating func receive(_ bytes: [UInt8]) async throws(Problem) {
        guard bytes.count <= upload.length - position else {
            throw WireBody.tooLarge(upload.length - upload.offset)
        }
        checksum?.add(bytes)
        buffer += bytes
        hasFailed = true
        while buffer.count >= UploadPiece.bytes, base + UploadPiece.bytes < upload.length {
            try await storeFirst(UploadPiece.bytes)
            if checksum == nil { try await commit() }
        }
        hasFailed = false
    }

    /// Completes the request: stores the rest, and the whole file if this was its last byte.
    ///
    /// - Returns: The upload, with the file if it is finished.
    /// - Throws: `checksum_mismatch`; the bytes of the request are then dropped. Or the problem of
    ///   the file: see ``Authority/addBlob(_:to:)``; a file that is refused ends the upload.
    mutating func end() async throws(Problem) -> StoredUpload {
        if let checksum, !checksum.isRight {
            await authority.removePieces(pending)
            throw Problem(.checksumMismatch, "Send the same bytes again.")
        }
        guard !upload.isFinished, position > upload.offset || position == upload.length else {
            return upload
        }
        guard position < upload.length else {
            try await commit()
            return try await finish()
        }
        if !buffer.isEmpty { try await storeFirst(buffer.count) }
        try await commit()
        return upload
    }

    /// Stores what has arrived of a body that was cut off, unless it has a checksum.
    mutating func cut() async {
        guard checksum == nil else { return await authority.removePieces(pending) }
        guard !hasFailed, position > upload.offset, position < upload.length else { return }
        // A failure loses nothing that was acknowledged.
        do throws(Problem) {
            if !buffer.isEmpty { try await storeFirst(buffer.count) }
            try await commit()
        } catch {
            return
        }
    }

    /// Stores the beginning of the buffer as a piece.
    private mutating func storeFirst(_ count: Int) async throws(Problem) {
        if base == 0, count == UploadPiece.bytes, MediaType.accepted(buffer) == nil {
            // Refused now, and not after the other megabytes.
            await discard()
            throw .unknownType
        }
        let piece = UploadPiece(of: upload, from: request).line + buffer.prefix(count)
        let id = try await WireBody.perform(piece.count, for: upload.account) {
            () throws(Problem) in
            BlobID(of: piece)
        }
        let now = authority.clock.now()
        try await authority.read { storage throws(StorageError) in
            try await storage.blobs.keep(piece, as: id, at: now)
        }
        pending.append(id)
        base += count
        buffer.removeFirst(count)
    }

    /// Adds the stored pieces to the upload.
    private mutating func commit() async throws(Problem) {
        guard !pending.isEmpty else { return }
        try await confirm()
        let command = authority.uploadCommands.append(
            pending,
            from: upload.wholePieces,
            to: upload,
            offset: base
        )
        let outcome = try await authority.perform(command)
        (upload, pending) = (outcome.upload, [])
        await authority.removePieces(outcome.surplus)
    }

    private mutating func finish() async throws(Problem) -> StoredUpload {
        try reserve(upload.length - min(UploadPiece.bytes, upload.length))
        try await confirm()
        var file: [UInt8] = []
        file.reserveCapacity(upload.length)
        for number in 0..<base / UploadPiece.bytes { file += try await bytes(of: number) }
        file += buffer
        buffer = []
        do throws(Problem) {
            let outcome = try await authority.store(file, for: upload.account) {
                [authority, upload] row, placeholder in
                authority.uploadCommands.finish(upload, as: row, placeholder)
            }
            upload = outcome.upload
            await authority.removePieces(outcome.surplus)
            return upload
        } catch {
            // The same bytes would be refused again.
            if error.refusesFile { await discard() }
            throw error
        }
    }

    /// Removes the upload; if that fails, it expires.
    private func discard() async {
        _ = try? await authority.removeUpload(upload.id, of: upload.account)
        await authority.removePieces(pending)
    }

    /// Returns the bytes of a stored piece.
    private func bytes(
        of number: Int,
        count: Int = UploadPiece.bytes
    ) async throws(Problem) -> [UInt8] {
        // The lines of all requests have the same length.
        let line = UploadPiece(of: upload, from: request).line
        let ids = upload.pieceIDs
        if ids.indices.contains(number) {
            let bytes = try await authority.read { storage throws(StorageError) in
                try await storage.blobs.read(ids[number], from: line.count, count: count)
            }
            if let bytes, bytes.count == count { return bytes }
        }
        // As after a copy of the data was restored without its files.
        await discard()
        throw .noUpload
    }
}

extension Problem {
    /// Whether the problem is one of the file, as opposed to one of the moment.
    fileprivate var refusesFile: Bool {
        switch code {
        case .unsupportedMediaType, .malformedBody, .bodyTooLarge, .invalidContent, .storageFull:
            true
        default: false
        }
    }
}
