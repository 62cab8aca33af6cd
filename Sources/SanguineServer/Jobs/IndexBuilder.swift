import Logging
import SanguineAuthority
import SanguineModel
import ServiceLifecycle

/// Builds the indexes of newly declared records, and deletes the entries of indexes that are no
/// longer declared.
///
/// Each step is queued like the commands of requests, and takes no longer than one. The storage
/// records the progress, so that the work continues after a restart.
struct IndexBuilder: Service {
    /// The maximum number of records in one log line.
    static let namesPerLine = 20
    /// The number of steps between two log lines about the progress.
    static let stepsPerLine = 500
    /// The pause after a failed step.
    static let pause = Duration.seconds(1)

    let authority: Authority
    let delay: any Clock<Duration>
    let logger: Logger

    /// Determines the remaining work, and completes it at once if it is short.
    func begin() async {
        await authority.findIncompleteIndexes()
        for _ in 0..<IndexBuild.stepsAtStart {
            guard let left = await step() else { return }
            if left.isEmpty { return }
        }
    }

    func run() async throws {
        try? await cancelWhenGracefulShutdown {
            var logged: [IndexName] = []
            var steps = 0
            while true {
                let left = await step()
                steps += 1
                if let left, left != logged || steps.isMultiple(of: Self.stepsPerLine) {
                    logProgress(left)
                    logged = left
                }
                if left == [] { break }
                if left == nil { try await delay.sleep(for: Self.pause) }
                try Task.checkCancellation()
            }
        }
        try? await gracefulShutdown()
    }

    private func logProgress(_ left: [IndexName]) {
        if left.isEmpty {
            logger.notice("All record indexes are built")
        } else {
            logger.notice(
                "Record indexes are being built. Lists that need them are refused until then",
                metadata: [
                    "indexes": "\(left.map(\.description).joined(separator: ", "))",
                    "examined": "\(authority.indexLooks)",
                ]
            )
        }
    }

    /// Returns the indexes that remain, or `nil` if the step failed.
    private func step() async -> [IndexName]? {
        do throws(Problem) {
            return try await authority.buildIndexes(unreadable: log)
        } catch {
            // The storage has already logged its failure.
            logger.debug(
                "A step of building an index failed and will be retried",
                metadata: ["code": "\(error.code.rawValue)"]
            )
            return nil
        }
    }

    private func log(unreadable: [RecordName]) {
        let names = unreadable.prefix(Self.namesPerLine).map { "\($0.collection)/\($0.id.text)" }
        logger.error(
            """
            Stored records are not JSON objects and were indexed as if they had no members. \
            Restore them from a backup, or delete them
            """,
            metadata: [
                "count": "\(unreadable.count)", "records": "\(names.joined(separator: ", "))",
            ]
        )
    }
}
