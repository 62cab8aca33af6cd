import Foundation
import SanguineModel

/// An operation looks records up by an index that does not know all of them.
///
/// It is a fault of the source, so no mutator can decide without the records.
struct IncompleteIndex: Error {
    let name: IndexName
}

/// The records that an operation of a push sees: the stored ones, under what the operations before
/// it have changed.
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

    /// The name of a record of that account, or of everyone.
    func name(of id: RecordID, in collection: RecordCollection) -> RecordName {
        RecordName(collection.name, in: collection.scope(of: account), id)
    }

    /// The row, also of a record that was deleted.
    func row(_ name: RecordName) throws -> RecordRow? {
        try changed[name] ?? reader.record(name)
    }

    /// The oldest tombstones of the account, as the operations have left them.
    func tombstones(limit: Int) throws -> [RecordRow] {
        // All that was changed has larger numbers than what was not.
        let changed = changed.values.filter { !$0.isLive }.sorted { $0.seq < $1.seq }
        let stored = try reader.tombstones(of: account, limit: limit + self.changed.count)
            .filter { self.changed[$0.name] == nil }
        return Array((stored + changed).prefix(limit))
    }

    /// Takes in what an operation has changed.
    mutating func set(_ row: RecordRow) { changed[row.name] = row }

    func record(_ key: RecordKey) throws -> SourcedRecord? {
        guard let collection = schema.collection(key.collection),
            let row = try row(name(of: key.id, in: collection)), row.isLive
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
        guard let key = IndexKey(value) else { return [] }
        let list = IndexList(collection, in: account, by: field)
        var ids = Set(try reader.ids(in: list, at: key, limit: limit + changed.count))
        for (name, row) in changed where name.collection == collection {
            let found = row.isLive && IndexKey(RecordValue(json: Data(row.value))[field]) == key
            if found { ids.insert(name.id) } else { ids.remove(name.id) }
        }
        return Array(ids.sorted().prefix(max(0, limit)))
    }
}
