import Foundation
import GRDB
import SanguineModel
import Synchronization

// MARK: - Reading

extension RecordsFile {
    /// Reads from the base.
    struct Base: RecordSource {
        let file: RecordsFile?
        var space: Int64

        /// A base without records.
        static let empty = Base(file: nil, space: 0)

        func record(_ key: RecordKey) throws -> SourcedRecord? {
            try file?.record(key, in: space).map { SourcedRecord($0) }
        }

        func ids(
            in collection: String,
            where field: String,
            is value: JSONValue,
            limit: Int
        ) throws -> [RecordID] {
            guard let text = RecordRow.text(of: value) else { return [] }
            return try file?.ids(in: space, collection, where: field, is: text, limit) ?? []
        }

        /// Returns the records with an indexed text in a range, in the order of these texts.
        func records(
            in collection: String,
            where field: String,
            from lowest: String,
            through highest: String,
            limit: Int,
            isDescending: Bool
        ) throws -> [(RecordID, RecordValue)] {
            let bounds = (
                lowest: RecordRow.text(of: .string(lowest)) ?? "",
                highest: RecordRow.text(of: .string(highest)) ?? ""
            )
            let order = isDescending ? "DESC" : "ASC"
            return try file?.records(in: space, collection, field, bounds, limit, order) ?? []
        }

        /// Returns the ids of records after an id, in their order, with the numbers of their last
        /// changes, and reads no values.
        func numbers(
            of collection: String,
            after id: RecordID?,
            limit: Int
        ) throws -> [(id: RecordID, number: Int64)] {
            try file?.numbers(of: space, collection, after: id?.text ?? "", limit) ?? []
        }

        /// Returns a record with the number of its last change; `nil` if there is none.
        func numbered(_ key: RecordKey) throws -> NumberedRecord? {
            try file?.numbered(key, in: space)
        }

        /// Returns all records of a collection, in the order of their ids.
        func all(in collection: String) throws -> [(RecordID, RecordValue)] {
            try file?.all(in: space, collection) ?? []
        }

        /// Returns the last records of a collection before an id, in descending order of their ids.
        func last(
            _ count: Int,
            in collection: String,
            before end: RecordID?
        ) throws -> [(RecordID, RecordValue)] {
            try file?.last(count, in: space, collection, before: end) ?? []
        }
    }

    private func record(_ key: RecordKey, in space: Int64) throws -> RecordValue? {
        if let known = cache.value(key) { return known }
        let data = try read { database in
            let statement = try database.cachedStatement(
                sql: "SELECT value FROM record WHERE space = ? AND collection = ? AND id = ?"
            )
            statement.setUncheckedArguments([space, key.collection, key.id.text])
            return try Data.fetchOne(statement)
        }
        let value = data.map(RecordValue.init(json:))
        cache.set(value, bytes: data?.count ?? 0, for: key)
        return value
    }

    private func ids(
        in space: Int64,
        _ collection: String,
        where field: String,
        is text: String,
        _ limit: Int
    ) throws -> [RecordID] {
        try read { database in
            let statement = try database.cachedStatement(
                sql: """
                    SELECT id FROM record_index
                    WHERE space = ? AND collection = ? AND field = ? AND value = ?
                    ORDER BY id LIMIT ?
                    """
            )
            statement.setUncheckedArguments([space, collection, field, text, limit])
            return try String.fetchAll(statement).compactMap { RecordID($0) }
        }
    }

    private func records(
        in space: Int64,
        _ collection: String,
        _ field: String,
        _ bounds: (lowest: String, highest: String),
        _ limit: Int,
        _ order: String
    ) throws -> [(RecordID, RecordValue)] {
        let rows = try read { database in
            let statement = try database.cachedStatement(
                sql: """
                    SELECT r.id, r.value FROM record_index AS i CROSS JOIN record AS r
                    ON r.space = i.space AND r.collection = i.collection AND r.id = i.id
                    WHERE i.space = ? AND i.collection = ? AND i.field = ?
                    AND i.value BETWEEN ? AND ? ORDER BY i.value \(order) LIMIT ?
                    """
            )
            statement.setUncheckedArguments([
                space, collection, field, bounds.lowest, bounds.highest, limit,
            ])
            return try Row.fetchAll(statement).map { row -> (String, Data) in (row[0], row[1]) }
        }
        return rows.compactMap { text, data in
            RecordID(text).map { ($0, cached(RecordKey(collection, $0), data)) }
        }
    }

    private func numbers(
        of space: Int64,
        _ collection: String,
        after id: String,
        _ limit: Int
    ) throws -> [(id: RecordID, number: Int64)] {
        try read { database in
            let statement = try database.cachedStatement(
                sql: """
                    SELECT id, seq FROM record
                    WHERE space = ? AND collection = ? AND id > ? ORDER BY id LIMIT ?
                    """
            )
            statement.setUncheckedArguments([space, collection, id, limit])
            return try Row.fetchAll(statement).compactMap { row in
                RecordID(row[0] as String).map { ($0, row[1]) }
            }
        }
    }

    private func numbered(_ key: RecordKey, in space: Int64) throws -> NumberedRecord? {
        try read { database in
            let statement = try database.cachedStatement(
                sql: """
                    SELECT id, seq, value FROM record
                    WHERE space = ? AND collection = ? AND id = ?
                    """
            )
            statement.setUncheckedArguments([space, key.collection, key.id.text])
            return try Row.fetchOne(statement).flatMap { NumberedRecord($0, in: key.collection) }
        }
    }

    /// Returns a record that was read, preferably one that has already been decoded.
    private func cached(_ key: RecordKey, _ data: Data) -> RecordValue {
        if let known = cache.value(key), let value = known { return value }
        let value = RecordValue(json: data)
        cache.set(value, bytes: data.count, for: key)
        return value
    }

    private func all(in space: Int64, _ collection: String) throws -> [(RecordID, RecordValue)] {
        try rows(
            "SELECT id, value FROM record WHERE space = ? AND collection = ? ORDER BY id",
            [space, collection],
            of: collection
        )
    }

    private func last(
        _ count: Int,
        in space: Int64,
        _ collection: String,
        before end: RecordID?
    ) throws -> [(RecordID, RecordValue)] {
        let from = "SELECT id, value FROM record WHERE space = ? AND collection = ?"
        let order = "ORDER BY id DESC LIMIT ?"
        guard let end else {
            return try rows("\(from) \(order)", [space, collection, count], of: collection)
        }
        return try rows(
            "\(from) AND id < ? \(order)",
            [space, collection, end.text, count],
            of: collection
        )
    }

    private func rows(
        _ sql: String,
        _ arguments: StatementArguments,
        of collection: String
    ) throws -> [(RecordID, RecordValue)] {
        let rows = try read { database in
            let statement = try database.cachedStatement(sql: sql)
            statement.setUncheckedArguments(arguments)
            return try Row.fetchAll(statement).map { row -> (String, Data) in (row[0], row[1]) }
        }
        return rows.compactMap { text, data in
            RecordID(text).map { ($0, cached(RecordKey(collection, $0), data)) }
        }
    }

    /// Returns the space and position of the base; `nil` if there is none yet.
    func basePosition() throws -> BasePosition? {
        try read { database in
            try Row.fetchOne(database, sql: "SELECT space, position FROM base")
                .map { row in
                    let epoch = try Self.epoch(.base, in: database)
                    let note = try String.fetchOne(
                        database,
                        sql: "SELECT text FROM note WHERE name = ?",
                        arguments: [Self.partialNote]
                    )
                    var base = BasePosition(space: row[0], position: row[1], epoch: epoch)
                    base.isWhole = base.position > 0 && note == nil
                    return base
                }
        }
    }

    /// The name of the note that marks a base to which changes of its restore are still missing.
    static let partialNote = "partial"

    /// The parts of the file that have their own epoch.
    enum Numbered: String {
        case base = "epoch"
        case restore = "restore epoch"
    }

    /// Returns the epoch of the numbers of the base, or of a restore.
    static func epoch(_ numbered: Numbered, in database: Database) throws -> Epoch? {
        try String.fetchOne(
            database,
            sql: "SELECT text FROM note WHERE name = ?",
            arguments: [numbered.rawValue]
        )
        .flatMap { Epoch($0) }
    }

    /// Returns a number that changes whenever another connection has changed the file.
    func version() throws -> Int64 {
        try read { database in
            let statement = try database.cachedStatement(sql: "PRAGMA data_version")
            return try Int64.fetchOne(statement) ?? 0
        }
    }

    func read<Value>(_ body: (Database) throws -> Value) throws -> Value {
        try openConnections.reader.unsafeRead(body)
    }
}

/// A record of the base with the feed's number of its last change.
struct NumberedRecord: Sendable {
    let key: RecordKey
    let number: Int64
    let value: RecordValue
    /// The size of the value's JSON in bytes.
    let bytes: Int

    fileprivate init?(_ row: Row, in collection: String) {
        guard let id = RecordID(row[0] as String) else { return nil }
        let json: Data = row[2]
        key = RecordKey(collection, id)
        number = row[1]
        value = RecordValue(json: json)
        bytes = json.count
    }
}
