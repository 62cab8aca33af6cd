package import SanguineModel

// The removal of accounts. Its steps continue after a restart, because its progress is stored.
extension Authority {
    /// Ends all access to the caller's account, and begins to remove it.
    ///
    /// - Parameters:
    ///   - identity: The caller.
    ///   - request: The proof that the person asks: the newest refresh token of the session, or
    ///     nothing within ten minutes of the sign-in.
    /// - Returns: The progress, and the head of the account's feed.
    /// - Throws: `credentials_invalid` without the proof, `not_found`.
    package func deleteAccount(
        _ identity: Identity,
        _ request: DeletionRequest
    ) async throws(Problem) -> (RemovalStatus, head: Int64) {
        let proof = try proof(request.refreshToken, of: identity)
        return try await begin(identity.account, .caller(proof), by: nil)
    }

    /// Ends all access to an account, and begins to remove it, for an administrator.
    package func deleteAccount(
        _ account: Identifier,
        by note: AuditNote
    ) async throws(Problem) -> (RemovalStatus, head: Int64) {
        try await begin(account, .administrator, by: note)
    }

    private func begin(
        _ account: Identifier,
        _ proof: RemovalCommands.Proof,
        by note: AuditNote?
    ) async throws(Problem) -> (RemovalStatus, head: Int64) {
        let begun = try await perform(removal.begin(account, proof), by: note)
        tokens.end(account, of: account)
        return (begun.removal.status, begun.head)
    }

    /// Returns the progress of an account's removal; `nil` if there is none, or if it finished
    /// more than 30 days ago.
    package func removalStatus(_ account: Identifier) async throws(Problem) -> RemovalStatus? {
        let (open, done) = (Removal.openID(account), Removal.doneID(account))
        let loaded = try await read { storage throws(StorageError) in
            try await storage.load([Removal.key(open), Removal.key(done)])
        }
        if let found = try loaded.document(Removal.self, open) { return found.status }
        return try loaded.document(Removal.self, done)?.status
    }

    /// Returns accounts whose removal has not finished, in the order of their ids.
    package func openRemovals(
        after account: Identifier? = nil,
        limit: Int
    ) async throws(Problem) -> [Identifier] {
        // Documents of finished removals come before these.
        let start = account.map(Removal.openID) ?? "open"
        let rows = try await read { storage throws(StorageError) in
            try await storage.documents(DocumentQuery(.removal, after: start, limit: limit))
        }
        var accounts: [Identifier] = []
        for row in rows { accounts.append(try Removal(row).account) }
        return accounts
    }

    /// The result of one step of a removal.
    package enum RemovalStep: Hashable, Sendable {
        /// Rows were removed, and there may be more.
        case removed
        /// Nothing is left to remove now; calls may still run, or requests may still end.
        case waiting
        /// The removal has finished.
        case done
    }

    /// Performs one bounded step of a removal.
    ///
    /// The caller ends the account's running calls.
    ///
    /// - Parameters:
    ///   - account: The account.
    ///   - mayFinish: Whether no call of the account is running. Default: true.
    /// - Returns: What the step did.
    /// - Throws: `overloaded` or `internal_fault` if the storage fails.
    package func removeSome(
        of account: Identifier,
        mayFinish: Bool = true
    ) async throws(Problem) -> RemovalStep {
        if try await removeSome(
            [.sessions, .devices, .documents, .quotas, .blobs],
            of: account
        ) {
            return .removed
        }
        if try await removeRecords(of: account, liveOnly: true) { return .removed }
        if try await removeRecords(of: account, liveOnly: false) { return .removed }
        if try await releaseHolds(of: account) { return .removed }
        if try await removeSome([.results, .operations], of: account) { return .removed }
        guard mayFinish else { return .waiting }
        let finished = try await perform(removal.finish(account), evenIfDeleted: true)
        return finished == nil ? .waiting : .done
    }

    private func removeSome(
        _ kinds: [AccountRowsQuery.Kind],
        of account: Identifier
    ) async throws(Problem) -> Bool {
        var isAny = false
        for kind in kinds where !isAny {
            isAny = try await removeSome(kind, of: account)
        }
        return isAny
    }

    private func removeSome(
        _ kind: AccountRowsQuery.Kind,
        of account: Identifier
    ) async throws(Problem) -> Bool {
        var query = AccountRowsQuery(kind, of: account, limit: Removal.stepRows)
        while true {
            let rows = try await read { [query] storage throws(StorageError) in
                try await storage.rows(query)
            }
            guard let last = rows.last else { return false }
            let removable = rows.filter(\.isRemovedWithItsAccount)
            if !removable.isEmpty {
                let ended = try await perform(
                    removal.remove(removable, of: account),
                    evenIfDeleted: true
                )
                for session in ended { tokens.end(session, of: account) }
                return true
            }
            query.after = last.key
        }
    }

    private func removeRecords(
        of account: Identifier,
        liveOnly: Bool
    ) async throws(Problem) -> Bool {
        var query = FeedQuery(
            of: account,
            after: 0,
            limit: Removal.stepRows,
            bytes: Self.removedBytes,
            liveOnly: liveOnly
        )
        while true {
            let slice = try await read { [query] storage throws(StorageError) in
                try await storage.feed(query)
            }
            // The tombstones of records that others could read stay for a while.
            let removable = slice.records.filter { $0.isLive || $0.name.scope != nil }
            if !removable.isEmpty {
                try await perform(removal.remove(removable, of: account), evenIfDeleted: true)
                return true
            }
            guard slice.hasMore, let last = slice.records.last else { return false }
            query.after = last.seq
        }
    }

    /// The size of records that are read for one step.
    private static let removedBytes = 1 << 20

    private func releaseHolds(of account: Identifier) async throws(Problem) -> Bool {
        let query = AccountRowsQuery(.openHolds, of: account, limit: Removal.stepRows)
        let rows = try await read { storage throws(StorageError) in try await storage.rows(query) }
        var isAny = false
        for case .hold(let hold) in rows where hold.operation == nil {
            try await perform(removal.release(hold.id, of: account), evenIfDeleted: true)
            isAny = true
        }
        return isAny
    }

    private var removal: RemovalCommands {
        RemovalCommands(settings: settings, now: clock.now())
    }
}

extension Row {
    /// Whether a removal of the account removes the row now.
    fileprivate var isRemovedWithItsAccount: Bool {
        switch self {
        case .operation(let row):
            if case .running = row.state { false } else { true }
        // A transaction is credited once, also after the account of its first credit is gone. The
        // document names no person.
        case .document(let row): row.kind != .purchase && row.kind != .removal
        default: true
        }
    }
}
