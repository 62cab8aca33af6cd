import SanguineModel
import Synchronization

extension Authority {
    /// Stores a file for an account.
    ///
    /// Its bytes are durable before it is the account's. The same bytes again are the same file.
    ///
    /// - Parameters:
    ///   - file: What was sent; see ``BlobContent`` for what is stored of it.
    ///   - account: Whose file.
    /// - Returns: What is known of it, and whether the account did not have it.
    /// - Throws: in this order `unsupported_media_type`, `malformed_body`, `body_too_large` for too
    ///   many pixels, `storage_full`.
    func addBlob(
        _ file: [UInt8],
        to account: Identifier
    ) async throws(Problem) -> (facts: BlobFacts, isNew: Bool) {
        let content = try BlobContent(file)
        let row = BlobRow(
            account: account,
            id: BlobID(of: content.bytes),
            size: Int64(content.bytes.count),
            type: content.type.rawValue,
            width: content.size.map { Int64($0.width) },
            height: content.size.map { Int64($0.height) },
            createdAt: clock.now()
        )
        let commands = BlobCommands(bytesPerAccount: settings.bytesPerAccount)
        // Before the disk is written: whoever has no room leaves nothing there.
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

    /// What is known of files of an account, without those that it does not have.
    func blobs(_ ids: [BlobID], of account: Identifier) async throws(Problem) -> [BlobRow] {
        let loaded = try await read { storage throws(StorageError) in
            try await storage.load(ids.map { Key.blob(account, $0) })
        }
        return ids.compactMap { loaded.blob(account, $0) }
    }

    /// Bytes of a file that are read at a time: 64 KiB.
    static let blobPieceBytes = 1 << 16

    /// Reads a part of a file.
    ///
    /// - Returns: The bytes; none behind the end.
    /// - Throws: `internal_fault` for a file whose bytes are gone.
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

    /// Removes files that no account has, and that were kept so long ago that nobody is about to.
    ///
    /// - Parameters:
    ///   - limit: How many files are looked at; the next time goes on from there.
    ///   - moment: The time by which they are old. Default: what the clock shows.
    /// - Returns: How many were removed.
    /// - Throws: `overloaded` or `internal_fault` for a storage that fails; the next time begins
    ///   where this one did.
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
        // Their time says nothing if the clock has jumped since they were kept.
        let adding = blobSweep.adding
        let owned = try await read { storage throws(StorageError) in
            try await storage.owned(kept)
        }
        var count = 0
        for id in kept where !owned.contains(id) && !adding.contains(id) {
            let isRemoved = try await read { storage throws(StorageError) in
                // One that is being stored again right now is as good as new.
                try await storage.blobs.remove(id, keptBefore: horizon)
            }
            count += isRemoved ? 1 : 0
        }
        blobSweep.position = kept.count < limit ? nil : kept.last
        return count
    }
}

/// The progress of the search for files without an owner, and the files that get one now.
///
/// Mutable state: `state`, by its mutex. There are as many files as uploads that go on.
final class BlobSweep: Sendable {
    private struct State {
        var last: BlobID?
        /// How many uploads of each file go on.
        var adding: [BlobID: Int] = [:]
    }

    private let state = Mutex(State())

    /// The file that was looked at last; `nil` at the beginning.
    var position: BlobID? {
        get { state.withLock { $0.last } }
        set { state.withLock { $0.last = newValue } }
    }

    /// The files that are kept now, and get their owner next.
    var adding: Set<BlobID> { state.withLock { Set($0.adding.keys) } }

    /// A file is kept next, and gets its owner then.
    func beginAdding(_ id: BlobID) { state.withLock { $0.adding[id, default: 0] += 1 } }

    /// It has got its owner, or failed to.
    func endAdding(_ id: BlobID) {
        state.withLock { state in
            let others = (state.adding[id] ?? 1) - 1
            state.adding[id] = others > 0 ? others : nil
        }
    }
}

extension Problem {
    /// The answer to whoever reads a file that the data folder has lost.
    fileprivate static var blobLost: Problem {
        Problem(.internalFault, "Upload the file again: its content cannot be read.")
    }
}
