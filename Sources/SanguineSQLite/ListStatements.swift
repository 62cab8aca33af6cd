import SanguineAuthority
import SanguineModel

/// Lists the records of a collection.
///
/// Each reading connection has one. It steps along an index, entry by entry, and examines each
/// record. So the cost of a page is proportional to its length, or bounded by the query's `looks`.
/// These indexes contain no deleted records.
final class ListStatements {
    private let rows: RowReader
    private let byID: Directed
    private let byKey: Directed
    private let atKey: Directed
    private let entry: SQLStatement
    private let keys: SQLStatement

    /// A statement for each direction.
    private struct Directed {
        let up: SQLStatement
        let down: SQLStatement

        init(_ up: String, _ down: String, on connection: OpaquePointer) throws(SQLFailure) {
            self.up = try SQLStatement(up, on: connection)
            self.down = try SQLStatement(down, on: connection)
        }

        func callAsFunction(_ isDescending: Bool) -> SQLStatement { isDescending ? down : up }
    }

    init(_ rows: RowReader, on connection: OpaquePointer) throws(SQLFailure) {
        self.rows = rows
        byID = try Directed(
            """
            SELECT id FROM records INDEXED BY records_live_by_name
            WHERE collection = ? AND scope = ? AND id > ? AND deleted_at IS NULL ORDER BY id
            """,
            """
            SELECT id FROM records INDEXED BY records_live_by_name
            WHERE collection = ? AND scope = ? AND id < ? AND deleted_at IS NULL ORDER BY id DESC
            """,
            on: connection
        )
        let list =
            "SELECT value, id FROM record_index WHERE collection = ? AND scope = ? AND field = ?"
        byKey = try Directed(
            "\(list) AND (value, id) > (?, ?) ORDER BY value, id",
            "\(list) AND (value, id) < (?, ?) ORDER BY value DESC, id DESC",
            on: connection
        )
        atKey = try Directed(
            "\(list) AND value = ? AND id > ? ORDER BY id",
            "\(list) AND value = ? AND id < ? ORDER BY id DESC",
            on: connection
        )
        entry = try SQLStatement(
            """
            SELECT 1 FROM record_index
            WHERE collection = ? AND scope = ? AND field = ? AND value = ? AND id = ?
            """,
            on: connection
        )
        keys = try SQLStatement(
            """
            SELECT value FROM record_index WHERE collection = ? AND scope = ? AND field = ?
            ORDER BY value DESC, id DESC LIMIT ?
            """,
            on: connection
        )
    }

    /// Returns a part of the list, as the connection sees it now.
    func records(_ query: RecordQuery) throws(SQLFailure) -> RecordList {
        if let timeline = query.timeline { return try page(query, timeline) }
        var list = try page(query)
        if query.countLimit > 0 { list.count = try count(query) }
        return list
    }

    private func count(_ query: RecordQuery) throws(SQLFailure) -> RecordCount {
        var whole = query
        whole.after = nil
        let path = path(whole)
        defer { path.reset() }
        var count = RecordCount(query)
        while try path.step() {
            let position = try position(on: path, query)
            guard query.isWithin(position), count.looksFurther() else { break }
            count.add(belongs: try belongs(position.id, query))
        }
        return count
    }

    private func page(_ query: RecordQuery) throws(SQLFailure) -> RecordList {
        let path = path(query)
        defer { path.reset() }
        var list = RecordList(query)
        while try path.step() {
            let position = try position(on: path, query)
            guard query.isWithin(position), list.looksFurther() else { break }
            list.add(try row(position.id, query), at: position)
        }
        return list
    }

    private func page(
        _ query: RecordQuery,
        _ timeline: RecordQuery.Timeline
    ) throws(SQLFailure) -> RecordList {
        keys.bind(timeline.follows)
        keys.bind(limit: timeline.limit)
        let followed = try keys.all { IndexKey(bytes: $0.bytes(0)) }
        var merge = TimelineMerge(after: query.after, followed, own: timeline.own)
        let source = IndexList(query.collection, in: query.scope, by: timeline.list)
        for author in merge.authors { try add(author, to: &merge, source) }
        var list = RecordList(query)
        while let head = merge.next(), list.looksFurther() {
            list.add(try row(head.position.id, query), at: head.position)
            try add(head.author, to: &merge, source, after: head.position)
        }
        return list
    }

    /// Adds the author's next entry.
    private func add(
        _ author: Int,
        to merge: inout TimelineMerge,
        _ list: IndexList,
        after position: RecordPosition? = nil
    ) throws(SQLFailure) {
        let (key, id) = merge.start(of: author, after: position)
        let statement = byKey(true)
        statement.bind(list)
        statement.bind(key.bytes)
        statement.bind(id?.text ?? "\u{10FFFF}")
        let found = try statement.first { row throws(SQLFailure) in
            (IndexKey(bytes: row.bytes(0)), try row.recordID(1))
        }
        if let (key, id) = found { merge.add(key, id, of: author) }
    }

    /// Returns the statement that steps through the entries, starting at the query's position.
    // The initial bounds: ids are ASCII, so they follow the empty string and precede U+10FFFF. Keys
    // follow the empty key and precede a first byte of 255.
    func path(_ query: RecordQuery) -> SQLStatement {
        let isDescending = query.isDescending
        let statement: SQLStatement
        if let (list, key) = query.path {
            statement = key == nil ? byKey(isDescending) : atKey(isDescending)
            statement.bind(list)
            let start = query.search?.prefix ?? (isDescending ? [255] : [])
            statement.bind(key?.bytes ?? query.after?.key?.bytes ?? start)
        } else {
            statement = byID(isDescending)
            statement.bind(query.collection)
            statement.bind(scope: query.scope)
        }
        statement.bind(query.after?.id.text ?? (isDescending ? "\u{10FFFF}" : ""))
        return statement
    }

    private func position(
        on path: SQLStatement,
        _ query: RecordQuery
    ) throws(SQLFailure) -> RecordPosition {
        guard query.path != nil else { return RecordPosition(nil, try path.recordID(0)) }
        return RecordPosition(IndexKey(bytes: path.bytes(0)), try path.recordID(1))
    }

    /// Whether a record on the path meets the query's other conditions.
    private func belongs(_ id: RecordID, _ query: RecordQuery) throws(SQLFailure) -> Bool {
        for needed in query.entriesNeeded(by: id) {
            entry.bind(needed)
            guard try entry.first({ _ in true }) == true else { return false }
        }
        return true
    }

    private func row(_ id: RecordID, _ query: RecordQuery) throws(SQLFailure) -> RecordRow? {
        guard try belongs(id, query) else { return nil }
        guard case .record(let row) = try rows.row(.record(query.name(of: id))),
            row.deletedAt == nil
        else { return nil }
        return row
    }
}
