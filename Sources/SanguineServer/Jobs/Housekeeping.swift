import Logging
import SanguineAuthority
import SanguineModel
import ServiceLifecycle

/// What must be done again and again: holds that expired are ended, and what has served its time is
/// dropped.
struct Housekeeping: Service {
    /// How often holds are looked at: an expired hold lasts at most this much longer.
    static let interval = Duration.seconds(1)
    /// How many looks at the holds there are to one sweep: every ten minutes.
    static let looksPerSweep = 600
    /// Rows of each kind that one turn may drop, so that requests need not wait for long.
    static let sweepLimit = 1_000

    let authority: Authority
    let uploads: UploadWatch
    let delay: any Clock<Duration>
    let logger: Logger

    func run() async throws {
        try? await cancelWhenGracefulShutdown {
            var look = 0
            while true {
                uploads.endTurn()
                await turn(sweeping: look % Self.looksPerSweep == 0)
                look += 1
                try await delay.sleep(for: Self.interval)
            }
        }
    }

    private func turn(sweeping: Bool) async {
        do {
            try await authority.expireHolds()
            if sweeping { try await authority.sweep(limit: Self.sweepLimit) }
        } catch {
            // The next turn comes anyway; what is due stays due.
            logger.error("Housekeeping failed", metadata: ["code": "\(error.code.rawValue)"])
        }
    }
}
