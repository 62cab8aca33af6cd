import SanguineMedia
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
        let commands = BlobCommands(bytesPerAccount: settings.bytesPerAccount)
        let (content, row) = try await stored(file, for: account)
        // Checked before the file is written, so that a refused upload leaves no bytes on disk.
        let loaded = try await read { storage throws(StorageError) in
            try await storage.load(commands.keys(row))
        }
        if let known = loaded.blob(account, row.id) {
            // Otherwise it is stored again, so that it is not removed before a record names it.
            if settings.unnamedBlobsKept == nil, try await hasContent(of: known) {
                return (known.facts(content.placeholder), false)
            }
        } else {
            try commands.checkRoom(for: row, in: loaded)
        }
        let added = try await store(content, as: row, commands.add(row))
        return (added.row.facts(content.placeholder), added.isNew)
    }

    /// Returns whether the bytes of a file are stored, up to the last one.
    ///
    /// They are not after a copy of the data was restored without its files.
    private func hasContent(of row: BlobRow) async throws(Problem) -> Bool {
        let last = Int(clamping: max(0, row.size - 1))
        let bytes = try await read { storage throws(StorageError) in
            try await storage.blobs.read(row.id, from: last, count: 1)
        }
        return bytes?.count == 1
    }

    /// Stores a file for an account, and performs the command that gives it its owner.
    ///
    /// - Parameters:
    ///   - file: The uploaded bytes.
    ///   - account: The owner.
    ///   - command: Returns the command for the row of the stored file and its placeholder.
    /// - Returns: The outcome of the command.
    /// - Throws: see ``addBlob(_:to:)``, or the problem of the command.
    func store<Outcome>(
        _ file: [UInt8],
        for account: Identifier,
        _ command: (BlobRow, ThumbHash?) -> Command<Outcome>
    ) async throws(Problem) -> Outcome {
        let (content, row) = try await stored(file, for: account)
        return try await store(content, as: row, command(row, content.placeholder))
    }

    /// Returns a file as it is stored, and its row.
    private func stored(
        _ file: [UInt8],
        for account: Identifier
    ) async throws(Problem) -> (content: BlobContent, row: BlobRow) {
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
        return (content, row)
    }

    /// Stores the bytes, and then performs the command.
    private func store<Outcome>(
        _ content: BlobContent,
        as row: BlobRow,
        _ command: Command<Outcome>
    ) async throws(Problem) -> Outcome {
        blobSweep.beginAdding(row.id)
        defer { blobSweep.endAdding(row.id) }
        try await read { storage throws(StorageError) in
            try await storage.blobs.keep(content.bytes, as: row.id, at: row.createdAt)
        }
        return try await perform(command)
    }

    /// Returns the rows of those files that the account has.
    func blobs(_ ids: [BlobID], of account: Identifier) async throws(Problem) -> [BlobRow] {
        let loaded = try await read { storage throws(StorageError) in
            try await storage.load(ids.map { Key.blob(account, $0) })
        }
        return ids.compactMap { loaded.blob(account, $0) }
    }

    /// Removes a file from an account.
    ///
    /// Its bytes are removed later, if no other account has it. Records that name it stay as they
    /// are; the file is no longer found through them, unless another account has it as well.
    func removeBlob(_ id: BlobID, of account: Identifier) async throws(Problem) {
        _ = try await perform(
            BlobCommands(bytesPerAccount: settings.bytesPerAccount).remove(id, of: account)
        )
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
    /// - Throws: `overloaded` or `internal_fault` if the storage fails; the next sweep continues
    ///   after the files that this one has tried to remove.
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
        var rest = kept.filter { !owned.contains($0) && !adding.contains($0) }[...]
        var count = 0
        while !rest.isEmpty {
            let next = rest.prefix(Self.removalsAtOnce)
            rest = rest.dropFirst(next.count)
            // Set first: a file that cannot be removed must not keep those after it.
            blobSweep.position = next.last
            count += try await removeContents(next, horizon)
        }
        blobSweep.position = kept.count < limit ? nil : kept.last
        return count
    }

    /// The number of contents that a sweep removes at once, so that a bucket in a distant region
    /// does not make it slow: 8.
    static let removalsAtOnce = 8

    /// Removes contents without an owner, all at once, except for pieces that an upload needs.
    ///
    /// - Returns: The number of removed contents.
    /// - Throws: The first failure, when all of them have been tried.
    private func removeContents(
        _ ids: ArraySlice<BlobID>,
        _ horizon: Timestamp
    ) async throws(Problem) -> Int {
        let results = await withTaskGroup(
            of: Result<Bool, Problem>.self,
            returning: [Result<Bool, Problem>].self
        ) { group in
            for id in ids {
                group.addTask {
                    await Result { () async throws(Problem) in
                        try await self.removeContent(id, horizon)
                    }
                }
            }
            return await group.reduce(into: []) { $0.append($1) }
        }
        var count = 0
        for result in results { count += try result.get() ? 1 : 0 }
        return count
    }

    private func removeContent(
        _ id: BlobID,
        _ horizon: Timestamp
    ) async throws(Problem) -> Bool {
        guard !(try await isPieceInUse(id)) else { return false }
        let isRemoved = try await read { storage throws(StorageError) in
            // The store refuses to remove a file that was stored again in the meantime.
            try await storage.blobs.remove(id, keptBefore: horizon)
        }
        guard isRemoved else { return false }
        blobSweep.addRemoved(contents: 1)
        await images.removeThumbnails(of: id)
        return true
    }

    /// Removes files from accounts whose records do not name them, if the settings say so.
    ///
    /// Nothing is removed while an index that could tell is being built. A record that names the
    /// file at the same moment is stored before or after the removal: the file stays, or the record
    /// is refused.
    ///
    /// - Parameters:
    ///   - limit: The number of files to examine; the next sweep continues after them.
    ///   - moment: The time of the sweep. Default: the time of the clock.
    /// - Returns: The number of files that were removed from an account.
    /// - Throws: `overloaded` or `internal_fault` if the storage fails; the next sweep continues
    ///   after the file whose removal failed.
    func sweepUnnamedBlobs(
        limit: Int,
        asOf moment: Timestamp? = nil
    ) async throws(Problem) -> Int {
        guard let kept = settings.unnamedBlobsKept else { return 0 }
        let horizon = (moment ?? clock.now()) - kept
        let incomplete = incompleteIndexes.all
        guard !incomplete.contains(where: StoredIndex.isOfBlobs) else { return 0 }
        let query = FilesQuery(after: blobSweep.rowPosition, limit: limit)
        let rows = try await read { storage throws(StorageError) in
            try await storage.files(query)
        }
        let commands = BlobCommands(bytesPerAccount: settings.bytesPerAccount)
        var count = 0
        for row in rows {
            // Set first: a file whose removal fails must not keep those after it.
            blobSweep.rowPosition = row.position
            guard row.createdAt < horizon else { continue }
            let command = commands.removeUnnamed(
                row,
                storedBefore: horizon,
                lists: settings.schema.listsOfBlobs(ownedBy: row.account)
            )
            // A deleted account loses its files in any case.
            guard try await perform(command, evenIfDeleted: true) else { continue }
            count += 1
            blobSweep.addRemoved(unnamed: 1)
        }
        if rows.count < limit { blobSweep.rowPosition = nil }
        return count
    }
}

/// The positions of the sweeps for files, and the uploads in progress.
///
/// Mutable state: `state`, guarded by its mutex. It has one entry for each file being uploaded.
package final class BlobSweep: Sendable {
    private struct State {
        var last: BlobID?
        var lastRow: FilePosition?
        var removed: (contents: UInt64, unnamed: UInt64, uploads: UInt64) = (0, 0, 0)
        var lastUpload: String?
        /// The number of uploads in progress for each file.
        var adding: [BlobID: Int] = [:]
    }

    private let state = Mutex(State())

    /// The number of files whose bytes were removed, of those that an account lost because no
    /// record named them, and of resumable uploads that expired, since the start.
    package var removed: (contents: UInt64, unnamed: UInt64, uploads: UInt64) {
        state.withLock { $0.removed }
    }

    func addRemoved(contents: Int = 0, unnamed: Int = 0, uploads: Int = 0) {
        state.withLock { state in
            state.removed.contents += UInt64(contents)
            state.removed.unnamed += UInt64(unnamed)
            state.removed.uploads += UInt64(uploads)
        }
    }

    /// The id of the last document examined of a resumable upload; `nil` before the first.
    var uploadPosition: String? {
        get { state.withLock { $0.lastUpload } }
        set { state.withLock { $0.lastUpload = newValue } }
    }

    /// The last row examined for the records that name it; `nil` before the first.
    var rowPosition: FilePosition? {
        get { state.withLock { $0.lastRow } }
        set { state.withLock { $0.lastRow = newValue } }
    }

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
