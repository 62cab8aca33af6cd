package import SanguineModel

// The end of calls whose account is removed.
extension CallRunner {
    /// The number of calls of an account that run in this process or wait to be settled.
    func runningCount(of account: Identifier) -> Int {
        services.calls.positions(of: account).count + services.unsettled.count(of: account)
    }

    /// Removes data of accounts that were deleted, until a limit is reached.
    ///
    /// Each turn continues with the accounts after those of the turn before, and its steps go round
    /// among them. So a large account delays neither other removals nor, because each step is a
    /// small transaction that short commands overtake, requests of other accounts.
    ///
    /// - Parameter limit: The number of steps, each of which removes at most 100 rows, and the
    ///   number of accounts that are looked at. Default: 16.
    /// - Returns: The number of steps that removed anything.
    /// - Throws: The first failure, after all accounts were tried; the next turn continues there.
    @discardableResult
    package func removeDeleted(limit: Int = 16) async throws(Problem) -> Int {
        let authority = services.authority
        let turns = authority.removals
        var accounts = try await authority.openRemovals(after: turns.last, limit: limit)
        turns.last = accounts.count == limit ? accounts.last : nil
        for account in accounts { await endCalls(of: account) }
        var (steps, failure) = (0, Problem?.none)
        while steps < limit, !accounts.isEmpty {
            var unfinished: [Identifier] = []
            for account in accounts where steps < limit {
                let now = authority.clock.now()
                guard var walk = turns.walk(of: account, at: now) else { continue }
                do throws(Problem) {
                    let step = try await advance(account, &walk)
                    turns.set(walk, of: account, after: step, at: now)
                    guard step == .removed else { continue }
                    steps += 1
                    unfinished.append(account)
                } catch {
                    failure = failure ?? error
                }
            }
            accounts = unfinished
        }
        if let failure { throw failure }
        return steps
    }

    /// Removes data of one deleted account, until nothing can be removed now.
    ///
    /// - Returns: The number of steps that removed anything.
    /// - Throws: The failure of a step.
    package func remove(_ account: Identifier, limit: Int) async throws(Problem) -> Int {
        await endCalls(of: account)
        var walk = RemovalWalk()
        for number in 1...max(1, limit) {
            guard try await advance(account, &walk) == .removed else { return number - 1 }
        }
        return limit
    }

    private func advance(
        _ account: Identifier,
        _ walk: inout RemovalWalk
    ) async throws(Problem) -> Authority.RemovalStep {
        // A call that runs here may store its end after the last step.
        let isBusy = runningCount(of: account) > 0
        return try await services.authority.removeSome(of: account, &walk, mayFinish: !isBusy)
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
}
