package import SanguineModel
import Synchronization

/// The listeners for growing feeds.
///
/// Mutable state: the list, guarded by its mutex.
final class HeadListeners: Sendable {
    typealias Listener = @Sendable (Identifier, Int64) -> Void

    private let listeners = Mutex<[Listener]>([])

    func add(_ listener: @escaping Listener) { listeners.withLock { $0.append(listener) } }

    /// Whether there are no listeners, so that no heads need to be recorded.
    var isEmpty: Bool { listeners.withLock(\.isEmpty) }

    func notify(_ heads: [Identifier: Int64]) {
        guard !heads.isEmpty else { return }
        let listeners = listeners.withLock { $0 }
        for (account, head) in heads {
            for listener in listeners { listener(account, head) }
        }
    }
}

/// The lists that a commit changed for other accounts than the owners of the records.
package struct ChangedLists: Hashable, Sendable {
    /// The collections.
    package var collections: Set<String>
    /// The accounts that may read the changed records, of the collections whose records name them.
    package var readers: [String: Set<Identifier>]

    /// Creates the description of a commit.
    package init(collections: Set<String> = [], readers: [String: Set<Identifier>] = [:]) {
        self.collections = collections
        self.readers = readers
    }

    /// Adds a change of a commit, if it is one of a watched collection.
    mutating func add(_ change: Change, _ watched: Set<String>, _ schema: RecordSchema) {
        guard let name = change.collection, watched.contains(name),
            let collection = schema.collection(name)
        else { return }
        var accounts: Set<Identifier> = []
        switch change {
        case .index(let entry), .unindex(let entry):
            if let account = entry.list.scope { accounts.insert(account) }
        case .put(.record(let row)):
            collections.insert(name)
            accounts = collection.readingAccounts(of: row.liveFields ?? [:]).union([row.owner])
        default: collections.insert(name)
        }
        if collection.access == .readers { readers[name, default: []].formUnion(accounts) }
    }
}

/// The listeners for changes of lists.
///
/// Mutable state: the list, guarded by its mutex.
final class ListListeners: Sendable {
    private let listeners = Mutex<[@Sendable (ChangedLists) -> Void]>([])

    func add(_ listener: @escaping @Sendable (ChangedLists) -> Void) {
        listeners.withLock { $0.append(listener) }
    }

    func notify(_ changed: ChangedLists) {
        guard !changed.collections.isEmpty else { return }
        for listener in listeners.withLock({ $0 }) { listener(changed) }
    }
}

/// The outcome of a command, and what it changed for readers.
struct OutcomeWithHeads<Outcome: Sendable>: Sendable {
    var outcome: Outcome
    /// The heads that it raised.
    var heads: [Identifier: Int64]
    /// The lists that it changed, of the collections that were asked about.
    var lists: ChangedLists
}

extension RecordSchema {
    /// The collections whose lists other accounts than the owner read.
    var sharedCollections: Set<String> {
        Set(declaredCollections.filter { $0.access != .owner }.map(\.name))
    }
}

extension Command {
    /// Returns the command, which also records the heads that it raises, and which of the
    /// collections it changes.
    func recordingHeads(
        _ watched: Set<String>,
        _ schema: RecordSchema
    ) -> Command<OutcomeWithHeads<Outcome>> {
        let decide = decide
        var command = Command<OutcomeWithHeads<Outcome>>(
            keys: keys,
            surplus: surplus,
            reading: {
                loaded,
                reader throws(Problem) in
                let decision = try decide(loaded, reader)
                var heads: [Identifier: Int64] = [:]
                for case .put(.balance(let row)) in decision.changes
                where row.head > loaded.balance(row.account)?.head ?? 0 {
                    heads[row.account] = row.head
                }
                var lists = ChangedLists()
                for change in decision.changes { lists.add(change, watched, schema) }
                return Decision(
                    OutcomeWithHeads(
                        outcome: decision.outcome,
                        heads: heads,
                        lists: lists
                    ),
                    changes: decision.changes
                )
            }
        )
        command.isLong = isLong
        return command
    }
}

extension Change {
    /// The collection of the record or the entry that the change writes or removes; `nil` for other
    /// rows.
    fileprivate var collection: String? {
        switch self {
        case .put(.record(let row)): row.name.collection
        case .delete(.record(let name)): name.collection
        case .index(let entry), .unindex(let entry): entry.list.collection
        case .put(.document(let row)) where row.kind == .recordTally:
            RecordTally.collection(of: row.id)
        case .delete(.document(.recordTally, id: let id)): RecordTally.collection(of: id)
        default: nil
        }
    }
}
