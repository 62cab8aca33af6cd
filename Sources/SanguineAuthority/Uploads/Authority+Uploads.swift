import SanguineModel

// Resumable uploads. The bytes that arrive are stored by ``UploadReceiver``.
extension Authority {
    var uploadCommands: UploadCommands {
        UploadCommands(
            bytesPerAccount: settings.bytesPerAccount,
            kept: settings.uploadsKept,
            now: clock.now()
        )
    }

    /// Begins an upload, and reserves the space of its file.
    ///
    /// - Parameters:
    ///   - length: The size of the file in bytes, which the caller has checked.
    ///   - metadata: The value of `Upload-Metadata`.
    ///   - key: The idempotency key; the same one finds the upload again. `nil` for none.
    ///   - account: The owner of the file.
    /// - Returns: The upload, and whether it is new.
    /// - Throws: see ``UploadCommands/create(_:length:metadata:key:for:)``.
    func createUpload(
        length: Int,
        metadata: String?,
        key: String?,
        for account: Identifier
    ) async throws(Problem) -> (upload: StoredUpload, isNew: Bool) {
        let command = uploadCommands.create(
            Identifier(at: clock.now()),
            length: length,
            metadata: metadata,
            key: key,
            for: account
        )
        let outcome = try await perform(command)
        await removePieces(outcome.surplus)
        if let id = outcome.upload.file.flatMap({ BlobID($0.id) }),
            try await blobs([id], of: account).isEmpty
        {
            // The account has deleted the file, and uploads it again.
            _ = try await perform(uploadCommands.remove(outcome.upload.id, of: account))
            return try await createUpload(
                length: length,
                metadata: metadata,
                key: key,
                for: account
            )
        }
        return (outcome.upload, outcome.isNew)
    }

    /// Returns an upload of an account.
    ///
    /// - Throws: `not_found` if the account has no such upload, or if it has expired.
    func upload(_ id: UploadID, of account: Identifier) async throws(Problem) -> StoredUpload {
        let loaded = try await read { storage throws(StorageError) in
            try await storage.load([StoredUpload.key(account, id.slot)])
        }
        guard let upload = try StoredUpload.find(account, id.slot, in: loaded), upload.id == id,
            clock.now() < upload.expiresAt
        else { throw .noUpload }
        return upload
    }

    /// Returns the uploads of an account that have not expired.
    func uploads(of account: Identifier) async throws(Problem) -> [StoredUpload] {
        let loaded = try await read { storage throws(StorageError) in
            try await storage.load(StoredUpload.keys(of: account))
        }
        let now = clock.now()
        return try StoredUpload.all(of: account, in: loaded).filter { now < $0.expiresAt }
    }

    /// Removes an upload and its bytes; the file of a finished one stays.
    ///
    /// - Throws: `not_found` if the account has no such upload.
    func removeUpload(_ id: UploadID, of account: Identifier) async throws(Problem) {
        guard let pieces = try await perform(uploadCommands.remove(id, of: account)) else {
            throw .noUpload
        }
        await removePieces(pieces)
    }

    /// Removes expired uploads and their bytes.
    ///
    /// - Parameters:
    ///   - limit: The number of uploads to examine; the next sweep continues after them.
    ///   - moment: The time of the sweep.
    /// - Returns: The number of removed uploads.
    /// - Throws: `overloaded` or `internal_fault` if the storage fails; the next sweep continues
    ///   after the upload whose removal failed.
    func sweepUploads(limit: Int, asOf moment: Timestamp) async throws(Problem) -> Int {
        let query = DocumentQuery(.upload, after: blobSweep.uploadPosition, limit: limit)
        let rows = try await read { storage throws(StorageError) in
            try await storage.documents(query)
        }
        var commands = uploadCommands
        commands.now = moment
        var count = 0
        for row in rows {
            // Set first: an upload whose removal fails must not keep those after it.
            blobSweep.uploadPosition = row.id
            // One that a newer server has written must not stop the sweep.
            guard let upload = try? StoredUpload(row), upload.expiresAt <= moment else { continue }
            let command = commands.remove(upload.id, of: upload.account, ifExpired: true)
            // A deleted account loses its uploads in any case.
            guard let pieces = try await perform(command, evenIfDeleted: true) else { continue }
            await removePieces(pieces)
            count += 1
            blobSweep.addRemoved(uploads: 1)
        }
        if rows.count < limit { blobSweep.uploadPosition = nil }
        return count
    }

    /// Removes pieces that no upload needs.
    ///
    /// Pieces that cannot be removed now are removed by ``sweepBlobs(limit:asOf:)``.
    func removePieces(_ pieces: [BlobID]) async {
        for piece in pieces {
            // No upload stores a piece of another one, so its time does not matter.
            let end = Timestamp(millisecondsSince1970: .max)
            _ = try? await storage.blobs.remove(piece, keptBefore: end)
        }
    }

    /// Returns whether stored bytes without an owner are a piece that an upload needs.
    func isPieceInUse(_ id: BlobID) async throws(Problem) -> Bool {
        let beginning = try await read { storage throws(StorageError) in
            try await storage.blobs.read(id, from: 0, count: UploadPiece.lineBytes)
        }
        guard let piece = beginning.flatMap(UploadPiece.init(beginningOf:)) else { return false }
        let loaded = try await read { storage throws(StorageError) in
            try await storage.load([StoredUpload.key(piece.account, piece.upload.slot)])
        }
        guard let upload = try StoredUpload.find(piece.account, piece.upload.slot, in: loaded)
        else { return false }
        return upload.id == piece.upload && upload.pieces.contains(id.description)
    }
}
