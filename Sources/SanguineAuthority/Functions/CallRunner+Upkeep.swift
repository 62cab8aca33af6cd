package import SanguineModel
import Synchronization

// Work that is done again and again.
extension CallRunner {
    /// Settles the calls that ended while the storage did not take their end.
    ///
    /// A call that cannot be settled keeps no other one from its end.
    ///
    /// - Returns: How many were settled, or turned out to have been ended by another path.
    /// - Throws: The first failure, after all were tried.
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

    /// Calls whose end the storage did not take yet.
    package var unsettledCount: Int { services.unsettled.count }

    /// Settles some of them at a time, so that they share commits.
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

    /// Ends holds whose time is over.
    ///
    /// The hold of a call that runs in this process is aged by a clock that never jumps, and that
    /// of a call that ended stays open until the call is settled.
    ///
    /// - Returns: How many were ended.
    /// - Throws: The first failure, after all were tried.
    @discardableResult
    package func expireHolds(limit: Int = 1_000) async throws(Problem) -> Int {
        // Those that are spared take nothing from the limit.
        let spared = services.calls.count + services.unsettled.count
        return try await services.authority.expireHolds(limit: limit + spared) { [services] hold in
            services.unsettled.contains(hold: hold.id)
                || services.calls.isRunning(hold, at: services.uptime())
        }
    }

    /// Drops what has served its time, but for the parts of streams that are read now.
    ///
    /// By a wall clock that has just jumped ahead nothing is old; see ``ConfirmedTime``.
    ///
    /// - Returns: How many rows and files were dropped.
    package func sweep(limit: Int) async throws(Problem) -> Int {
        let (clock, uptime) = (services.authority.clock, services.uptime())
        return try await services.authority.sweep(
            limit: limit,
            keepingPartsSince: services.calls.oldestRun,
            asOf: sweepTime.withLock { $0.read(clock.now(), at: uptime) }
        )
    }

    /// Calls that are settled at a time.
    private static let settledAtOnce = 64
}
