package import SanguineModel

/// The ends of plans, which devices learn from the feed.
///
/// A request that reads an account computes its plan from the time, so that no quota of a plan is
/// used after its end. The event for connected devices, and the new limits of quotas with it, are
/// stored at the end by ``end(limit:)``.
package struct PlanEnds: Sendable {
    private let authority: Authority

    /// Creates the work on the plans of an authority's accounts.
    package init(of authority: Authority) { self.authority = authority }

    /// Stores the ends of plans whose time has come.
    ///
    /// - Parameter limit: The maximum number of accounts. Default: 256.
    /// - Returns: The number of accounts that became free.
    /// - Throws: The first failure, after all accounts were tried.
    @discardableResult
    package func end(limit: Int = 256) async throws(Problem) -> Int {
        var (count, failure) = (0, Problem?.none)
        for account in try await accounts(until: authority.clock.now(), limit: limit) {
            do throws(Problem) {
                let end = authority.identity.endPlan(of: account.id)
                count += try await authority.perform(end) ? 1 : 0
            } catch {
                failure = failure ?? error
            }
        }
        if let failure { throw failure }
        return count
    }

    /// Returns the time until the next plan ends, zero for one that has ended; `nil` if none ends
    /// within a time.
    package func timeToNext(within time: Duration) async throws(Problem) -> Duration? {
        let now = authority.clock.now()
        let next = try await accounts(until: now + time, limit: 1).first?.planExpiresAt
        return next.map { max(.zero, $0 - now) }
    }

    private func accounts(
        until moment: Timestamp,
        limit: Int
    ) async throws(Problem) -> [AccountRow] {
        try await authority.read { storage throws(StorageError) in
            try await storage.accounts(withPlansEndingBy: moment, limit: limit)
        }
    }
}
