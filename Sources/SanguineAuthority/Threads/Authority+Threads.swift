import Foundation
package import SanguineModel

extension Authority {
    /// Returns a thread of the account, or `nil` if there is none.
    func thread(_ id: RecordID, of account: Identifier) async throws(Problem) -> ChatThread? {
        let name = RecordName(ChatThread.collection.name, in: account, id)
        let loaded = try await read { storage throws(StorageError) in
            try await storage.load([.record(name)])
        }
        guard let row = loaded.record(name), row.isLive else { return nil }
        return try? RecordValue(json: Data(row.value)).record(ChatThread.self, id: id)
    }

    /// Gives a thread a title that a function made, unless it has a title.
    func setTitle(
        _ title: String,
        of thread: RecordID,
        _ account: Identifier
    ) async throws(Problem) {
        let commands = ThreadCommands(sync: sync)
        try await following(account) { commands.title(title, of: thread, $0) }
    }

    /// Removes messages of deleted threads, until a limit is reached, and forgets the oldest
    /// deletions of accounts that have too many; see ``DeletedThread``.
    ///
    /// A thread whose messages cannot be removed does not prevent others from being removed.
    ///
    /// - Parameter limit: The number of steps, each of which removes some hundred messages.
    ///   Default: 16.
    /// - Returns: The number of steps that were performed.
    /// - Throws: The first failure, such as `overloaded` while an index is being built, after all
    ///   threads were tried; the next turn tries again.
    @discardableResult
    package func removeDeletedThreads(limit: Int = 16) async throws(Problem) -> Int {
        var (steps, last, failure) = (0, String?.none, Problem?.none)
        var accounts: Set<Identifier> = []
        while steps < limit {
            let rows = try await read { [last] storage throws(StorageError) in
                try await storage.documents(
                    DocumentQuery(.threadRemoval, after: last, limit: limit)
                )
            }
            for row in rows {
                do throws(Problem) {
                    let removal = try ThreadRemoval(row)
                    accounts.insert(removal.account)
                    try await remove(removal, &steps, limit)
                } catch {
                    failure = failure ?? error
                }
            }
            guard let end = rows.last?.id, rows.count == limit else { break }
            last = end
        }
        for account in accounts.sorted() { try await forgetDeletions(of: account) }
        if let failure { throw failure }
        return steps
    }

    private func remove(
        _ removal: ThreadRemoval,
        _ steps: inout Int,
        _ limit: Int
    ) async throws(Problem) {
        var hasMore = true
        while hasMore, steps < limit {
            steps += 1
            hasMore = try await perform(
                ThreadCommands(sync: sync).removeSome(of: removal),
                evenIfDeleted: true
            )
        }
    }

    /// Forgets some of the oldest deletions of an account that has too many.
    private func forgetDeletions(of account: Identifier) async throws(Problem) {
        let most = DeletedThread.number + DeletedThread.forgottenAtOnce
        let rows = try await read { storage throws(StorageError) in
            try await storage.documents(
                DocumentQuery(.deletedThread, of: account, limit: most)
            )
        }
        let surplus = rows.count - DeletedThread.number
        guard surplus > 0 else { return }
        // An expiry is the time of the deletion, later by a constant.
        let end = clock.now() - DeletedThread.leastKept + DeletedThread.kept
        let keys = rows.sorted { $0.expiresAt ?? .never < $1.expiresAt ?? .never }
            .prefix(surplus)
            .filter { $0.expiresAt ?? .never < end }
            .map(\.key)
        guard !keys.isEmpty else { return }
        let command = Command<Void>(keys: []) { _ in Decision((), changes: keys.map { .delete($0) })
        }
        try await perform(command)
    }
}
