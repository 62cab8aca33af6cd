import Foundation
import SanguineAuthority
import SanguineModel

// The scope of all accounts is stored as no bytes, because columns of a primary key must not be
// NULL.

extension RecordRow: StoredRow {
    static let table = "records"
    static let keyColumns = ["collection", "scope", "id"]
    static let valueColumns = [
        "owner", "seq", "through", "deleted_at", "value", "created_at", "updated_at",
    ]

    func bind(to statement: SQLStatement) {
        statement.bind(name)
        statement.bind(owner)
        statement.bind(seq)
        statement.bind(through)
        statement.bind(deletedAt)
        statement.bind(value)
        statement.bind(createdAt)
        statement.bind(updatedAt)
    }

    init(from statement: SQLStatement) throws(SQLFailure) {
        self.init(
            name: RecordName(
                statement.text(0),
                in: try statement.scope(1),
                try statement.recordID(2)
            ),
            owner: try statement.identifier(3),
            seq: statement.integer(4),
            through: statement.integer(5),
            deletedAt: statement.optionalMoment(6),
            value: statement.bytes(7),
            createdAt: statement.moment(8),
            updatedAt: statement.moment(9)
        )
    }
}

extension FeedRow: StoredRow {
    static let table = "feeds"
    static let keyColumns = ["account"]
    static let valueColumns = ["records", "tombstones", "bytes", "horizon", "threads"]

    func bind(to statement: SQLStatement) {
        statement.bind(account)
        statement.bind(records)
        statement.bind(tombstones)
        statement.bind(bytes)
        statement.bind(horizon)
        statement.bind(threads)
    }

    init(from statement: SQLStatement) throws(SQLFailure) {
        self.init(
            account: try statement.identifier(0),
            records: statement.integer(1),
            tombstones: statement.integer(2),
            bytes: statement.integer(3),
            horizon: statement.integer(4),
            threads: statement.integer(5)
        )
    }
}

/// A single row, because all indexes are read together, and there are few.
extension IndexesRow: StoredRow {
    static let table = "indexes"
    static let keyColumns = ["number"]
    static let valueColumns = ["builds"]
    /// The number of that row.
    static let number: Int64 = 1

    func bind(to statement: SQLStatement) throws(SQLFailure) {
        statement.bind(Self.number)
        guard let json = try? JSONEncoder().encode(builds) else { throw .unreadable("The indexes") }
        statement.bind(String(decoding: json, as: UTF8.self))
    }

    init(from statement: SQLStatement) throws(SQLFailure) {
        let json = Data(statement.text(1).utf8)
        guard let builds = try? JSONDecoder().decode([IndexBuild].self, from: json) else {
            throw .unreadable("The indexes")
        }
        self.init(builds: builds)
    }
}

extension SQLStatement {
    func bind(_ name: RecordName) {
        bind(name.collection)
        bind(scope: name.scope)
        bind(name.id.text)
    }

    func bind(_ list: IndexList) {
        bind(list.collection)
        bind(scope: list.scope)
        bind(list.field)
    }

    func bind(_ entry: IndexEntry) {
        bind(entry.list)
        bind(entry.key.bytes)
        bind(entry.id.text)
    }

    func bind(scope: Identifier?) { bind(scope?.bytes ?? []) }

    func scope(_ column: Int32) throws(SQLFailure) -> Identifier? {
        bytes(column).isEmpty ? nil : try identifier(column)
    }

    func recordID(_ column: Int32) throws(SQLFailure) -> RecordID {
        guard let id = RecordID(text(column)) else { throw .unreadable("A record's id") }
        return id
    }
}
