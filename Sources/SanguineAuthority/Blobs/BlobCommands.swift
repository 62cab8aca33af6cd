import SanguineModel

/// Decides on the ownership of files and on the space that they take.
struct BlobCommands: Sendable {
    let bytesPerAccount: Int64

    /// Adds a file, whose bytes are already stored, to an account.
    ///
    /// - Returns: The row, and whether it is new.
    func add(_ row: BlobRow) -> Command<(row: BlobRow, isNew: Bool)> {
        Command(keys: keys(row)) { loaded throws(Problem) in
            if var known = loaded.blob(row.account, row.id) {
                known.createdAt = max(known.createdAt, row.createdAt)
                return Decision((known, false), changes: [.put(.blob(known))])
            }
            try checkRoom(for: row, in: loaded)
            var feed = loaded.feed(row.account) ?? FeedRow(account: row.account)
            feed.bytes += row.storedBytes
            return Decision((row, true), changes: [.put(.blob(row)), .put(.feed(feed))])
        }
    }

    /// Removes a file from an account, which gets its space back.
    ///
    /// - Returns: Whether the account had it.
    func remove(_ id: BlobID, of account: Identifier) -> Command<Bool> {
        Command(keys: [.feed(account), .blob(account, id)]) { loaded in
            guard let row = loaded.blob(account, id) else { return Decision(false) }
            return Decision(true, changes: removal(of: row, in: loaded))
        }
    }

    /// Removes a file that no record of its owner names, unless that changed since it was found.
    ///
    /// - Parameters:
    ///   - row: The file.
    ///   - horizon: The time before which the account must have stored it last.
    ///   - lists: The lists of the owner's records that name files.
    /// - Returns: Whether it was removed.
    func removeUnnamed(
        _ row: BlobRow,
        storedBefore horizon: Timestamp,
        lists: [IndexList]
    ) -> Command<Bool> {
        Command(keys: [.feed(row.account), .blob(row.account, row.id)]) {
            loaded,
            reader throws(Problem) in
            guard let row = loaded.blob(row.account, row.id), row.createdAt < horizon else {
                return Decision(false)
            }
            do {
                let key = IndexKey(of: row.id)
                for list in lists where try !reader.ids(in: list, at: key, limit: 1).isEmpty {
                    return Decision(false)
                }
            } catch {
                throw Problem(.internalFault, "Check the server's log: a file was not examined.")
            }
            return Decision(true, changes: removal(of: row, in: loaded))
        }
    }

    private func removal(of row: BlobRow, in loaded: Loaded) -> [Change] {
        var changes = [Change.delete(.blob(row.account, row.id))]
        if var feed = loaded.feed(row.account) {
            feed.bytes = max(0, feed.bytes - row.storedBytes)
            changes.append(.put(.feed(feed)))
        }
        return changes
    }

    /// The keys to load for a decision on a file.
    func keys(_ row: BlobRow) -> [Key] {
        [.balance(row.account), .feed(row.account), .blob(row.account, row.id)]
    }

    /// Refuses a file for which the account has no space left.
    ///
    /// - Throws: `not_found` for an account that does not exist, `storage_full`.
    func checkRoom(for row: BlobRow, in loaded: Loaded) throws(Problem) {
        guard loaded.balance(row.account) != nil else { throw .noAccount }
        try checkRoom(for: row.storedBytes, taken: loaded.feed(row.account)?.bytes ?? 0)
    }

    /// Refuses bytes for which an account has no space left.
    ///
    /// - Throws: `storage_full`.
    func checkRoom(for bytes: Int64, taken: Int64) throws(Problem) {
        guard bytes <= bytesPerAccount - min(taken, bytesPerAccount) else {
            throw Problem(
                .storageFull,
                """
                Delete records or files first, or send a smaller file: together they may take \
                \(bytesPerAccount) bytes in all.
                """
            )
        }
    }
}
