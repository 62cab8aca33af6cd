import SanguineModel
import SanguineTesting
import TestSupport

@testable import SanguineAuthority

/// A process's view of a storage that outlives it: it counts commits, fails when told, and dies.
///
/// Mutable state: `state`, by its lock.
final class MortalStorage: StorageDecorator {
    /// What a command is about, as far as a fault looks at it.
    typealias Fault = @Sendable (_ keys: [Key], _ isCommit: Bool) -> StorageError?

    struct State: Sendable {
        var fault: Fault = { _, _ in nil }
        /// What a command waits for before it is performed.
        var delay: @Sendable (_ keys: [Key]) async -> Void = { _ in }
        /// What is reported of a command that was performed, in place of its outcome.
        var afterwards: @Sendable (_ isCommit: Bool) -> StorageError? = { _ in nil }
        var isDead = false
        /// Commands that changed something.
        var commits = 0
        /// Rows of parts that were stored, one after the other.
        var parts: [PartsRow] = []
        var reads = 0
    }

    let inner: MemoryStorage
    let state = WatchedState(State())

    init(over inner: MemoryStorage = MemoryStorage()) { self.inner = inner }

    var commits: Int { state.value.commits }

    func fail(_ fault: @escaping Fault) { state.withLock { $0.fault = fault } }

    /// Nothing of this process reaches the storage any more.
    func die() { state.withLock { $0.isDead = true } }

    func perform<Outcome>(
        _ command: Command<Outcome>
    ) async throws(StorageError) -> Result<Outcome, Problem> {
        let delay = state.value.delay
        await delay(command.keys)
        try check(command.keys, isCommit: true)
        // Decided again, so that the changes are seen.
        let watching = Command<Decision<Outcome>>(
            keys: command.keys,
            surplus: command.surplus,
            reading: { loaded, reader throws(Problem) in
                let decision = try command.decide(loaded, reader)
                return Decision(decision, changes: decision.changes)
            }
        )
        let result = try inner.performNow(watching)
        if case .success(let decision) = result, !decision.changes.isEmpty {
            state.withLock { state in
                state.commits += 1
                for case .put(.parts(let row)) in decision.changes { state.parts.append(row) }
            }
        }
        if let error = state.value.afterwards(true) { throw error }
        return result.map(\.outcome)
    }

    func load(_ keys: [Key]) async throws(StorageError) -> Loaded {
        state.withLock { $0.reads += 1 }
        try check(keys, isCommit: false)
        return try await inner.load(keys)
    }

    func parts(
        of run: Identifier,
        from index: Int64,
        limit: Int
    ) async throws(StorageError) -> [PartsRow] {
        state.withLock { $0.reads += 1 }
        try check([.parts(run, first: index)], isCommit: false)
        return try await inner.parts(of: run, from: index, limit: limit)
    }

    private func check(_ keys: [Key], isCommit: Bool) throws(StorageError) {
        let error = state.withLock { $0.isDead ? .closed : $0.fault(keys, isCommit) }
        if let error { throw error }
    }

    func close() async {}
}
