import Logging
import SanguineAuthority
import SanguineModel
import ServiceLifecycle

/// What must be done again and again: calls are settled that ended while the storage failed, holds
/// that expired are ended, and what has served its time is dropped.
struct Housekeeping: Service {
    /// The pause between two looks at the holds; an expired hold lasts about this much longer, or
    /// more if many expire at once.
    static let interval = Duration.seconds(1)
    /// How many looks at the holds there are to one sweep: every ten minutes.
    static let looksPerSweep = 600
    /// Rows of each kind that one turn may drop, so that requests need not wait for long.
    ///
    /// Where so many were dropped, the next turn sweeps again.
    static let sweepLimit = 1_000
    /// How many looks at the holds there are to one look at the free space: every ten seconds.
    static let looksPerSpace = 10

    let authority: Authority
    let calls: CallRunner
    let uploads: UploadWatch
    let live: LiveHub
    let readiness: Readiness
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
                await tell(&check)
                uploads.endTurn()
                live.look()
                if look % Self.looksPerSweep == 0 { isSweepDue = true }
                // Before the holds: what a call costs is known better than by its hold's expiry.
                await settleEnded(&unsettled)
                await attempt("Holds could not be ended") { () async throws(Problem) in
                    try await calls.expireHolds()
                }
                if isSweepDue {
                    let dropped = await attempt("The sweep failed") { () async throws(Problem) in
                        try await calls.sweep(limit: Self.sweepLimit)
                    }
                    isSweepDue = dropped.map { $0 >= Self.sweepLimit } ?? true
                }
                look += 1
                try await delay.sleep(for: Self.interval)
            }
        }
        // The next process does not know what these calls cost.
        var unsettled = calls.unsettledCount
        await settleEnded(&unsettled)
    }

    /// Settles calls that ended while the storage failed, and says once that some wait for it, and
    /// when all are settled.
    ///
    /// - Parameter last: How many waited after the last turn.
    private func settleEnded(_ last: inout Int) async {
        if calls.unsettledCount > 0 {
            // Why it fails was logged with each call's first attempts.
            _ = try? await calls.settleEnded()
        }
        let now = calls.unsettledCount
        defer { last = now }
        switch (last, now) {
        case (0, 1...):
            logger.error(
                "Calls wait for their settlement: the storage does not take it",
                metadata: ["calls": "\(now)"]
            )
        case (1..., 0):
            logger.notice("All calls are settled that waited for the storage")
        default: break
        }
    }

    /// Says that the check of the data goes on in the background, and how it ended.
    private func tell(_ last: inout DataCheck) async {
        let now = authority.storage.dataCheck
        defer { last = now }
        switch (last, now) {
        case (.running, .running), (.done, .done), (.failed, _): break
        case (_, .running(let part)):
            logger.notice(
                "The data is still being checked, and serves meanwhile",
                metadata: ["part": "\(part)"]
            )
        case (_, .failed(let reason)):
            logger.error("The data could not be checked", metadata: ["reason": "\(reason)"])
        case (_, .done):
            // Damage is logged by the storage, which this asks for it.
            guard (try? await authority.storage.checkHealth()) != nil else { break }
            logger.notice("All of the data was checked: nothing is damaged")
        }
    }

    /// Says once that the disk is filling up, and when there is room again.
    private func warn(_ space: inout SpaceWatch, at now: Duration) {
        let free = authority.storage.freeBytes
        let metadata: Logger.Metadata = [
            "freeBytes": "\(free ?? 0)", "limit": "\(freeBytes)",
        ]
        switch space.look(free, at: now) {
        case .low:
            logger.warning(
                "The disk of the data folder is filling up: free some space",
                metadata: metadata
            )
        case .enough:
            logger.notice("The disk of the data folder has room again", metadata: metadata)
        case nil:
            break
        }
    }

    /// What one part of a turn came to, or `nil` if it failed: the others go on, and the next turn
    /// comes anyway.
    @discardableResult
    private func attempt(
        _ failure: Logger.Message,
        _ body: () async throws(Problem) -> Int
    ) async -> Int? {
        do throws(Problem) {
            return try await body()
        } catch {
            // Damage fails every turn until the server is started again, and was logged.
            if readiness.isDamaged { return nil }
            logger.error(failure, metadata: ["code": "\(error.code.rawValue)"])
            return nil
        }
    }
}
