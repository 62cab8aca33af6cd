public import SanguineModel

extension Authority {
    /// Returns the balance as of the newest commit.
    ///
    /// - Parameters:
    ///   - account: The owner.
    ///   - operations: Idempotency keys to look up; at most ``WireLimits/operationsAsked``. Their
    ///     states are as of the same moment as the balance.
    /// - Returns: The balance, with the states of the operations if any were given.
    /// - Throws: `not_found` if the account is gone, `malformed_request` for too many operations.
    public func balance(
        _ account: Identifier,
        operations: [String] = []
    ) async throws(Problem) -> Balance {
        guard operations.count <= WireLimits.operationsAsked else {
            throw Problem(
                .malformedRequest,
                "Ask about at most \(WireLimits.operationsAsked) operations."
            )
        }
        let keys = [Key.balance(account)] + operations.map { .operation(account, key: $0) }
        var loaded = try await load(keys)
        // The amount that a running operation holds is stored with its hold. A hold that appears
        // between two reads requires another read; the number of reads is limited.
        for _ in 0..<Self.looks where !operations.isEmpty {
            let holds = operations.compactMap { runningHold(account, $0, loaded) }
            loaded = try await load(keys + holds.map(Key.hold))
            let isWhole = operations.allSatisfy {
                runningHold(account, $0, loaded).map { loaded.hold($0) != nil } ?? true
            }
            if isWhole { break }
        }
        guard let stored = loaded.balance(account) else { throw .noAccount }
        let row = await withoutExpired(stored)
        var balance = encoder.message(row)
        if !operations.isEmpty {
            balance.operations = states(of: operations, account, loaded)
        }
        return balance
    }

    /// Returns the balance as JSON, with its head: the fast path of the most frequent request.
    public func balanceJSON(
        _ account: Identifier
    ) async throws(Problem) -> (body: [UInt8], head: Int64) {
        guard let stored = try await load([.balance(account)]).balance(account) else {
            throw .noAccount
        }
        let row = await withoutExpired(stored)
        return (Array(encoder.json(row).utf8), row.head)
    }

    /// Spends tokens at once.
    ///
    /// - Throws: in this order `idempotency_mismatch`, `operation_in_progress`,
    ///   `idempotency_expired`, `invalid_content`, `insufficient_tokens`.
    public func spend(
        _ account: Identifier,
        _ submission: Submission<SpendRequest>
    ) async throws(Problem) -> Answer {
        try await perform(ledger.spend(account, submission))
    }

    /// Grants tokens.
    ///
    /// Intended for support.
    public func grant(
        _ account: Identifier,
        _ submission: Submission<GrantRequest>
    ) async throws(Problem) -> Answer {
        try await grant(account, submission, by: nil)
    }

    /// Works like ``grant(_:_:)``, with an entry in the audit log.
    package func grant(
        _ account: Identifier,
        _ submission: Submission<GrantRequest>,
        by note: AuditNote?
    ) async throws(Problem) -> Answer {
        // Keys of clients contain no blanks, so the keys of support and the owner never collide.
        var submission = submission
        submission.key = "grant " + submission.key
        return try await perform(ledger.grant(account, submission), by: note)
    }

    /// Takes tokens back, at most what can be spent: never what is held.
    ///
    /// - Throws: in this order `not_found`, `idempotency_mismatch`, `idempotency_expired`,
    ///   `invalid_content`, `insufficient_tokens`.
    package func debit(
        _ account: Identifier,
        _ submission: Submission<SpendRequest>,
        by note: AuditNote? = nil
    ) async throws(Problem) -> Answer {
        var submission = submission
        submission.key = "debit " + submission.key
        return try await perform(ledger.debit(account, submission), by: note)
    }

    /// Grants tokens that never expire.
    ///
    /// Intended for support.
    public func grant(
        _ account: Identifier,
        _ submission: Submission<SpendRequest>
    ) async throws(Problem) -> Answer {
        try await grant(account, submission.asGrant)
    }

    /// Holds an amount.
    public func hold(
        _ account: Identifier,
        _ submission: Submission<HoldRequest>
    ) async throws(Problem) -> Answer {
        try await perform(ledger.hold(account, submission))
    }

    /// Charges at most the amount of a hold, and releases the rest.
    ///
    /// - Throws: as ``spend(_:_:)``, before it `not_found`, after it `hold_settled`.
    public func capture(
        _ hold: Identifier,
        _ account: Identifier,
        _ submission: Submission<CaptureRequest>
    ) async throws(Problem) -> Answer {
        try await perform(ledger.capture(hold, account, submission))
    }

    /// Releases a hold.
    public func release(
        _ hold: Identifier,
        _ account: Identifier,
        _ submission: Submission<Void>
    ) async throws(Problem) -> Answer {
        try await perform(ledger.release(hold, account, submission))
    }

    /// Returns a page of the ledger, newest first, with the entries of merged guests.
    ///
    /// - Parameters:
    ///   - account: The owner.
    ///   - limit: The number of entries; clamped to 1 to ``WireLimits/largestPage``. Default: 20.
    ///   - cursor: `nextCursor` of the previous page, or `nil` for the first.
    /// - Returns: The entries, and the cursor of the next page if there is one.
    /// - Throws: `malformed_request` for a cursor that does not belong to this account's ledger.
    public func ledger(
        of account: Identifier,
        limit: Int? = nil,
        cursor: String? = nil
    ) async throws(Problem) -> ListPage<LedgerEntry> {
        let limit = min(max(1, limit ?? WireLimits.defaultPage), WireLimits.largestPage)
        let number: Int64? =
            if let cursor {
                try cursors.number(cursor, list: "ledger", account: account)
            } else { nil }
        let found = try await transfers(of: account, before: number, limit: limit + 1)
        let page = found.prefix(limit)
        var next: String?
        if found.count > limit, let last = page.last {
            next = try cursors.text(last.number, list: "ledger", account: account)
        }
        return ListPage(
            items: page.map(\.transfer.entry),
            hasMore: next != nil,
            nextCursor: next
        )
    }

    private static let looks = 8

    var ledger: LedgerCommands {
        LedgerCommands(
            encoder: encoder,
            now: clock.now(),
            holdLife: settings.holdLife,
            spendingPerDay: settings.spendingPerDay
        )
    }

    private func load(_ keys: [Key]) async throws(Problem) -> Loaded {
        try await read { storage throws(StorageError) in try await storage.load(keys) }
    }

    private func runningHold(_ account: Identifier, _ key: String, _ loaded: Loaded) -> Identifier?
    {
        guard case .running(let hold) = loaded.operation(account, key: key)?.state else {
            return nil
        }
        return hold
    }

    private func states(
        of operations: [String],
        _ account: Identifier,
        _ loaded: Loaded
    ) -> [String: OperationState] {
        var states: [String: OperationState] = [:]
        for key in operations {
            states[key] =
                switch loaded.operation(account, key: key)?.state {
                case nil: OperationState(.unknown)
                case .running(let hold):
                    OperationState(
                        .running,
                        held: hold.flatMap { loaded.hold($0)?.amount } ?? 0
                    )
                case .done, .forgotten, .pushed: OperationState(.settled)
                }
        }
        return states
    }
}
