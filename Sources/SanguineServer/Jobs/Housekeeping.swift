import Logging
import SanguineAuthority
import SanguineModel
import ServiceLifecycle

/// What must be done again and again: holds that expired are ended, and what has served its time is
/// dropped.
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
    let uploads: UploadWatch
    let live: LiveHub
    let freeBytes: Int
    let delay: any Clock<Duration>
    let logger: Logger

    func run() async throws {
        try? await cancelWhenGracefulShutdown {
            var look = 0
            var isSweepDue = false
            var space = SpaceWatch(limit: freeBytes)
            while true {
                if look % Self.looksPerSpace == 0 {
                    warn(&space, at: Self.interval * look)
                }
                uploads.endTurn()
                live.look()
                if look % Self.looksPerSweep == 0 { isSweepDue = true }
                await attempt("Holds could not be ended") { () async throws(Problem) in
                    try await authority.expireHolds()
                }
                if isSweepDue {
                    let dropped = await attempt("The sweep failed") { () async throws(Problem) in
                        try await authority.sweep(limit: Self.sweepLimit)
                    }
                    isSweepDue = dropped.map { $0 >= Self.sweepLimit } ?? true
                }
                look += 1
                try await delay.sleep(for: Self.interval)
            }
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
            logger.error(failure, metadata: ["code": "\(error.code.rawValue)"])
            return nil
        }
    }
}
