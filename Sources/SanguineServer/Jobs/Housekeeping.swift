import Logging
import SanguineAuthority
import SanguineModel
import ServiceLifecycle

/// Performs periodic work: settles calls that ended while the storage failed, expires holds, wakes
/// the delivery of e-mails, ends plans at their time, reads the switches if that failed at the
/// start, and deletes outdated data and the data of deleted accounts.
struct Housekeeping: Service {
    /// The interval between checks of the holds; a hold expires about this much later, or more if
    /// many expire at once.
    static let interval = Duration.seconds(1)
    /// The number of checks of the holds per sweep: one sweep every ten minutes.
    static let looksPerSweep = 600
    /// The number of rows of each kind that one turn may delete, so that requests need not wait for
    /// long.
    ///
    /// If a turn deletes this many, the next turn sweeps again.
    static let sweepLimit = 1_000
    /// The number of steps per turn that remove data of deleted accounts, at most 100 rows each.
    static let removalSteps = 16
    /// The number of checks of the holds per check of the free space: one every ten seconds.
    static let looksPerSpace = 10

    let authority: Authority
    let calls: CallRunner
    let uploads: UploadTimeouts
    let live: LiveHub
    let readiness: Readiness
    var mail: MailDelivery?
    let freeBytes: Int
    let delay: any Clock<Duration>
    let logger: Logger

    func run() async throws {
        try? await cancelWhenGracefulShutdown {
            var look = 0
            var isSweepDue = false
            var space = SpaceWatch(limit: freeBytes)
            var check = DataCheck.done
            var unsettled = 0
            while true {
                if look % Self.looksPerSpace == 0 {
                    warn(&space, at: Self.interval * look)
                }
                await logDataCheck(&check)
                uploads.endTurn()
                live.checkTime()
                mail?.wakeUp()
                if look % Self.looksPerSweep == 0 { isSweepDue = true }
                // Before the holds expire: a settlement knows the cost of the call.
                await settleEnded(&unsettled)
                await attempt("Expired holds could not be settled") { () async throws(Problem) in
                    try await calls.expireHolds()
                }
                await attempt("The data of a deleted account could not be removed") {
                    () async throws(Problem) in
                    try await calls.removeDeleted(limit: Self.removalSteps)
                }
                await attempt("The messages of a deleted thread could not be removed") {
                    () async throws(Problem) in
                    try await authority.removeDeletedThreads(limit: Self.removalSteps)
                }
                await attempt("Expired grants could not be removed") {
                    () async throws(Problem) in
                    try await authority.expireGrants()
                }
                await endPlans()
                if !authority.switches.isKnown { _ = try? await authority.loadSwitches() }
                if isSweepDue {
                    let dropped = await attempt("The cleanup failed") { () async throws(Problem) in
                        try await calls.sweep(limit: Self.sweepLimit)
                    }
                    isSweepDue = dropped.map { $0 >= Self.sweepLimit } ?? true
                }
                look += 1
                try await pause()
            }
        }
        // The next process will not know the cost of these calls.
        var unsettled = calls.unsettledCount
        await settleEnded(&unsettled)
    }

    /// Waits for the next turn, and ends each plan in between exactly at its time.
    private func pause() async throws {
        var rest = Self.interval
        while rest > .zero {
            let next = (try? await PlanEnds(of: authority).timeToNext(within: rest)) ?? rest
            // A plan whose end could not be stored is tried again in the next turn.
            let part = next > .zero ? min(next, rest) : rest
            try await delay.sleep(for: part)
            rest -= part
            if rest > .zero { await endPlans() }
        }
    }

    private func endPlans() async {
        await attempt("The end of a plan could not be stored") { () async throws(Problem) in
            try await PlanEnds(of: authority).end()
        }
    }

    /// Settles calls that ended while the storage failed; logs once that calls are waiting, and
    /// once that all are settled.
    ///
    /// - Parameter last: The number of waiting calls after the previous turn.
    private func settleEnded(_ last: inout Int) async {
        if calls.unsettledCount > 0 {
            // The first attempt for each call has logged the reason.
            _ = try? await calls.settleEnded()
        }
        let now = calls.unsettledCount
        defer { last = now }
        switch (last, now) {
        case (0, 1...):
            logger.error(
                "Calls cannot be settled while the storage fails",
                metadata: ["calls": "\(now)"]
            )
        case (1..., 0):
            logger.notice("All calls that waited for the storage are settled")
        default: break
        }
    }

    /// Logs that the data check continues in the background, and its result.
    private func logDataCheck(_ last: inout DataCheck) async {
        let now = authority.storage.dataCheck
        defer { last = now }
        switch (last, now) {
        case (.running, .running), (.done, .done), (.failed, _): break
        case (_, .running(let part)):
            logger.notice(
                "The server accepts requests while the data is still being checked",
                metadata: ["part": "\(part)"]
            )
        case (_, .failed(let reason)):
            logger.error("The data could not be checked", metadata: ["reason": "\(reason)"])
        case (_, .done):
            // The storage logs damage when its health is checked.
            guard (try? await authority.storage.checkHealth()) != nil else { break }
            logger.notice("The data was checked completely and is undamaged")
        }
    }

    /// Logs when free space falls below the limit, and when it recovers.
    private func warn(_ space: inout SpaceWatch, at now: Duration) {
        let free = authority.storage.freeBytes
        let metadata: Logger.Metadata = [
            "freeBytes": "\(free ?? 0)", "limit": "\(freeBytes)",
        ]
        switch space.check(free, at: now) {
        case .low:
            logger.warning(
                "The disk of the data folder is filling up. Free some space",
                metadata: metadata
            )
        case .enough:
            logger.notice(
                "The disk of the data folder has enough free space again",
                metadata: metadata
            )
        case nil:
            break
        }
    }

    /// Runs one part of a turn and returns its result, or `nil` if it failed; the other parts and
    /// the next turn still run.
    @discardableResult
    private func attempt(
        _ failure: Logger.Message,
        _ body: () async throws(Problem) -> Int
    ) async -> Int? {
        do throws(Problem) {
            return try await body()
        } catch {
            // Damage was logged, and fails every turn until the server restarts.
            if readiness.isDamaged { return nil }
            logger.error(failure, metadata: ["code": "\(error.code.rawValue)"])
            return nil
        }
    }
}
