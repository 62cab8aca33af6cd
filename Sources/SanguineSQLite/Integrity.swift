import GRDB
import SanguineAuthority

/// Looks for pages and rows that do not fit together.
enum Integrity {
    /// Findings that are told of, at most.
    static let limit = 10

    /// Looks at a database of at most ``SQLiteStorageOptions/checkedBytes`` when it is opened.
    ///
    /// - Returns: The first finding, or `nil`.
    static func damageAtOpening(
        of database: DatabaseQueue,
        in folder: DataFolder,
        options: SQLiteStorageOptions
    ) -> String? {
        guard DataFolder.size(of: folder.databasePath) <= Int64(options.checkedBytes) else {
            return nil
        }
        do {
            let said = try database.inDatabase {
                try String.fetchAll($0, sql: "PRAGMA quick_check(1)")
            }
            return said == ["ok"] ? nil : said.joined(separator: "; ")
        } catch {
            return "\(error)"
        }
    }
}
