import GRDB
import SanguineModel

/// Compares a database with its ``HistoryFile`` when it is opened.
struct HistoryCheck {
    private let folder: DataFolder
    private let history: HistoryFile?
    private let isEmpty: Bool
    private let difference: String?

    /// Compares them, before the database file or its permissions are changed.
    init(of folder: DataFolder) {
        self.folder = folder
        history = HistoryFile(readFrom: folder)
        isEmpty = folder.size == 0
        difference = history.map { $0.difference(in: folder) } ?? "its history is unknown"
    }

    /// Assigns a new epoch to the open database if it may be a copy, and stores its epoch.
    ///
    /// - Returns: The epoch, and messages for the operator; see ``SQLiteStorage/notices``.
    func settle(
        _ database: DatabaseQueue
    ) throws(SQLiteStorageError) -> (epoch: Epoch, notices: [String]) {
        var epoch = try Connections.epoch(of: database, isNew: false)
        var notices: [String] = []
        let age = history?.epoch == epoch ? nil : "its epoch differs from its history"
        if !isEmpty, let reason = difference ?? age {
            epoch = try Connections.epoch(of: database, isNew: true)
            notices.append(
                """
                The database got a new epoch, and each device reads its data again. The database \
                may be a copy of an older state, because \(reason).
                """
            )
        }
        do {
            try HistoryFile(of: folder, epoch: epoch, isClosed: false)?.write(to: folder)
        } catch {
            notices.append(
                """
                The state of the database could not be recorded. The next start will treat it as \
                a copy, and each device will read its data again: \(error)
                """
            )
        }
        return (epoch, notices)
    }
}
