import SanguineModel

/// Decides on resumable uploads and on the space that they reserve.
///
/// Each command returns the pieces that no upload needs after it.
struct UploadCommands: Sendable {
    let bytesPerAccount: Int64
    /// The time for which an upload is kept after its last byte.
    let kept: Duration
    var now: Timestamp

    /// A changed upload, and the pieces to remove.
    struct Outcome: Sendable {
        var upload: StoredUpload
        var isNew = false
        var surplus: [BlobID] = []
    }

    /// Begins an upload in a free slot.
    ///
    /// Expired uploads are free slots, and then the oldest finished one is.
    ///
    /// The command is refused, in this order, with `not_found` for an account that does not exist,
    /// `idempotency_mismatch`, or `storage_full` for too many unfinished uploads or too little
    /// space.
    func create(
        _ unique: Identifier,
        length: Int,
        metadata: String?,
        key: String?,
        for account: Identifier
    ) -> Command<Outcome> {
        Command(keys: [.balance(account), .feed(account)] + StoredUpload.keys(of: account)) {
            loaded throws(Problem) in
            guard loaded.balance(account) != nil else { throw .noAccount }
            let uploads = try StoredUpload.all(of: account, in: loaded)
            if let key, let known = uploads.first(where: { $0.key == key && now < $0.expiresAt }) {
                guard known.length == length, known.metadata == metadata else {
                    throw .otherRequest
                }
                return Decision(Outcome(upload: known))
            }
            guard let slot = slot(besides: uploads) else { throw .tooManyUploads }
            let old = uploads.first { $0.slot == slot }
            let new = StoredUpload(
                account: account,
                slot: slot,
                unique: unique,
                length: length,
                metadata: metadata,
                key: key,
                expiresAt: now + kept
            )
            var feed = loaded.feed(account) ?? FeedRow(account: account)
            feed.bytes = max(0, feed.bytes - (old?.reservedBytes ?? 0))
            try BlobCommands(bytesPerAccount: bytesPerAccount)
                .checkRoom(for: new.reservedBytes, taken: feed.bytes)
            feed.bytes += new.reservedBytes
            return Decision(
                Outcome(upload: new, isNew: true, surplus: old?.pieceIDs ?? []),
                changes: [.put(new), .put(.feed(feed))]
            )
        }
    }

    private func slot(besides uploads: [StoredUpload]) -> Int? {
        let taken = Set(uploads.map(\.slot))
        if let free = (0..<WireLimits.uploadsPerAccount).first(where: { !taken.contains($0) }) {
            return free
        }
        if let expired = uploads.first(where: { $0.expiresAt <= now }) { return expired.slot }
        return uploads.filter(\.isFinished).min { $0.expiresAt < $1.expiresAt }?.slot
    }

    /// Adds pieces to an upload, which replace those from a number on.
    ///
    /// The command is refused with `not_found`, or with `offset_mismatch` if another request has
    /// added bytes.
    ///
    /// - Parameters:
    ///   - pieces: The pieces, which are stored.
    ///   - first: The number of the first of them.
    ///   - upload: The upload as it was when the request began.
    ///   - offset: The number of bytes with the pieces.
    /// - Returns: The command.
    func append(
        _ pieces: [BlobID],
        from first: Int,
        to upload: StoredUpload,
        offset: Int
    ) -> Command<Outcome> {
        Command(keys: [.feed(upload.account), upload.row.key]) { loaded throws(Problem) in
            var new = try current(upload, in: loaded)
            let replaced = new.pieceIDs.dropFirst(first)
            new.pieces = new.pieces.prefix(first) + pieces.map(\.description)
            new.offset = offset
            new.expiresAt = max(new.expiresAt, now + kept)
            let surplus = Set(replaced).subtracting(pieces)
            return Decision(
                Outcome(upload: new, surplus: Array(surplus)),
                changes: [.put(new)]
            )
        }
    }

    /// Ends an upload whose file is stored, and adds the file to the account.
    ///
    /// The command is refused with `not_found`, `offset_mismatch`, or `storage_full` if the stored
    /// file is larger than the uploaded one and has no room.
    func finish(
        _ upload: StoredUpload,
        as row: BlobRow,
        _ placeholder: ThumbHash?
    ) -> Command<Outcome> {
        let files = BlobCommands(bytesPerAccount: bytesPerAccount)
        return Command(keys: files.keys(row) + [upload.row.key]) { loaded throws(Problem) in
            guard loaded.balance(row.account) != nil else { throw .noAccount }
            var new = try current(upload, in: loaded)
            var feed = loaded.feed(row.account) ?? FeedRow(account: row.account)
            feed.bytes = max(0, feed.bytes - new.reservedBytes)
            var stored = row
            if let known = loaded.blob(row.account, row.id) {
                stored = known
                stored.createdAt = max(known.createdAt, row.createdAt)
            } else {
                try files.checkRoom(for: row.storedBytes, taken: feed.bytes)
                feed.bytes += row.storedBytes
            }
            let surplus = new.pieceIDs
            new.file = stored.facts(placeholder)
            (new.offset, new.pieces) = (new.length, [])
            new.expiresAt = now + kept
            return Decision(
                Outcome(upload: new, isNew: true, surplus: surplus),
                changes: [.put(.blob(stored)), .put(.feed(feed)), .put(new)]
            )
        }
    }

    /// Removes an upload, and gives its space back.
    ///
    /// - Parameters:
    ///   - id: The upload.
    ///   - account: The account.
    ///   - isExpired: Whether to remove it only if it has expired. Default: no.
    /// - Returns: The pieces to remove; `nil` if the account does not have the upload.
    func remove(
        _ id: UploadID,
        of account: Identifier,
        ifExpired isExpired: Bool = false
    ) -> Command<[BlobID]?> {
        Command(keys: [.feed(account), StoredUpload.key(account, id.slot)]) {
            loaded throws(Problem) in
            guard let upload = try StoredUpload.find(account, id.slot, in: loaded), upload.id == id,
                !isExpired || upload.expiresAt <= now
            else { return Decision(nil) }
            var changes = [Change.delete(upload)]
            if var feed = loaded.feed(account), !upload.isFinished {
                feed.bytes = max(0, feed.bytes - upload.reservedBytes)
                changes.append(.put(.feed(feed)))
            }
            return Decision(upload.pieceIDs, changes: changes)
        }
    }

    /// Returns an upload as it is stored, unless another request has changed its bytes.
    private func current(
        _ upload: StoredUpload,
        in loaded: Loaded
    ) throws(Problem) -> StoredUpload {
        guard let known = try StoredUpload.find(upload.account, upload.slot, in: loaded),
            known.id == upload.id
        else { throw .noUpload }
        guard known.offset == upload.offset, known.pieces == upload.pieces, !known.isFinished else {
            throw .offsetMismatch(known.offset)
        }
        return known
    }
}

extension Problem {
    /// The error for an upload that does not exist, has expired, or belongs to another account.
    static var noUpload: Problem {
        Problem(.notFound, "Begin the upload again with 'POST /v1/uploads': it does not exist.")
    }

    /// The error for bytes that do not follow the stored ones.
    ///
    /// The response has the offset, so that a client need not ask for it.
    static func offsetMismatch(_ offset: Int) -> Problem {
        let detail = "Send the bytes from 'Upload-Offset' \(offset) on."
        var problem = Problem(.offsetMismatch, detail)
        problem.context.value = WireResponse.ProblemFields(
            fields: [(.uploadOffset, String(offset))]
        )
        return problem
    }

    fileprivate static var tooManyUploads: Problem {
        Problem(
            .storageFull,
            """
            Finish or delete one of the uploads that 'GET /v1/uploads' lists: an account may have \
            \(WireLimits.uploadsPerAccount) unfinished ones.
            """
        )
    }
}
