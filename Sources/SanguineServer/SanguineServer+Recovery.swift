import Logging
import SanguineAuthority
import SanguineModel

extension SanguineServer {
    /// Ends calls that an earlier process left running, and reads the switches.
    ///
    /// Damaged data is served read-only, so its calls stay as they are.
    static func recover(
        _ authority: Authority,
        _ readiness: Readiness,
        _ logger: Logger
    ) async throws {
        let ended: Int
        // A failing storage makes the server unready; housekeeping reads the switches again.
        _ = try? await authority.loadSwitches()
        do throws(Problem) {
            ended = try await authority.recover { problem in
                guard !readiness.isDamaged else { return }
                logger.error(
                    "A call left by an earlier process could not be ended",
                    metadata: ["code": "\(problem.code.rawValue)"]
                )
            }
        } catch {
            guard readiness.isDamaged else { throw error }
            return
        }
        if ended > 0 {
            logger.notice(
                "Calls left by an earlier process were ended",
                metadata: ["count": "\(ended)"]
            )
        }
    }
}
