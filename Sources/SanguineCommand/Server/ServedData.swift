import Foundation
import SanguineAuthority
import SanguineSQLite
import SanguineServer

/// The keys and the database of a data folder.
///
/// If one of them is missing, it is recreated only with the operator's consent.
enum ServedData {
    /// Opens both.
    ///
    /// - Parameters:
    ///   - folder: The data folder.
    ///   - acceptsNewKeys: Whether to create keys although there are accounts.
    ///   - acceptsEmptyDatabase: Whether to create a database although there are keys.
    ///   - acceptsLostFiles: Whether data may be changed although files are missing or altered.
    ///   - storesFilesElsewhere: Whether the bytes of files are in a bucket.
    /// - Returns: The open database, which the caller must close, and the keys.
    /// - Throws: ``Failure``, `SQLiteStorageError`, `StorageError` or `KeyFileError`, with a
    ///   remedy.
    static func open(
        _ folder: URL,
        acceptsNewKeys: Bool,
        acceptsEmptyDatabase: Bool,
        acceptsLostFiles: Bool,
        storesFilesElsewhere: Bool = false
    ) async throws -> (SQLiteStorage, SigningKeys) {
        var options = SQLiteStorageOptions()
        options.acceptsLostFiles = acceptsLostFiles
        options.storesFilesElsewhere = storesFilesElsewhere
        let storage = try openDatabase(
            folder,
            options,
            mayBeEmpty: acceptsEmptyDatabase || !KeyFile.exists(in: folder)
        )
        do {
            let hasAccounts = try await storage.hasAccounts()
            return (storage, try openKeys(folder, mayBeNew: acceptsNewKeys || !hasAccounts))
        } catch {
            await storage.close()
            throw error
        }
    }

    private static func openDatabase(
        _ folder: URL,
        _ options: SQLiteStorageOptions,
        mayBeEmpty: Bool
    ) throws -> SQLiteStorage {
        do {
            return try SQLiteStorage(folder: folder, options: options, mayBeEmpty: mayBeEmpty)
        } catch .emptied(let path) {
            throw Failure(
                """
                \(SQLiteStorageError.emptied(folder: path)) To start without its data, use \
                '--accept-empty-database'.
                """
            )
        }
    }

    private static func openKeys(_ folder: URL, mayBeNew: Bool) throws -> SigningKeys {
        do {
            return try KeyFile.loadOrCreate(in: folder, mayBeNew: mayBeNew)
        } catch .missing(let path) {
            throw Failure(
                """
                \(KeyFileError.missing(path: path)) To create new ones, use '--accept-new-keys'.
                """
            )
        }
    }
}
