public import SanguineModel

// Verification, expiring grants and spending limits.
extension Authority {
    /// Recomputes every balance from its entries.
    ///
    /// - Parameter progress: Called every ``LedgerProgress/step`` accounts. Default: nothing.
    /// - Returns: The report.
    /// - Throws: `overloaded` or `internal_fault` if the storage fails.
    public func verifyLedger(
        progress: @escaping @Sendable (LedgerProgress) -> Void = { _ in }
    ) async throws(Problem) -> LedgerReport {
        try await read { storage throws(StorageError) in
            try await storage.verifyLedger(progress: progress)
        }
    }

    /// Removes grants whose time has passed from balances that no command has changed since.
    ///
    /// - Parameter limit: The maximum number of accounts. Default: 1,000.
    /// - Returns: The number of accounts that lost tokens.
    /// - Throws: The first failure, after all accounts were tried.
    @discardableResult
    public func expireGrants(limit: Int = 1_000) async throws(Problem) -> Int {
        let now = clock.now()
        let due = try await read { storage throws(StorageError) in
            try await storage.accounts(withGrantsExpiringBy: now, limit: limit)
        }
        var (count, failure) = (0, Problem?.none)
        for account in due {
            do throws(Problem) {
                // Also of a deleted account, which would otherwise be found again every time.
                let command = ledger.expireGrants(of: account)
                count += try await perform(command, evenIfDeleted: true) ? 1 : 0
            } catch {
                failure = failure ?? error
            }
        }
        if let failure { throw failure }
        return count
    }

    /// Sets an account's own spending limit per day, or the server's for `nil`.
    ///
    /// Intended for support.
    ///
    /// - Throws: in this order `not_found`, `idempotency_mismatch`, `idempotency_expired`,
    ///   `invalid_content`.
    public func setSpendingLimit(
        _ account: Identifier,
        _ submission: Submission<SpendingLimitRequest>
    ) async throws(Problem) -> Answer {
        try await setSpendingLimit(account, submission, by: nil)
    }

    /// Works like ``setSpendingLimit(_:_:)``, with an entry in the audit log.
    package func setSpendingLimit(
        _ account: Identifier,
        _ submission: Submission<SpendingLimitRequest>,
        by note: AuditNote?
    ) async throws(Problem) -> Answer {
        // As for grants, no client's key can contain a blank.
        var submission = submission
        submission.key = "limit " + submission.key
        return try await perform(ledger.limit(account, submission), by: note)
    }

    /// Returns the balance after the expiry of the grants whose time has passed.
    ///
    /// If that cannot be stored now, the stored balance is returned.
    func withoutExpired(_ row: BalanceRow) async -> BalanceRow {
        guard let next = row.grants.next, next <= clock.now() else { return row }
        do throws(Problem) {
            _ = try await perform(ledger.expireGrants(of: row.account))
            let loaded = try await read { storage throws(StorageError) in
                try await storage.load([.balance(row.account)])
            }
            return loaded.balance(row.account) ?? row
        } catch {
            return row
        }
    }
}

extension Submission<SpendRequest> {
    /// The grant of an amount that never expires.
    var asGrant: Submission<GrantRequest> {
        map { GrantRequest(amount: $0.amount, reason: $0.reason) }
    }
}
