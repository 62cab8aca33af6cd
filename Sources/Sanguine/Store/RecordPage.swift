import Foundation
import GRDB
import SanguineModel

/// A page of the feed, to be written to the file.
struct RecordPage: Sendable {
    /// A record in its current state; without a value, it is deleted.
    struct Change: Sendable {
        let key: RecordKey
        let seq: Int64
        let value: RecordValue?
    }

    /// The reason why a page could not be read: a fault of the server, not of the disk.
    struct Unreadable: Error { let reason: String }

    let changes: [Change]
}

extension RecordPage {
    /// The collections of records that the server writes.
    private static let recordCollections: Set = ["$threads", "$messages"]

    /// Whether the changes of a collection are not records, but of data that every account has
    /// once: the balance, the quotas and the account.
    static func isSystem(_ collection: String) -> Bool {
        collection.hasPrefix("$") && !recordCollections.contains(collection)
    }

    /// The changes that are not records.
    var systemChanges: [RecordChange] {
        changes.compactMap { change in
            guard Self.isSystem(change.key.collection),
                let json = change.value.flatMap({ try? $0.json() }),
                let value = try? WireCoding.decode(JSONValue.self, from: json)
            else { return nil }
            let (collection, id) = (change.key.collection, change.key.id)
            return RecordChange(collection: collection, id: id, seq: change.seq, value: value)
        }
    }

    /// Returns the page without the changes after a number.
    func through(_ number: Int64) -> RecordPage {
        let isWhole = changes.allSatisfy { $0.seq <= number }
        return isWhole ? self : RecordPage(changes: changes.filter { $0.seq <= number })
    }
    /// Creates a page from decoded changes.
    init(_ changes: [RecordChange]) {
        self.changes = changes.map { change in
            var value: RecordValue?
            if !change.deleted, case .object(let fields) = change.value {
                value = RecordValue(received: fields)
            }
            let key = RecordKey(change.collection, change.id)
            return Change(key: key, seq: change.seq, value: value)
        }
    }
}

/// Parses pages with SQLite's JSON functions: each value stays the text that was received, instead
/// of being decoded and encoded again.
///
/// It uses its own empty database in memory, so that one page is parsed while another is written.
struct RecordPageReader: Sendable {
    private let database: DatabaseQueue

    /// Opens the database.
    ///
    /// - Throws: SQLite's error.
    init() throws { database = try DatabaseQueue() }

    /// Reads the body of the response to a pull.
    ///
    /// - Throws: ``RecordPage/Unreadable``, or SQLite's error.
    func read(_ body: Data) throws -> RecordPage {
        let json = String(decoding: body, as: UTF8.self)
        return try database.unsafeRead { database in
            let count = try Self.countChanges(of: json, database)
            let statement = try database.cachedStatement(
                sql: """
                    SELECT value ->> 'collection', value ->> 'id', value ->> 'seq',
                        value ->> 'deleted', value -> 'value'
                    FROM json_each(?, '$.changes') WHERE type = 'object'
                    """
            )
            var changes: [RecordPage.Change] = []
            changes.reserveCapacity(count)
            let rows = try Row.fetchCursor(statement, arguments: [json])
            while let row = try rows.next() { changes.append(try RecordPage.Change(row)) }
            guard changes.count == count else {
                throw RecordPage.Unreadable(reason: "a change is not an object")
            }
            return RecordPage(changes: changes)
        }
    }

    private static func countChanges(of json: String, _ database: Database) throws -> Int {
        let count = try Int.fetchOne(
            database,
            sql: """
                SELECT CASE WHEN json_valid(?1) AND json_type(?1, '$.changes') = 'array'
                THEN json_array_length(?1, '$.changes') END
                """,
            arguments: [json]
        )
        guard let count else { throw RecordPage.Unreadable(reason: "'changes' is missing") }
        return count
    }
}

extension RecordPage.Change {
    /// Reads a row of collection, id, number, deletion flag and value.
    fileprivate init(_ row: Row) throws {
        guard let collection = String.fromDatabaseValue(row[0]),
            let id = String.fromDatabaseValue(row[1]).flatMap({ RecordID($0) }),
            let seq = Int64.fromDatabaseValue(row[2])
        else {
            throw RecordPage.Unreadable(reason: "a change has no 'collection', 'id' or 'seq'")
        }
        key = RecordKey(collection, id)
        self.seq = seq
        let isGone = Bool.fromDatabaseValue(row[3]) == true
        if !isGone, let text = row[4] as String?, text.utf8.first == UInt8(ascii: "{") {
            value = RecordValue(json: Data(text.utf8))
        } else {
            value = nil
        }
    }
}
