import SanguineAuthority
import SanguineModel
import SanguineTesting
import Synchronization
import TestSupport

/// A storage in memory that fails on demand and counts its sweeps and checks.
final class FaultyStorage: StorageDecorator {
    typealias Fault = @Sendable (_ keys: [Key]) -> StorageError?

    let inner = MemoryStorage()

    private struct State {
        var fault: Fault
        var sweeps = 0
        var sweepResult: Int?
        var healthChecks = 0
        var healthFailure: StorageError?
        var healthGate: WatchedState<Bool>?
    }
    private let state: Mutex<State>
    let freeBytes: Int64?

    /// Fails every access to keys for which the closure returns an error.
    init(freeBytes: Int64? = nil, _ fault: @escaping Fault = { _ in nil }) {
        state = Mutex(State(fault: fault))
        self.freeBytes = freeBytes
    }

    convenience init(_ failure: StorageError) { self.init { _ in failure } }

    func fail(_ fault: @escaping Fault) { state.withLock { $0.fault = fault } }

    /// The number of sweeps.
    var sweeps: Int { state.withLock { $0.sweeps } }

    /// Reports the given number of dropped rows for later sweeps, or the actual one for `nil`.
    func claimToSweep(_ rows: Int?) { state.withLock { $0.sweepResult = rows } }

    /// The number of health checks.
    var healthChecks: Int { state.withLock { $0.healthChecks } }

    /// Fails only the health checks.
    func failHealth(_ failure: StorageError) { state.withLock { $0.healthFailure = failure } }

    /// Delays health checks until the gate is open.
    func holdHealth(until gate: WatchedState<Bool>) { state.withLock { $0.healthGate = gate } }

    func checkHealth() async throws(StorageError) {
        let (failure, gate) = state.withLock { state in
            state.healthChecks += 1
            return (state.healthFailure, state.healthGate)
        }
        try? await gate?.wait(for: "the health check's gate") { $0 }
        if let failure { throw failure }
        try await inner.checkHealth()
    }

    private func check(_ keys: [Key]) throws(StorageError) {
        if let failure = state.withLock({ $0.fault })(keys) { throw failure }
    }

    func perform<Outcome>(
        _ command: Command<Outcome>
    ) async throws(StorageError) -> Result<Outcome, Problem> {
        try check(command.keys)
        return try await inner.perform(command)
    }

    func owned(_ ids: [BlobID]) async throws(StorageError) -> Set<BlobID> {
        try check([])
        return try await inner.owned(ids)
    }

    func files(_ query: FilesQuery) async throws(StorageError) -> [BlobRow] {
        try check([])
        return try await inner.files(query)
    }

    func load(_ keys: [Key]) async throws(StorageError) -> Loaded {
        try check(keys)
        return try await inner.load(keys)
    }

    func feed(_ query: FeedQuery) async throws(StorageError) -> FeedSlice {
        try check(query.keys)
        return try await inner.feed(query)
    }

    func records(_ query: RecordQuery) async throws(StorageError) -> RecordList {
        try check([])
        return try await inner.records(query)
    }

    func sweep(_ horizon: SweepHorizon, limit: Int) async throws(StorageError) -> Int {
        let dropped = try await inner.sweep(horizon, limit: limit)
        return state.withLock { state in
            state.sweeps += 1
            return state.sweepResult ?? dropped
        }
    }
}
