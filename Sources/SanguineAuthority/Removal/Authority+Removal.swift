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
        /// Rows were removed or stepped over, and there may be more.
        case removed
        /// Nothing is left to remove now; calls may still run, or requests may still end.
        case waiting
        /// The removal has finished.
        case done
    }

    /// Performs one bounded step of a removal: it reads and removes a page of rows.
    ///
    /// The caller ends the account's running calls.
    ///
    /// - Parameters:
    ///   - account: The account.
    ///   - walk: The position of the removal, which the step advances.
    ///   - mayFinish: Whether no call of the account is running. Default: true.
    /// - Returns: What the step did.
    /// - Throws: `overloaded` or `internal_fault` if the storage fails.
    package func removeSome(
        of account: Identifier,
        _ walk: inout RemovalWalk,
        mayFinish: Bool = true
    ) async throws(Problem) -> RemovalStep {
        let began = walk.began ?? clock.now()
        walk.began = began
        walk.isQuiet = walk.isQuiet && mayFinish
        while let stage = walk.stage {
            if try await removePage(stage, of: account, &walk) { return .removed }
        }
        if let alias = walk.alias {
            try await perform(removal.endAlias(alias, of: account), evenIfDeleted: true)
            walk = RemovalWalk()
            return .removed
        }
        let isQuiet = walk.isQuiet
        let alias = try await firstAlias(of: account)
        walk = RemovalWalk(alias: alias)
        guard alias == nil else { return .removed }
        guard isQuiet else { return .waiting }
        let finish = removal.finish(account, walkedFrom: began)
        return try await perform(finish, evenIfDeleted: true) == nil ? .waiting : .done
    }

    private func firstAlias(of account: Identifier) async throws(Problem) -> Identifier? {
        let open = Removal.openID(account)
        let loaded = try await read { storage throws(StorageError) in
            try await storage.load([Removal.key(open)])
        }
        return try loaded.document(Removal.self, open)?.aliases?.first
    }

    /// Removes a page of rows, and ends the stage after the last one.
    ///
    /// - Returns: Whether the page has rows.
    private func removePage(
        _ stage: RemovalWalk.Stage,
        of account: Identifier,
        _ walk: inout RemovalWalk
    ) async throws(Problem) -> Bool {
        switch stage {
        case .rows(let kind): try await removeRows(kind, of: account, &walk)
        case .records(let liveOnly): try await removeRecords(of: account, liveOnly, &walk)
        case .holds: try await releaseHolds(of: account, &walk)
        }
    }

    /// Returns the next page of rows.
    private func page(
        _ kind: AccountRowsQuery.Kind,
        of owner: Identifier,
        limit: Int,
        _ walk: inout RemovalWalk
    ) async throws(Problem) -> [Row] {
        let query = AccountRowsQuery(kind, of: owner, after: walk.last, limit: limit)
        let rows = try await read { storage throws(StorageError) in try await storage.rows(query) }
        if rows.count < limit { walk.endStage() } else { walk.last = rows.last?.key }
        return rows
    }

    private func removeRows(
        _ kind: AccountRowsQuery.Kind,
        of account: Identifier,
        _ walk: inout RemovalWalk
    ) async throws(Problem) -> Bool {
        let isLarge = [.operations, .results].contains(kind)
        let limit = isLarge ? Removal.stepAnswers : Removal.stepRows
        let owner = walk.alias ?? account
        let rows = try await page(kind, of: owner, limit: limit, &walk)
        let removable = rows.filter(\.isRemovedWithItsAccount)
        if !removable.isEmpty {
            let command = removal.remove(removable, of: account, ownedBy: owner)
            let ended = try await perform(command, evenIfDeleted: true)
            for session in ended { tokens.end(session, of: owner) }
        }
        return !rows.isEmpty
    }

    private func removeRecords(
        of account: Identifier,
        _ liveOnly: Bool,
        _ walk: inout RemovalWalk
    ) async throws(Problem) -> Bool {
        // A merge has moved the records of a guest.
        guard walk.alias == nil else {
            walk.endStage()
            return false
        }
        let query = FeedQuery(
            of: account,
            after: walk.number,
            limit: Removal.stepRows,
            bytes: Removal.stepBytes,
            liveOnly: liveOnly
        )
        let slice = try await read { storage throws(StorageError) in
            try await storage.feed(query)
        }
        if slice.hasMore, let last = slice.records.last {
            walk.number = last.seq
        } else {
            walk.endStage()
        }
        // The tombstones of records that others could read stay for a while.
        let removable = slice.records.filter { $0.isLive || $0.name.scope != nil }
        if !removable.isEmpty {
            try await perform(removal.remove(removable, of: account), evenIfDeleted: true)
        }
        return !slice.records.isEmpty
    }

    private func releaseHolds(
        of account: Identifier,
        _ walk: inout RemovalWalk
    ) async throws(Problem) -> Bool {
        let owner = walk.alias ?? account
        let rows = try await page(.openHolds, of: owner, limit: Removal.stepAnswers, &walk)
        for case .hold(let hold) in rows where hold.operation == nil {
            try await perform(removal.release(hold.id, of: owner), evenIfDeleted: true)
        }
        return !rows.isEmpty
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
        case .document(let row):
            row.kind != .removal
                && (row.kind != .purchase || row.id.hasPrefix(PlanSources.prefix))
        default: true
        }
    }
}
