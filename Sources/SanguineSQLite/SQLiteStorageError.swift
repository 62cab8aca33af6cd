import GRDBSQLite

/// The reason why a data folder could not be opened.
///
/// The cases are declared in the order in which they are checked.
public enum SQLiteStorageError: Error, Hashable {
    /// There is no database in the folder, and an inspection does not create one.
    case noData(folder: String)
    /// Users other than the owner may read the folder.
    case openToOthers(folder: String, mode: Int)
    /// Another process, or this one, has the folder open. The process is `nil` if it stored no id.
    case locked(folder: String, process: Int32?)
    /// The database is missing or empty, although it must exist.
    case emptied(folder: String)
    /// The bytes of the files are in another store, such as a bucket, and not in the folder.
    case filesElsewhere(folder: String)
    /// The bytes of the files are in the folder, and not in another store.
    case filesHere(folder: String)
    /// The log belongs to another state of the database file.
    case mixed(folder: String)
    /// A newer version of the program wrote the database.
    case schemaTooNew(found: Int, known: Int)
    /// An older version of the program wrote the database, and an inspection does not upgrade it.
    case schemaTooOld(found: Int, known: Int)
    /// SQLite did not accept a setting that the guarantees depend on.
    case settingRefused(name: String, wanted: String, got: String)
    /// The database is damaged where SQLite reads it first; the text describes the damage.
    case damaged(String)
    /// The file system or SQLite failed; the text describes the error.
    case failed(String)

    /// Converts SQLite's error when the folder was opened.
    init(_ failure: SQLFailure) {
        switch failure.code & 0xFF {
        case SQLITE_CORRUPT, SQLITE_NOTADB: self = .damaged(failure.explanation)
        default: self = .failed(failure.explanation)
        }
    }
}

extension SQLiteStorageError: CustomStringConvertible {
    /// The error, and what to do about it.
    public var description: String {
        switch self {
        case .noData(let folder):
            "There is no data at \(folder). Check the path, or start the server there once."
        case .openToOthers(let folder, let mode):
            """
            Other users can access the data folder \(folder) (mode \(String(mode, radix: 8))). Run \
            chmod 700 '\(folder)'. They may already have read its secrets.
            """
        case .emptied(let folder):
            """
            The database in \(folder) is missing or empty, although the folder was used before. \
            Restore it from a backup.
            """
        case .filesElsewhere(let folder): Self.needsBucket(folder)
        case .filesHere(let folder): Self.needsFolder(folder)
        case .mixed(let folder):
            """
            The log sanguine.sqlite-wal in \(folder) does not match sanguine.sqlite: they were \
            copied while a server was running, and data is missing. Restore a backup with \
            'sanguine restore', or copy the original folder again with 'sanguine backup'.
            """
        case .locked(let folder, let process):
            """
            The data at \(folder) is in use by \(process.map { "process \($0)" } ?? "a process"). \
            Stop it first, or choose another folder: two servers cannot share one.
            """
        case .schemaTooNew(let found, let known):
            """
            The data has schema \(found), but this version supports only \(known) or older. Start \
            the version that wrote it, or a newer one.
            """
        case .schemaTooOld(let found, let known):
            """
            The data has schema \(found), but this version reads only \(known). Start the server \
            once, which upgrades the data.
            """
        case .settingRefused(let name, let wanted, let got):
            """
            SQLite uses \(name) = \(got) instead of \(wanted), so changes would not be durable. \
            Move the data to a local disk.
            """
        case .damaged(let reason):
            """
            The database is damaged: \(reason). Restore a backup with 'sanguine restore <backup> \
            --replace' and the same '--data'.
            """
        case .failed(let reason):
            "The data could not be opened: \(reason). Check the disk and the folder's permissions."
        }
    }

    private static func needsBucket(_ folder: String) -> String {
        """
        The files of the data at \(folder) are in a bucket. Set 'blobs.store' to s3 again, or copy \
        them into '\(folder)/blobs' and delete '\(folder)/\(DataFolder.elsewhereName)'.
        """
    }

    private static func needsFolder(_ folder: String) -> String {
        """
        The files of the data at \(folder) are in '\(folder)/blobs', and would be missing in a \
        bucket. Copy them into the bucket, for example with 'aws s3 sync', and then move the \
        folder 'blobs' away; or set 'blobs.store' to folder.
        """
    }
}
