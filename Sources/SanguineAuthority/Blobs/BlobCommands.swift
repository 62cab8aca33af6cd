import SanguineModel

/// Decides on the ownership of files and on the space that they take.
struct BlobCommands: Sendable {
    let bytesPerAccount: Int64

    /// Adds a file, whose bytes are already stored, to an account.
    ///
    /// - Returns: The row, and whether it is new.
    func add(_ row: BlobRow) -> Command<(row: BlobRow, isNew: Bool)> {
        Command(keys: keys(row)) { loaded throws(Problem) in
            if let known = loaded.blob(row.account, row.id) { return Decision((known, false)) }
            try checkRoom(for: row, in: loaded)
            var feed = loaded.feed(row.account) ?? FeedRow(account: row.account)
            feed.bytes += row.storedBytes
            return Decision((row, true), changes: [.put(.blob(row)), .put(.feed(feed))])
        }
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
        let taken = loaded.feed(row.account)?.bytes ?? 0
        guard row.storedBytes <= bytesPerAccount - min(taken, bytesPerAccount) else {
            throw Problem(
                .storageFull,
                """
                Delete records first, or send a smaller file: records and files may take \
                \(bytesPerAccount) bytes in all.
                """
            )
        }
    }
}
