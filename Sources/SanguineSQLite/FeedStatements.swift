import SanguineAuthority

/// Finds the records of an account by their numbers.
///
/// One for each reading connection. Live and deleted records have an index each: who begins has no
/// use for the deleted and does not step over them, and everybody else gets both, merged.
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

    /// The statement that steps through the records after the query's number.
    func path(_ query: FeedQuery) -> SQLStatement {
        let statement = query.liveOnly ? live : all
        statement.bind(query.account)
        statement.bind(query.after)
        return statement
    }
}
