import SanguineModel

/// The user's own records of a collection, as they are on this device.
struct OwnRecords: Sendable, Equatable {
    /// The server's records with the changes of pending operations.
    var values: [RecordID: RecordValue] = [:]
    /// The records that the server has not stored yet.
    var unstored: Set<RecordID> = []
    /// The records that pending operations delete.
    var deleted: Set<RecordID> = []
    /// Whether all of the user's records are on this device.
    var isComplete = true
    /// The members that the server counts, which are not a part of the owner's record.
    var counted: Set<String> = []

    /// Returns the query of the user's own records of a collection.
    static func query(_ collection: RecordCollection) -> RecordQuery<OwnRecords> {
        RecordQuery(reading: collection) { OwnRecords(collection.name, $0.view) }
    }
}

extension OwnRecords {
    fileprivate init(_ collection: String, _ view: RecordsView) {
        let all = view.all(in: collection)
        values = Dictionary(all) { first, _ in first }
        isComplete = view.source.isWhole
        counted = Set(
            view.source.environment.schema.allCollections.flatMap(\.counts)
                .filter { $0.collection == collection }.map(\.member)
        )
        let pending = view.readAtOnce { contents in
            let changes = contents.changes(in: collection)
            let unstored = try changes.keys.filter { id in
                try contents.base.record(RecordKey(collection, id)) == nil
            }
            return (Set(unstored), Set(changes.filter { $0.value == nil }.keys))
        }
        if let pending { (unstored, deleted) = pending }
    }
}
