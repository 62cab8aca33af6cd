import SanguineModel
import Synchronization

extension Authority {
    /// Stores a file for an account.
    ///
    /// The bytes are durable before the account owns the file. Equal bytes are stored as one file.
    ///
    /// - Parameters:
    ///   - file: The uploaded bytes; see ``BlobContent`` for the part that is stored.
    ///   - account: The owner.
    /// - Returns: The facts of the file, and whether it is new to the account.
    /// - Throws: in this order `unsupported_media_type`, `malformed_body`, `body_too_large` for too
    ///   many pixels, `storage_full`.
    func addBlob(
        _ file: [UInt8],
        to account: Identifier
    ) async throws(Problem) -> (facts: BlobFacts, isNew: Bool) {
        let content = try await BlobContent(file, for: account, by: images)
        let id = try await WireBody.perform(file.count, for: account) { () throws(Problem) in
            BlobID(of: content.bytes)
        }
        let row = BlobRow(
            account: account,
            id: id,
            size: Int64(content.bytes.count),
            type: content.type.rawValue,
            width: content.size.map { Int64($0.width) },
            height: content.size.map { Int64($0.height) },
            createdAt: clock.now()
        )
        let commands = BlobCommands(bytesPerAccount: settings.bytesPerAccount)
        // Checked before the file is written, so that a refused upload leaves no bytes on disk.
        let loaded = try await read { storage throws(StorageError) in
            try await storage.load(commands.keys(row))
        }
        if let known = loaded.blob(account, row.id) { return (known.facts, false) }
        try commands.checkRoom(for: row, in: loaded)
        blobSweep.beginAdding(row.id)
        defer { blobSweep.endAdding(row.id) }
        try await read { storage throws(StorageError) in
            try await storage.blobs.keep(content.bytes, as: row.id, at: row.createdAt)
        }
        let added = try await perform(commands.add(row))
        return (added.row.facts, added.isNew)
    }

    /// Returns the rows of those files that the account has.
    func blobs(_ ids: [BlobID], of account: Identifier) async throws(Problem) -> [BlobRow] {
        let loaded = try await read { storage throws(StorageError) in
            try await storage.load(ids.map { Key.blob(account, $0) })
        }
        return ids.compactMap { loaded.blob(account, $0) }
    }

    /// The number of bytes that are read at a time: 64 KiB.
    static let blobPieceBytes = 1 << 16

    /// Reads a part of a file.
    ///
    /// - Returns: The bytes; empty past the end of the file.
    /// - Throws: `internal_fault` if the bytes of the file are lost.
    func readBlob(
        _ id: BlobID,
        from offset: Int,
        count: Int = Authority.blobPieceBytes
    ) async throws(Problem) -> [UInt8] {
        let bytes = try await read { storage throws(StorageError) in
            try await storage.blobs.read(id, from: offset, count: count)
        }
        guard let bytes else { throw .blobLost }
        return bytes
    }

    /// Removes files that no account owns and that were stored before the grace period.
    ///
    /// - Parameters:
    ///   - limit: The number of files to examine; the next sweep continues after them.
    ///   - moment: The time of the sweep. Default: the time of the clock.
    /// - Returns: The number of removed files.
    /// - Throws: `overloaded` or `internal_fault` if the storage fails; the next sweep starts at
    ///   the same file.
    func sweepBlobs(limit: Int, asOf moment: Timestamp? = nil) async throws(Problem) -> Int {
        let horizon = (moment ?? clock.now()) - settings.blobGrace
        let start = blobSweep.position
        let kept = try await read { storage throws(StorageError) in
            try await storage.blobs.kept(before: horizon, after: start, limit: limit)
        }
        guard !kept.isEmpty else {
            blobSweep.position = nil
            return 0
        }
        // A clock that has jumped makes new files look old, so uploads in progress are skipped.
        let adding = blobSweep.adding
        let owned = try await read { storage throws(StorageError) in
            try await storage.owned(kept)
        }
        var count = 0
        for id in kept where !owned.contains(id) && !adding.contains(id) {
            let isRemoved = try await read { storage throws(StorageError) in
                // The store refuses to remove a file that was stored again in the meantime.
                try await storage.blobs.remove(id, keptBefore: horizon)
            }
            if isRemoved { await images.removeThumbnails(of: id) }
            count += isRemoved ? 1 : 0
        }
        blobSweep.position = kept.count < limit ? nil : kept.last
        return count
    }
}

/// The position of the sweep for files without an owner, and the uploads in progress.
///
/// Mutable state: `state`, guarded by its mutex. It has one entry for each file being uploaded.
final class BlobSweep: Sendable {
    private struct State {
        var last: BlobID?
        /// The number of uploads in progress for each file.
        var adding: [BlobID: Int] = [:]
    }

    private let state = Mutex(State())

    /// The last file examined; `nil` before the first.
    var position: BlobID? {
        get { state.withLock { $0.last } }
        set { state.withLock { $0.last = newValue } }
    }

    /// The files whose uploads are in progress.
    var adding: Set<BlobID> { state.withLock { Set($0.adding.keys) } }

    /// Records that an upload is about to store a file.
    func beginAdding(_ id: BlobID) { state.withLock { $0.adding[id, default: 0] += 1 } }

    /// Records that an upload has given the file its owner, or has failed.
    func endAdding(_ id: BlobID) {
        state.withLock { state in
            let others = (state.adding[id] ?? 1) - 1
            state.adding[id] = others > 0 ? others : nil
        }
    }
}

extension Problem {
    /// The error for a file whose bytes are missing from the data folder.
    fileprivate static var blobLost: Problem {
        Problem(.internalFault, "Upload the file again: its content cannot be read.")
    }
}
