import Foundation
import SanguineModel
import SanguineTesting

/// The record that the tests count with.
struct Counter: SyncedRecord {
    static let collection = RecordCollection("counters", indexes: ["group"])
    static let byGroup = RecordIndex<Counter, String>("group")
    let id: RecordID
    var count: Int64
    var group: String?
}

/// Counts, in its own lane if it has one; refused beyond a limit.
struct Count: RecordMutation {
    static let name = "counter.count"
    let id: RecordID
    var by: Int64 = 1
    var limit: Int64 = .max
    var line = "main"
    var group: String?

    var lane: String { line }

    func apply(to records: inout Records) throws {
        var counter = records.get(Counter.self, id) ?? Counter(id: id, count: 0)
        counter.count += by
        counter.group = group ?? counter.group
        guard counter.count <= limit else { throw Refusal(.invalidContent, "Count less.") }
        records.set(counter)
    }
}

/// Copies a counter under an id that the app chooses.
struct CopyCounter: RecordMutation {
    static let name = "counter.copy"
    let from: RecordID
    let to: RecordID

    func apply(to records: inout Records) throws {
        guard let counter = records.get(Counter.self, from) else {
            throw Refusal(.notFound, "Count first.")
        }
        records.set(Counter(id: to, count: counter.count, group: counter.group))
    }
}

extension RecordSchema {
    static let counters = RecordSchema(
        collections: [Counter.collection, RecordCollection("notes")],
        mutations: [Count.self, CopyCounter.self, MoveOne.self]
    )
}

extension RecordID {
    // Ids in tests are literals.
    static func of(_ text: String) -> RecordID {
        RecordID(text) ?? RecordID(Identifier(at: Timestamp(millisecondsSince1970: 0)))
    }
}

extension RecordKey {
    static func counter(_ id: String) -> RecordKey { RecordKey("counters", .of(id)) }
}

extension InMemoryAuthority {
    func count(_ id: String) -> Int64? { record(Counter.self, .of(id))?.count }

    /// Sets a count, as another device would.
    func set(_ id: String, to count: Int64) { set(Counter(id: .of(id), count: count)) }

    /// The operations that were applied, in order.
    var done: [Identifier] { operations().map(\.id) }
}
