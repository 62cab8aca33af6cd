public import SanguineModel

extension Authority {
    /// Returns all quotas of an account, ordered by name.
    public func quotas(_ account: Identifier) async throws(Problem) -> (Items<Quota>, head: Int64) {
        let keys =
            [Key.account(account), .balance(account)]
            + settings.quotas.keys.map { .quota(account, name: $0) }
        let loaded = try await read { storage throws(StorageError) in try await storage.load(keys) }
        guard let row = loaded.account(account), let feed = loaded.balance(account) else {
            throw .noAccount
        }
        return (Items(items: quota.all(of: row.profile(at: clock.now()), loaded)), feed.head)
    }

    /// Uses units of a quota.
    ///
    /// - Throws: in this order `not_found` for an unknown name, `idempotency_mismatch`,
    ///   `operation_in_progress`, `idempotency_expired`, `invalid_content`, `quota_exhausted`.
    public func consume(
        _ name: String,
        _ account: Identifier,
        _ submission: Submission<ConsumeRequest>
    ) async throws(Problem) -> Answer {
        try await perform(quota.consume(name, account, submission))
    }

    /// Returns units of a quota, which count as unused afterwards.
    ///
    /// Intended for support. At most the units used in this period can be returned, so that the
    /// account never has more than the limit.
    ///
    /// - Throws: in this order `not_found` for an unknown account or name, `idempotency_mismatch`,
    ///   `idempotency_expired`, `invalid_content`.
    public func giveBack(
        _ name: String,
        _ account: Identifier,
        _ submission: Submission<SpendRequest>
    ) async throws(Problem) -> Answer {
        try await giveBack(name, account, submission, by: nil)
    }

    /// Works like ``giveBack(_:_:_:)``, with an entry in the audit log.
    package func giveBack(
        _ name: String,
        _ account: Identifier,
        _ submission: Submission<SpendRequest>,
        by note: AuditNote?
    ) async throws(Problem) -> Answer {
        // As for grants, no client's key can contain a blank.
        var submission = submission
        submission.key = "units " + submission.key
        return try await perform(
            quota.giveBack(name, account, encoder, submission),
            by: note
        )
    }

    var quota: QuotaCommands {
        QuotaCommands(limits: settings.quotas, now: clock.now())
    }
}
