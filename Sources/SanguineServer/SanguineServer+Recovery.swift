import Logging
import SanguineAuthority
import SanguineModel

extension SanguineServer {
    /// Checks the access to collections, ends calls that an earlier process left running, and reads
    /// the switches.
    ///
    /// Damaged data is served read-only, so its calls stay as they are.
    ///
    /// - Throws: ``SettingsError`` of ``checkAccess(_:_:)``; the problem of a failing recovery.
    static func recover(
        _ authority: Authority,
        _ readiness: Readiness,
        _ logger: Logger
    ) async throws {
        try await checkAccess(authority, logger)
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

    /// Refuses to serve collections whose records could no longer be found.
    ///
    /// A collection with records of both kinds was changed under an earlier version, and apps use
    /// it as it is, so it is only logged.
    ///
    /// - Throws: ``SettingsError`` with all such collections. A failing storage makes the server
    ///   unready instead.
    private static func checkAccess(
        _ authority: Authority,
        _ logger: Logger
    ) async throws(SettingsError) {
        let found: [Authority.Misplaced]
        do throws(Problem) {
            found = try await authority.misplacedCollections()
        } catch {
            return  // The storage has logged its failure.
        }
        let refused = found.filter { !$0.hasOthers }
        guard refused.isEmpty else {
            throw SettingsError(refused.map { .unusable(reason: $0.refusal) })
        }
        for collection in found { logger.error("\(collection.warning)") }
    }
}

extension Authority.Misplaced {
    private var former: String { access == .owner ? "'everyone' or 'readers'" : "'owner'" }

    fileprivate var refusal: String {
        """
        The collection '\(collection)' has records that were stored with the access \(former), \
        which '\(access.rawValue)' does not find. Set the former access again, and declare a \
        collection with another name for '\(access.rawValue)', into which the app copies them.
        """
    }

    fileprivate var warning: String {
        """
        The collection '\(collection)' also has records that were stored with the access \
        \(former), which '\(access.rawValue)' does not find. Only the former access finds them
        """
    }
}
