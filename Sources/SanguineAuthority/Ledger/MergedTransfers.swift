import SanguineModel

/// The transfers of several accounts, as one list with the newest first.
///
/// The transfers of each account are read in small parts, and only as far as the list needs them:
/// for a page, at most twice its transfers and ``leastPart`` for each account.
struct MergedTransfers {
    /// The smallest number of transfers that are read at a time: 8.
    static let leastPart = 8

    private struct Source {
        let owner: Identifier
        var position: Int64?
        /// The transfers that were read, oldest first.
        var waiting: [NumberedTransfer] = []
        var isAtEnd = false
    }

    private var sources: [Source]
    private let part: Int

    /// Creates the list.
    ///
    /// - Parameters:
    ///   - owners: The accounts.
    ///   - number: Only transfers with a smaller number are in the list; `nil` for all.
    ///   - limit: The number of transfers that are needed.
    init(of owners: [Identifier], before number: Int64?, limit: Int) {
        sources = owners.map { Source(owner: $0, position: number) }
        part = owners.count == 1 ? limit : max(Self.leastPart, limit / max(1, owners.count))
    }

    /// Returns the next transfer; `nil` at the end.
    mutating func next(in storage: any Storage) async throws(StorageError) -> NumberedTransfer? {
        var newest: (index: Int, number: Int64)?
        for index in sources.indices {
            if sources[index].waiting.isEmpty { try await read(index, in: storage) }
            guard let number = sources[index].waiting.last?.number else { continue }
            if number > newest?.number ?? .min { newest = (index, number) }
        }
        return newest.flatMap { sources[$0.index].waiting.popLast() }
    }

    private mutating func read(
        _ index: Int,
        in storage: any Storage
    ) async throws(StorageError) {
        guard !sources[index].isAtEnd else { return }
        let found = try await storage.transfers(
            of: sources[index].owner,
            before: sources[index].position,
            limit: part
        )
        sources[index].position = found.last?.number
        sources[index].waiting = found.reversed()
        sources[index].isAtEnd = found.count < part
    }
}

extension Storage {
    /// Returns the transfers of several accounts, newest first.
    ///
    /// See ``Storage/transfers(of:before:limit:)``.
    func transfers(
        ofAll owners: [Identifier],
        before number: Int64?,
        limit: Int
    ) async throws(StorageError) -> [NumberedTransfer] {
        var list = MergedTransfers(of: owners, before: number, limit: limit)
        var found: [NumberedTransfer] = []
        while found.count < limit, let next = try await list.next(in: self) { found.append(next) }
        return found
    }

    /// Returns a number before which the account has exactly the transfers that were made before a
    /// time.
    ///
    /// The times of an account's transfers never decrease, so that some 60 reads of one transfer
    /// find the number, regardless of how many transfers there are.
    ///
    /// - Parameters:
    ///   - end: The time.
    ///   - owner: The account.
    ///   - late: The number of a transfer of the account that was not made before the time.
    /// - Returns: The number of the first transfer that was not made before the time.
    /// - Throws: ``StorageError`` if the driver could not read the transfers.
    func number(
        ofFirstTransferFrom end: Timestamp,
        of owner: Identifier,
        atMost late: Int64
    ) async throws(StorageError) -> Int64 {
        // All transfers before `low` are early; that with the number `high` is not.
        var (low, high) = (Int64(0), late)
        while low < high {
            let middle = low + (high - low + 1) / 2
            let found = try await transfers(of: owner, before: middle, limit: 1).first
            if let found, found.transfer.at >= end { high = found.number } else { low = middle }
        }
        return high
    }
}
