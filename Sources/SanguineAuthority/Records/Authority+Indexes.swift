package import SanguineModel
import Synchronization

/// The indexes that do not contain all records yet.
///
/// Mutable state: `names` and `examined`, each guarded by its mutex. A name that has left the set
/// never returns while the process runs.
final class IncompleteIndexes: Sendable {
    private let names = Mutex<Set<IndexName>>([])
    private let examined = Mutex<UInt64>(0)

    var all: Set<IndexName> {
        get { names.withLock { $0 } }
        set { names.withLock { $0 = newValue } }
    }

    /// The number of records and entries that were examined since the process started.
    var looks: UInt64 { examined.withLock { $0 } }

    func looked(at count: Int) { examined.withLock { $0 += UInt64(count) } }
}

extension Authority {
    /// The number of indexes that do not contain all records yet.
    package var indexesBuilding: Int { incompleteIndexes.all.count }

    /// The number of records and index entries that building indexes has examined since the process
    /// started.
    package var indexLooks: UInt64 { incompleteIndexes.looks }
}

extension Authority {
    /// Finds incomplete indexes, so that lists and lookups by them are refused with `overloaded`
    /// until ``buildIndexes()`` has completed them.
    ///
    /// Call it once, before the first request. If the storage cannot be read, no index is used.
    package func findIncompleteIndexes() async {
        let commands = IndexCommands(schema: settings.schema)
        incompleteIndexes.all = commands.declared
        guard let loaded = try? await storage.load([.indexes]) else { return }
        recordHeads(loaded.indexes)
    }

    /// Performs one step of building or removing indexes.
    ///
    /// - Parameter unreadable: Receives the records that are not JSON objects: at most a few
    ///   hundred per call, and each once per index. They are indexed as records without members.
    /// - Returns: The indexes that remain to be built or removed, in order.
    /// - Throws: the error of the storage.
    package func buildIndexes(
        unreadable: ([RecordName]) -> Void = { _ in }
    ) async throws(Problem) -> [IndexName] {
        let step = try await perform(IndexCommands(schema: settings.schema).step())
        incompleteIndexes.looked(at: step.looked)
        recordHeads(step.row)
        if !step.unreadable.isEmpty { unreadable(step.unreadable) }
        return step.row.builds.filter { $0.stage != .complete }.map(\.name)
    }

    private func recordHeads(_ row: IndexesRow) {
        let complete = row.builds.filter {
            $0.stage == .complete && settings.schema.fits($0)
        }
        incompleteIndexes.all.subtract(complete.map(\.name))
    }
}

extension Authority {
    /// A collection with records that its declared access does not find.
    package struct Misplaced: Hashable, Sendable {
        /// The name of the collection.
        package var collection: String
        /// The declared access.
        package var access: RecordCollection.Access
        /// Whether the collection also has records that are found.
        package var hasOthers: Bool
    }

    /// Returns the declared collections with records that their access does not find, by name.
    ///
    /// The name of a record that only its owner reads contains its owner; that of any other does
    /// not. So after a change of a collection's access from or to `owner`, earlier records are not
    /// found. They cannot be renamed: records of several owners may have one id.
    ///
    /// - Throws: the error of the storage.
    package func misplacedCollections() async throws(Problem) -> [Misplaced] {
        try await perform(IndexCommands(schema: settings.schema).misplaced())
    }
}
