import Logging
import SanguineAuthority
import SanguineModel
import ServiceLifecycle

/// Removes the data of deleted accounts, step by step, so that requests need not wait for long.
///
/// The progress is stored: after a restart, it continues with the accounts that are not finished.
struct AccountRemover: Service {
    /// The pause between turns; a turn performs a bounded number of steps.
    static let interval = Duration.seconds(1)
    /// The pause after a turn that left work.
    static let pause = Duration.milliseconds(20)

    let calls: CallRunner
    let readiness: Readiness
    let delay: any Clock<Duration>
    let logger: Logger

    func run() async throws {
        try? await cancelWhenGracefulShutdown {
            while true {
                let hasMore = await turn()
                try await delay.sleep(for: hasMore ? Self.pause : Self.interval)
            }
        }
    }

    private func turn() async -> Bool {
        do throws(Problem) {
            return try await calls.removeDeleted()
        } catch {
            // Damage was logged, and fails every turn until the server restarts.
            guard !readiness.isDamaged else { return false }
            logger.error(
                "The data of a deleted account could not be removed",
                metadata: ["code": "\(error.code.rawValue)"]
            )
            return false
        }
    }
}
