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

/// The outcome of a command, and the heads that it raised.
struct OutcomeWithHeads<Outcome: Sendable>: Sendable {
    var outcome: Outcome
    var heads: [Identifier: Int64]
}

extension Command {
    /// The command, which also records the heads that it raises.
    var recordingHeads: Command<OutcomeWithHeads<Outcome>> {
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
                return Decision(
                    OutcomeWithHeads(outcome: decision.outcome, heads: heads),
                    changes: decision.changes
                )
            }
        )
        command.isLong = isLong
        return command
    }
}
