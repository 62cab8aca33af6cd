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

    /// Removes messages of deleted threads, until a limit is reached.
    ///
    /// - Parameter limit: The number of steps, each of which removes some hundred messages.
    ///   Default: 16.
    /// - Returns: The number of steps that were performed.
    /// - Throws: `overloaded` while an index is being built, or the storage's error; the next turn
    ///   continues there.
    @discardableResult
    package func removeDeletedThreads(limit: Int = 16) async throws(Problem) -> Int {
        var steps = 0
        while steps < limit {
            let rows = try await read { storage throws(StorageError) in
                try await storage.documents(DocumentQuery(.threadRemoval, limit: limit))
            }
            if rows.isEmpty { break }
            for row in rows {
                let removal = try ThreadRemoval(row)
                var hasMore = true
                while hasMore, steps < limit {
                    steps += 1
                    hasMore = try await perform(
                        ThreadCommands(sync: sync).removeSome(of: removal),
                        evenIfDeleted: true
                    )
                }
            }
        }
        return steps
    }
}
