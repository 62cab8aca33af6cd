package import SanguineModel

// The end of calls whose account is removed.
extension CallRunner {
    /// The number of calls of an account that run in this process or wait to be settled.
    func runningCount(of account: Identifier) -> Int {
        services.calls.positions(of: account).count + services.unsettled.count(of: account)
    }

    /// Removes data of accounts that were deleted, until a limit is reached.
    ///
    /// - Parameter limit: The number of steps, each of which removes some hundred rows. Default:
    ///   64.
    /// - Returns: The number of steps that removed anything.
    /// - Throws: The first failure; the next turn continues there.
    @discardableResult
    package func removeDeleted(limit: Int = 64) async throws(Problem) -> Int {
        var (steps, last) = (0, Identifier?.none)
        while steps < limit {
            let accounts = try await services.authority.openRemovals(
                after: last,
                limit: Self.removalPage
            )
            for account in accounts {
                guard steps < limit else { return steps }
                steps += try await remove(account, limit: limit - steps)
                last = account
            }
            guard accounts.count == Self.removalPage else { break }
        }
        return steps
    }

    /// Removes data of one deleted account, until nothing can be removed now.
    ///
    /// - Returns: The number of steps that removed anything.
    /// - Throws: The failure of a step.
    package func remove(_ account: Identifier, limit: Int) async throws(Problem) -> Int {
        await endCalls(of: account)
        for step in 1...max(1, limit) {
            // A call that runs here may store its end after the last step.
            let isBusy = runningCount(of: account) > 0
            switch try await services.authority.removeSome(of: account, mayFinish: !isBusy) {
            case .removed: continue
            case .waiting, .done: return step - 1
            }
        }
        return limit
    }

    /// Cancels the calls of an account that can be cancelled; others end by themselves.
    ///
    /// They are settled in any case. This waits only for a moment.
    private func endCalls(of account: Identifier) async {
        await withTaskGroup(of: Void.self) { group in
            for position in services.calls.positions(of: account) {
                group.addTask { [self] in _ = try? await cancel(position) }
            }
        }
    }

    private static let removalPage = 64
}
