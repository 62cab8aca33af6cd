import Foundation
import SanguineModel

/// An operation looks records up by an index that does not contain all of them.
///
/// The source throws this error, so a mutation cannot decide with records missing.
struct IncompleteIndex: Error {
    let name: IndexName
}

/// The records that an operation of a push sees: the stored ones with the changes of the previous
/// operations.
struct PushSource: RecordSource {
    let account: Identifier
    let schema: RecordSchema
    private let reader: any RecordReader
    private let incomplete: Set<IndexName>
    private var changed: [RecordName: RecordRow] = [:]

    init(
        account: Identifier,
        schema: RecordSchema,
        reader: any RecordReader,
        incomplete: Set<IndexName> = []
    ) {
        self.account = account
        self.schema = schema
        self.reader = reader
        self.incomplete = incomplete
    }

    /// Returns the name of a record of the account, or of a public record.
    func name(of id: RecordID, in collection: RecordCollection) -> RecordName {
        RecordName(collection.name, in: collection.scope(of: account), id)
    }

    /// Returns the row, which may be a tombstone.
    func row(_ name: RecordName) throws -> RecordRow? {
        try changed[name] ?? reader.record(name)
    }

    /// Returns the account's oldest tombstones, including the changes of the operations.
    func tombstones(limit: Int) throws -> [RecordRow] {
        // All changed records have larger numbers than unchanged ones.
        let changed = changed.values.filter { !$0.isLive }.sorted { $0.seq < $1.seq }
        let stored = try reader.tombstones(of: account, limit: limit + self.changed.count)
            .filter { self.changed[$0.name] == nil }
        return Array((stored + changed).prefix(limit))
    }

    /// Returns whether the account may read a file: it has uploaded it, or may read a stored record
    /// that names it.
    ///
    /// - Throws: ``IncompleteIndex`` if only an index that is being built could tell, or the
    ///   storage's error.
    func mayRead(_ file: BlobID) throws -> Bool {
        if try reader.hasBlob(account, file) { return true }
        var missing: IndexName?
        for list in schema.listsOfBlobs(readableBy: account) {
            if try !reader.ids(in: list, at: IndexKey(of: file), limit: 1).isEmpty { return true }
            let name = IndexName(collection: list.collection, field: list.field)
            if incomplete.contains(name) { missing = name }
        }
        if let missing { throw IncompleteIndex(name: missing) }
        return false
    }

    /// Returns the stored records that have an entry of a unique group, at most 100.
    ///
    /// Records that are older than the declaration may repeat an entry.
    func holders(of entry: IndexEntry) throws -> [RecordID] {
        let index = IndexName(collection: entry.list.collection, field: entry.list.field)
        guard !incomplete.contains(index) else { throw IncompleteIndex(name: index) }
        return try reader.ids(in: entry.list, at: entry.key, limit: 100)
    }

    /// Returns the number of stored entries in a list, at most `limit`.
    func entryCount(in list: IndexList, limit: Int) throws -> Int {
        try reader.entries(in: list, limit: limit).count
    }

    /// Counts a changed record; `nil` is a missing one.
    func count(
        _ collection: RecordCollection,
        from old: RecordFields?,
        to new: RecordFields?,
        in tallies: inout RecordTallies
    ) throws {
        try tallies.count(collection, from: old, to: new, reader)
    }

    /// Adds a change of an operation.
    mutating func set(_ row: RecordRow) { changed[row.name] = row }

    func record(_ key: RecordKey) throws -> SourcedRecord? {
        guard let collection = schema.collection(key.collection),
            let row = try row(name(of: key.id, in: collection)), row.isLive,
            collection.isReadable(row, by: account)
        else { return nil }
        return SourcedRecord(RecordValue(json: Data(row.value)), isOwn: row.owner == account)
    }

    func ids(
        in collection: String,
        where field: String,
        is value: JSONValue,
        limit: Int
    ) throws -> [RecordID] {
        let index = IndexName(collection: collection, field: field)
        guard !incomplete.contains(index) else { throw IncompleteIndex(name: index) }
        let key = IndexKey(value)
        let list = IndexList(collection, in: account, by: field)
        let most = limit + changed.count
        var ids = Set(try reader.ids(in: list, at: key ?? IndexKey(ofStored: value), limit: most))
        // A value that is too long for a key shares its index entry with other values. If there are
        // more records than may be read, the operation is refused, so they are not filtered.
        if key == nil, ids.count < most, let declared = schema.collection(collection) {
            ids = try ids.filter { id in
                guard let row = try row(name(of: id, in: declared)) else { return false }
                return Self.has(row, field, value, key)
            }
        }
        for (name, row) in changed where name.collection == collection {
            let found = row.isLive && Self.has(row, field, value, key)
            if found { ids.insert(name.id) } else { ids.remove(name.id) }
        }
        return Array(ids.sorted().prefix(max(0, limit)))
    }

    /// Whether a record's member has the value; `key` is `nil` if the value is too long for one.
    private static func has(
        _ row: RecordRow,
        _ field: String,
        _ value: JSONValue,
        _ key: IndexKey?
    ) -> Bool {
        let member = RecordValue(json: Data(row.value))[field]
        return key.map { IndexKey(member) == $0 } ?? (member == value)
    }
}
