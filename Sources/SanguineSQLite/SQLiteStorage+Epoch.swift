package import Foundation
import GRDB
package import SanguineModel

extension SQLiteStorage {
    /// Assigns a new epoch to the database in a folder, so that each device reads its feed again.
    ///
    /// Call it after a copy of the database was placed in the folder. It upgrades the database.
    ///
    /// - Parameter folder: The data folder, which no process may have open.
    /// - Returns: The new epoch, after it is on the disk.
    /// - Throws: As ``init(folder:options:mayBeEmpty:)``; ``SQLiteStorageError/noData(folder:)`` if
    ///   the folder contains no database.
    @discardableResult
    package static func assignNewEpoch(at folder: URL) throws(SQLiteStorageError) -> Epoch {
        let folder = DataFolder(folder)
        guard folder.hasDatabase else { throw .noData(folder: folder.path) }
        try folder.checkPrivate()
        let lock = try LockFile(in: folder)
        defer { lock.release() }
        try folder.secureDatabase()
        let options = SQLiteStorageOptions()
        try Connections.checkHistory(of: folder, options: options)
        let database = try Connections.writer(
            in: folder,
            options: options,
            mayBeEmpty: false,
            schema: .current
        )
        let epoch = try Connections.epoch(of: database, isNew: true)
        do {
            try database.close()
        } catch {
            throw .failed("\(error)")
        }
        // If this fails, the database gets another epoch when it is opened next.
        try? HistoryFile(of: folder, epoch: epoch, isClosed: true)?.write(to: folder)
        return epoch
    }
}
