package import SanguineModel

// Periodic work.
extension CallRunner {
    /// Settles the ended calls whose end the storage had not accepted.
    ///
    /// A call that cannot be settled does not prevent others from being settled.
    ///
    /// - Returns: The number of calls that were settled, or had been ended in another way.
    /// - Throws: The first failure, after all calls were tried.
    @discardableResult
    package func settleEnded() async throws(Problem) -> Int {
        for settlement in services.unsettled.removeOld(at: services.uptime()) {
            services.leaveToExpiry(settlement.call)
        }
        var (count, failure) = (0, Problem?.none)
        let all = services.unsettled.all
        for start in stride(from: 0, to: all.count, by: Self.settledAtOnce) {
            for end in await settle(all.dropFirst(start).prefix(Self.settledAtOnce)) {
                if let end { failure = failure ?? end } else { count += 1 }
            }
        }
        if let failure { throw failure }
        return count
    }

    /// The number of calls whose end the storage has not accepted yet.
    package var unsettledCount: Int { services.unsettled.count }

    /// Settles some calls concurrently, so that they share commits.
    private func settle(_ some: ArraySlice<CallSettlement>) async -> [Problem?] {
        await withTaskGroup(of: Problem?.self) { group in
            for settlement in some {
                group.addTask { [services] in
                    do throws(Problem) {
                        _ = try await settlement.store(in: services.authority)
                    } catch {
                        guard !error.isOfStorage else { return error }
                    }
                    services.unsettled.remove(settlement)
                    services.calls.release(
                        settlement.call.position,
                        of: settlement.call.operation
                    )
                    return nil
                }
            }
            return await group.reduce(into: []) { $0.append($1) }
        }
    }

    /// Ends expired holds, and free calls whose end could not be stored or kept.
    ///
    /// The hold of a call that runs in this process expires by a monotonic clock; that of an ended
    /// call stays open until the call is settled.
    ///
    /// - Returns: The number of holds and calls that were ended.
    /// - Throws: The first failure, after all holds were tried.
    @discardableResult
    package func expireHolds(limit: Int = 1_000) async throws(Problem) -> Int {
        // The spared holds do not count towards the limit.
        let spared = services.calls.count + services.unsettled.count
        var (ended, failure) = (0, Problem?.none)
        do throws(Problem) { ended = try await endLeftCalls() } catch { failure = error }
        ended += try await services.authority.expireHolds(limit: limit + spared) {
            [services] hold in
            services.unsettled.contains(hold: hold.id)
                || services.calls.isRunning(hold, at: services.uptime())
        }
        if let failure { throw failure }
        return ended
    }

    /// Ends the free calls for whose end there was no room, as those of a crashed process.
    private func endLeftCalls() async throws(Problem) -> Int {
        guard let left = services.unsettled.removeLeft(at: services.uptime()) else { return 0 }
        let again: @Sendable () -> Void = { [services] in
            services.unsettled.leave(acceptedUntil: left.acceptedUntil, at: services.uptime())
        }
        do throws(Problem) {
            return try await services.authority.recover(report: { _ in again() }) {
                [services] row in
                let position = OperationPosition(account: row.account, key: row.key)
                // Later calls may have been accepted just now, and not run yet.
                return row.state == .running(hold: nil) && row.at <= left.acceptedUntil
                    && services.calls.call(position) == nil
                    && !services.unsettled.contains(position)
            }
        } catch {
            again()
            throw error
        }
    }

    /// Drops expired rows, except for the parts of active streams.
    ///
    /// If the wall clock has just jumped ahead, nothing counts as expired; see ``ConfirmedTime``.
    ///
    /// - Returns: The number of rows and files that were dropped.
    package func sweep(limit: Int) async throws(Problem) -> Int {
        try await services.authority.sweep(
            limit: limit,
            keepingPartsSince: services.calls.oldestRun,
            asOf: confirmedTime()
        )
    }

    /// The number of calls that are settled concurrently.
    private static let settledAtOnce = 64
}
