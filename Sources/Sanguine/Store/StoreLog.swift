import Foundation
import Logging
import Synchronization

/// How all files of a client are doing: what ``SanguineClient/storeReport`` says.
///
/// Mutable state: `guarded`, by its mutex, never held over the logger or the observer.
final class StoreLog: Sendable {
    private let guarded = Mutex(StoreReport(place: .memory))
    private let logger: Logger
    private let failed: @Sendable () -> Void

    /// - Parameters:
    ///   - logger: Where failures are said.
    ///   - failed: Is told of each failure. Default: nobody is.
    init(logger: Logger, failed: @escaping @Sendable () -> Void = {}) {
        self.logger = logger
        self.failed = failed
    }

    var report: StoreReport { guarded.withLock { $0 } }

    /// A store was opened.
    ///
    /// Of several the one that counts is the one from which most is lost.
    func opened(_ place: StoreReport.Place) {
        guarded.withLock { report in
            if report.place != .memoryInsteadOfDisk { report.place = place }
        }
    }

    /// A file had to make room for a fresh one.
    func movedAside(_ file: URL, because failure: String) {
        guarded.withLock { report in
            report.movedAside.append(file)
            report.failure = failure
        }
        logger.error(
            "A file could not be used. It was put aside, and a fresh one begun.",
            metadata: ["file": "\(file.path)", "reason": "\(failure)"]
        )
    }

    /// A file failed.
    func failure(_ reason: String, _ message: Logger.Message = "A file of the client failed.") {
        guarded.withLock { $0.failure = reason }
        logger.error(message, metadata: ["reason": "\(reason)"])
        failed()
    }

    /// A damaged row was dropped.
    func dropped(_ row: String) {
        guarded.withLock { $0.droppedRows += 1 }
        logger.warning("A row of the store is damaged and was dropped: \(row).")
    }

    /// The files below the folder are gone.
    func removed(_ folder: URL) {
        let path = folder.path + "/"
        guarded.withLock { report in
            report.movedAside.removeAll { $0.path.hasPrefix(path) }
        }
    }
}
