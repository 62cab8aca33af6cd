import Foundation
import Logging
import Synchronization

/// Collects the state of a client's files for ``SanguineClient/storeReport``.
///
/// Mutable state: `guarded`, protected by its mutex, which is never held during calls of the logger
/// or the observer.
final class StoreLog: Sendable {
    private let guarded = Mutex(StoreReport(place: .memory))
    private let logger: Logger
    private let failed: @Sendable () -> Void

    /// - Parameters:
    ///   - logger: Receives failures.
    ///   - failed: Called at each failure. Default: does nothing.
    init(logger: Logger, failed: @escaping @Sendable () -> Void = {}) {
        self.logger = logger
        self.failed = failed
    }

    var report: StoreReport { guarded.withLock { $0 } }

    /// Records that a store was opened.
    ///
    /// If there are several stores, the report describes the one that would lose the most data.
    func opened(_ place: StoreReport.Place) {
        guarded.withLock { report in
            if report.place != .memoryInsteadOfDisk { report.place = place }
        }
    }

    /// Records that a file was replaced by a fresh one.
    func movedAside(_ file: URL, because failure: String) {
        guarded.withLock { report in
            report.movedAside.append(file)
            report.failure = failure
        }
        logger.error(
            "A file could not be used. It was moved aside and replaced by a new one.",
            metadata: ["file": "\(file.path)", "reason": "\(failure)"]
        )
    }

    /// Records a failure of a file.
    func failure(
        _ reason: String,
        _ message: Logger.Message = "A file of the client could not be read or written."
    ) {
        guarded.withLock { $0.failure = reason }
        logger.error(message, metadata: ["reason": "\(reason)"])
        failed()
    }

    /// Records that a damaged row was dropped.
    func dropped(_ row: String) {
        guarded.withLock { $0.droppedRows += 1 }
        logger.warning("A row of the store is damaged and was dropped: \(row).")
    }

    /// Records that the files in the folder were removed.
    func removed(_ folder: URL) {
        let path = folder.path + "/"
        guarded.withLock { report in
            report.movedAside.removeAll { $0.path.hasPrefix(path) }
        }
    }
}
