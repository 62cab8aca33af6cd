import SanguineAuthority

/// Finds the records of an account by their numbers.
///
/// Each reading connection has one. Live and deleted records are in separate indexes: a client that
/// starts from the beginning skips the deleted ones, and others receive both, merged.
final class FeedStatements {
    private let live: SQLStatement
    private let all: SQLStatement

    init(on connection: OpaquePointer) throws(SQLFailure) {
        let live = """
            SELECT \(RecordRow.columns) FROM records INDEXED BY records_live_by_feed
            WHERE owner = ?1 AND seq > ?2 AND deleted_at IS NULL
            """
        let deleted = """
            SELECT \(RecordRow.columns) FROM records INDEXED BY records_deleted_by_feed
            WHERE owner = ?1 AND seq > ?2 AND deleted_at IS NOT NULL
            """
        self.live = try SQLStatement("\(live) ORDER BY seq", on: connection)
        all = try SQLStatement("\(live) UNION ALL \(deleted) ORDER BY seq", on: connection)
    }

    /// Returns the statement that steps through the records after the query's number.
    func path(_ query: FeedQuery) -> SQLStatement {
        let statement = query.liveOnly ? live : all
        statement.bind(query.account)
        statement.bind(query.after)
        return statement
    }
}
