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
            guard let id = RecordID(text) else { return nil }
            let key = RecordKey(collection, id)
            // Prefers a record that has already been decoded.
            if let known = cache.value(key), let value = known { return (id, value) }
            let value = RecordValue(json: data)
            cache.set(value, bytes: data.count, for: key)
            return (id, value)
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
