import SanguineModel
import SanguineTesting
import TestSupport

@testable import SanguineAuthority

/// A process's access to a storage that outlives it; counts commits, and can fail or crash.
///
/// Mutable state: `state`, guarded by its lock.
final class MortalStorage: StorageDecorator {
    /// Returns the error of an access, given its keys.
    typealias Fault = @Sendable (_ keys: [Key], _ isCommit: Bool) -> StorageError?

    struct State: Sendable {
        var fault: Fault = { _, _ in nil }
        /// Waits before a command is performed.
        var delay: @Sendable (_ keys: [Key]) async -> Void = { _ in }
        /// Returns the error to report after a command was performed, instead of its outcome.
        var afterwards: @Sendable (_ isCommit: Bool) -> StorageError? = { _ in nil }
        var isDead = false
        /// The number of commands with changes.
        var commits = 0
        /// The rows of parts that were stored, in order.
        var parts: [PartsRow] = []
        var reads = 0
    }

    let inner: MemoryStorage
    let state = WatchedState(State())

    init(over inner: MemoryStorage = MemoryStorage()) { self.inner = inner }

    var commits: Int { state.value.commits }

    func fail(_ fault: @escaping Fault) { state.withLock { $0.fault = fault } }

    /// Cuts this process off from the storage.
    func die() { state.withLock { $0.isDead = true } }

    func perform<Outcome>(
        _ command: Command<Outcome>
    ) async throws(StorageError) -> Result<Outcome, Problem> {
        let delay = state.value.delay
        await delay(command.keys)
        try check(command.keys, isCommit: true)
        // Returns the decision as well, so that its changes are visible.
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
