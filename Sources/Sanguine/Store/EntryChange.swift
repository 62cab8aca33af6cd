import GRDB

extension ClientStore {
    /// A change to the entries.
    enum EntryChange: Sendable, Hashable {
        /// The entry is written, and replaces one with the same key.
        case put(StoredEntry)
        /// The entries are kept, but no longer fresh.
        case markStale(InvalidationMarks.Scope)
        case remove(key: String)
    }
}

extension InvalidationMarks.Scope {
    /// Marks the rows in this scope as stale.
    func markStale(in database: Database) throws {
        let (condition, arguments): (String, StatementArguments) =
            switch self {
            case .key(let key): ("key = ?", [key])
            // From `prefix/` to `prefix0`, which comes after every other `prefix/…`.
            case .prefix(let key):
                ("key = ? OR (key >= ? AND key < ?)", [key, key + "/", key + "0"])
            case .tag(let tag): (Self.labelled, [StoredEntry.label(tag: tag)])
            case .dependency(let name): (Self.labelled, [StoredEntry.label(dependency: name)])
            case .everything: ("TRUE", [])
            }
        try database.execute(
            sql: "UPDATE entry SET stale = 1 WHERE stale = 0 AND (\(condition))",
            arguments: arguments
        )
    }

    private static let labelled =
        "labels <> '' AND instr(labels, char(10) || ? || char(10)) > 0"
}
