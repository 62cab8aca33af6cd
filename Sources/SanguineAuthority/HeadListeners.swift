import SanguineModel
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

/// The outcome of a command, and what it changed for readers.
struct OutcomeWithHeads<Outcome: Sendable>: Sendable {
    var outcome: Outcome
    /// The heads that it raised.
    var heads: [Identifier: Int64]
    /// The collections whose records it changed, of those that were asked about.
    var collections: Set<String>
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
    func recordingHeads(_ watched: Set<String>) -> Command<OutcomeWithHeads<Outcome>> {
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
                var collections: Set<String> = []
                for change in decision.changes {
                    guard let name = change.collection, watched.contains(name) else { continue }
                    collections.insert(name)
                }
                return Decision(
                    OutcomeWithHeads(
                        outcome: decision.outcome,
                        heads: heads,
                        collections: collections
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
    /// The collection of the record that the change writes or removes; `nil` for other rows.
    fileprivate var collection: String? {
        switch self {
        case .put(.record(let row)): row.name.collection
        case .delete(.record(let name)): name.collection
        case .put(.document(let row)) where row.kind == .recordTally:
            RecordTally.collection(of: row.id)
        case .delete(.document(.recordTally, id: let id)): RecordTally.collection(of: id)
        default: nil
        }
    }
}
