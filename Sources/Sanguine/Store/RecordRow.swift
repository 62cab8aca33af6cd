import Foundation
import GRDB
import SanguineModel

/// A record in its stored form.
struct RecordRow {
    let space: Int64
    let key: RecordKey
    let seq: Int64
    let value: RecordValue

    /// Writes the record, and replaces one with the same key; returns the size of its value in
    /// bytes.
    func put(in database: Database, _ indexes: [String]) throws -> Int {
        let json = try value.json()
        let statement = try database.cachedStatement(
            sql: """
                INSERT INTO record (space, collection, id, seq, value) VALUES (?, ?, ?, ?, ?)
                ON CONFLICT (space, collection, id)
                DO UPDATE SET seq = excluded.seq, value = excluded.value
                """
        )
        statement.setUncheckedArguments([
            space, key.collection, key.id.text, seq, json,
        ])
        try statement.execute()
        guard !indexes.isEmpty else { return json.count }
        try Self.removeIndexes(of: key, in: space, database)
        try index(indexes, in: database)
        return json.count
    }

    /// Writes the record's index entries.
    func index(_ indexes: [String], in database: Database) throws {
        let statement = try database.cachedStatement(
            sql: """
                INSERT OR REPLACE INTO record_index (space, collection, field, value, id)
                VALUES (?, ?, ?, ?, ?)
                """
        )
        for field in indexes {
            guard let member = value[field], let text = Self.text(of: member) else { continue }
            try statement.execute(arguments: [space, key.collection, field, text, key.id.text])
        }
    }

    /// Removes a record.
    static func remove(_ key: RecordKey, in space: Int64, _ database: Database) throws {
        try database.cachedStatement(
            sql: "DELETE FROM record WHERE space = ? AND collection = ? AND id = ?"
        )
        .execute(arguments: [space, key.collection, key.id.text])
        try removeIndexes(of: key, in: space, database)
    }

    private static func removeIndexes(
        of key: RecordKey,
        in space: Int64,
        _ database: Database
    ) throws {
        try database.cachedStatement(
            sql: "DELETE FROM record_index WHERE space = ? AND collection = ? AND id = ?"
        )
        .execute(arguments: [space, key.collection, key.id.text])
    }

    /// Returns the string for a value in an index; `nil` for values that are never looked up.
    static func text(of value: JSONValue) -> String? {
        switch value {
        case .string(let text): "s" + text
        case .integer(let number): "i\(number)"
        case .number(let number):
            // Equal values have the same text: `1.0` is `1`, and `-0` is `0`.
            DecimalDigits(number).integer(as: Int64.self).map { "i\($0)" } ?? "n\(number)"
        case .decimal(let decimal): "n\(decimal)"
        case .bool(let bool): bool ? "true" : "false"
        case .null, .array, .object: nil
        }
    }
}
