import GRDBSQLite

/// Checks pages and rows for inconsistencies.
enum Integrity {
    /// The maximum number of reported findings.
    static let limit = 10

    /// The finding of a log that belongs to another state of the database file.
    static let mixed = """
        The log sanguine.sqlite-wal does not match sanguine.sqlite: they were copied while a \
        server was running.
        """

    /// Reads every page, and compares every index with its table.
    static func findings(
        _ handle: OpaquePointer,
        in folder: DataFolder
    ) throws(SQLFailure) -> [String] {
        if try isLeftMixed(handle, in: folder) { return [mixed] }
        let check = try SQLStatement("PRAGMA integrity_check(\(limit))", on: handle)
        let said = try check.all { $0.text(0) }
        return said == ["ok"] ? [] : said
    }

    /// Returns whether no process has the folder open, and the log belongs to another state of the
    /// database.
    ///
    /// A running server changes both files, and compared them when it started. So the lock is
    /// checked again afterwards.
    static func isLeftMixed(
        _ handle: OpaquePointer,
        in folder: DataFolder
    ) throws(SQLFailure) -> Bool {
        guard LockFile.holder(of: folder) == .nobody, try isMixed(handle, in: folder) else {
            return false
        }
        return LockFile.holder(of: folder) == .nobody
    }

    /// Returns whether the log belongs to another state of the database file; see ``CommitNumber``.
    ///
    /// No process may change the folder in the meantime.
    static func isMixed(_ handle: OpaquePointer, in folder: DataFolder) throws(SQLFailure) -> Bool {
        guard DataFolder.size(of: folder.walPath) > 0 else { return false }
        let page = try SQLStatement(CommitNumber.page, on: handle).first { Int($0.integer(0)) }
        guard let page else { return false }
        let newest = try SQLStatement(CommitNumber.newest, on: handle).first { $0.integer(0) }
        guard let newest else { return false }
        do throws(ChunkedReader.Failure) {
            return try CommitNumber.isMixed(folder, page: page, newest: newest)
        } catch {
            throw error.asSQLFailure
        }
    }
}
