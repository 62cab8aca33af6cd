import Foundation
import SanguineModel

/// The number of records that refer to a record, as a ``RecordCounter`` declares it.
struct RecordTally: StoredDocument, Hashable {
    static let kind = DocumentKind.recordTally

    /// The collection of the record.
    let collection: String
    /// The member that shows the number.
    let member: String
    /// The record.
    let id: RecordID
    /// The number, at least 1: a record without a tally has none.
    var number: Int64

    var documentID: String { "\(collection)/\(member)/\(id.text)" }
    var documentAccount: Identifier? { nil }

    /// Returns the collection of the record whose tally has the id.
    static func collection(of id: String) -> String { String(id.prefix { $0 != "/" }) }
}

/// The tallies that a command changes.
///
/// Invariant: each tally is read once, before its first change.
struct RecordTallies {
    private let schema: RecordSchema
    private var tallies: [String: RecordTally] = [:]

    init(_ schema: RecordSchema) { self.schema = schema }

    /// The changes to store.
    var changes: [Change] {
        tallies.sorted { $0.key < $1.key }.map { id, tally in
            tally.number > 0 ? .put(tally) : .delete(RecordTally.key(id))
        }
    }

    /// Counts a changed record of a collection; `nil` is a missing one.
    ///
    /// - Throws: the storage's error.
    mutating func count(
        _ collection: RecordCollection,
        from old: RecordFields?,
        to new: RecordFields?,
        _ reader: any RecordReader
    ) throws {
        for counter in collection.counts {
            let (before, after) = (counter.target(old), counter.target(new))
            guard before != after else { continue }
            if let before { try add(-1, counter, before, reader) }
            if let after { try add(1, counter, after, reader) }
        }
    }

    /// Removes the tallies of a deleted record.
    mutating func remove(_ id: RecordID, of collection: String) {
        for counter in schema.counters(of: collection) {
            let tally = RecordTally(
                collection: collection,
                member: counter.member,
                id: id,
                number: 0
            )
            tallies[tally.documentID] = tally
        }
    }

    private mutating func add(
        _ amount: Int64,
        _ counter: RecordCounter,
        _ id: RecordID,
        _ reader: any RecordReader
    ) throws {
        var tally = RecordTally(
            collection: counter.collection,
            member: counter.member,
            id: id,
            number: 0
        )
        if let known = tallies[tally.documentID] {
            tally = known
        } else if let row = try reader.document(.recordTally, id: tally.documentID) {
            tally = try RecordTally(row)
        }
        // A record that was deleted and created again begins at 0.
        tally.number = max(0, tally.number + amount)
        tallies[tally.documentID] = tally
    }
}

extension RecordCounter {
    /// Returns the record that the counted one refers to.
    func target(_ fields: RecordFields?) -> RecordID? {
        fields?[by]?.string.flatMap { RecordID($0) }
    }
}

extension Authority {
    /// Returns the items with the members that count records of other collections.
    func counted(
        _ items: [RecordChange],
        of collection: String
    ) async throws(Problem) -> [RecordChange] {
        let counters = settings.schema.counters(of: collection)
        guard !counters.isEmpty, !items.isEmpty else { return items }
        let tallies = items.map { item in
            counters.map {
                RecordTally(collection: collection, member: $0.member, id: item.id, number: 0)
            }
        }
        let keys = Array(Set(tallies.joined().map { RecordTally.key($0.documentID) }))
        let loaded = try await read { storage throws(StorageError) in
            try await storage.load(keys)
        }
        var counted = items
        for (index, own) in tallies.enumerated() {
            guard case .object(var members)? = items[index].value else { continue }
            for tally in own {
                let found = try loaded.document(RecordTally.self, tally.documentID)
                members[tally.member] = .integer(found?.number ?? 0)
            }
            counted[index].value = .object(members)
        }
        return counted
    }
}
