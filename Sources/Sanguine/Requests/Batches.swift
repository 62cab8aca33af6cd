import Foundation
import SanguineModel
import Synchronization

/// The open batches of a client, and those in flight.
///
/// The shell around ``BatchState``. Each group contains the lookups that may be joined: of one
/// batch, one user, one address and one policy.
///
/// Mutable state: `guarded` and all groups in it, by its mutex, which is never held during an
/// `await` or a call to the app's code.
final class Batches: Sendable {
    fileprivate struct Key: Hashable {
        let name: String
        /// The user of the lookup, or the user who was signed in when it was made.
        let user: ObjectIdentifier
        let base: URL?
        let policy: Policy
    }

    private struct Guarded {
        var groups: [Key: BatchGroup] = [:]
        var lastNumber: UInt64 = 0  // Of both askers and batches.

        mutating func nextNumber() -> UInt64 {
            lastNumber += 1
            return lastNumber
        }
    }

    private let guarded = Mutex(Guarded())
    private let delay: any Clock<Duration>

    init(delay: any Clock<Duration>) { self.delay = delay }

    /// Looks up an id, together with others.
    ///
    /// The asker's own fetch is settled, because the batch's request has its own retries.
    ///
    /// - Throws: The batch's error, or the id's own.
    func value<ID, Value>(
        of id: ID,
        in batch: Batch<ID, Value>,
        _ policy: Policy,
        _ request: QueryRequest
    ) async throws(SanguineError) -> Value {
        request.fetchContext.settle()
        var shared = policy
        shared.priority = .normal  // Lookups may be joined across priorities.
        let key = Key(
            name: batch.name,
            user: ObjectIdentifier(request.backend.call.authorizer.bound()),
            base: request.base,
            policy: shared
        )
        let asker = guarded.withLock { $0.nextNumber() }
        let observer = request.priority.observe { [weak self] in
            self?.raise(asker, in: key, to: $0)
        }
        defer { request.priority.forget(observer) }
        let outcome: Result<Value, SanguineError> = await withWaiter { continuation in
            let look = LookUp(id: id, batch: batch, request: request, continuation: continuation)
            ask(look, as: asker, in: key)
            raise(asker, in: key, to: request.priority.current)
        } leave: { [self] in
            leave(asker, key)
        }
        return try outcome.get()
    }

    /// The number of waiting lookups of all batches.
    var askerCount: Int { guarded.withLock { $0.groups.values.reduce(0) { $0 + $1.askerCount } } }

    // MARK: - Events

    private struct LookUp<ID: QueryParameter, Value: Codable & Sendable & Equatable>: Sendable {
        let id: ID
        let batch: Batch<ID, Value>
        let request: QueryRequest
        let continuation: CheckedContinuation<Result<Value, SanguineError>, Never>
    }

    private func ask<ID, Value>(_ look: LookUp<ID, Value>, as asker: UInt64, in key: Key) {
        let ending = guarded.withLock { guarded -> (@Sendable () -> Void)? in
            let found = guarded.groups[key] ?? TypedBatchGroup<ID, Value>(size: look.batch.size)
            guard let group = found as? TypedBatchGroup<ID, Value> else { return nil }
            guarded.groups[key] = group
            let actions = group.state.ask(asker, for: look.id, nextBatch: guarded.nextNumber())
            group.waiters[asker] = look.continuation
            if let batch = actions.opened {
                let window = look.batch.window
                start(batch, of: group, in: key, look) { [weak self, delay] in
                    // A window that was interrupted has been closed elsewhere.
                    guard (try? await delay.sleep(for: window)) != nil else { return nil }
                    return self?.close(batch, of: group)
                }
            }
            guard let closed = actions.closed else { return {} }
            let waiting = group.batches[closed.batch]
            start(closed.batch, of: group, in: key, look, priority: waiting?.priority) {
                closed.ids
            }
            return { waiting?.task.cancel() }
        }
        guard let ending else {
            return look.continuation.resume(
                returning: .failure(.conflictingQuery(name: look.batch.name))
            )
        }
        ending()
    }

    private func close<ID, Value>(_ batch: UInt64, of group: TypedBatchGroup<ID, Value>) -> [ID]? {
        guarded.withLock { _ in group.state.windowEnded(batch).closed?.ids }
    }

    private func leave(_ asker: UInt64, _ key: Key) {
        let ending = guarded.withLock { guarded -> (@Sendable () -> Void)? in
            guard let group = guarded.groups[key] else { return nil }
            let ending = group.leave(asker)
            if group.isIdle { guarded.groups[key] = nil }
            return ending
        }
        ending?()
    }

    private func raise(_ asker: UInt64, in key: Key, to priority: FetchPriority) {
        guarded.withLock { $0.groups[key]?.priority(of: asker) }?.raise(to: priority)
    }

    // MARK: - Batches that are sent

    // Called under the lock. `ids` returns the ids to request, or `nil` if another task requests
    // them.
    private func start<ID, Value>(
        _ number: UInt64,
        of group: TypedBatchGroup<ID, Value>,
        in key: Key,
        _ look: LookUp<ID, Value>,
        priority: RequestPriority? = nil,
        ids: @escaping @Sendable () async -> [ID]?
    ) {
        let priority = priority ?? RequestPriority(look.request.priority.current)
        let (batch, request) = (look.batch, look.request)
        // Detached, because the request belongs to all askers and must not inherit a cancellation.
        let task = Task.detached(priority: Task.currentPriority) { [weak self] in
            guard let ids = await ids() else { return }
            let plan = FetchPlan(name: batch.name, policy: key.policy, base: key.base)
            let outcome = await request.attempts.fetch(
                plan,
                priority: priority
            ) { request in
                try await batch.fetch(request, ids)
            }
            self?.end(number, of: group, in: key, with: outcome)
        }
        group.batches[number] = RunningBatch(task: task, priority: priority)
    }

    private func end<ID, Value>(
        _ number: UInt64,
        of group: TypedBatchGroup<ID, Value>,
        in key: Key,
        with outcome: Result<[ID: Result<Value, SanguineError>], SanguineError>
    ) {
        let answers = guarded.withLock { guarded in
            group.batches[number] = nil
            let answers = group.state.ended(number).compactMap { asker, id in
                group.waiters.removeValue(forKey: asker).map { ($0, id) }
            }
            if group.isIdle, guarded.groups[key] === group { guarded.groups[key] = nil }
            return answers
        }
        for (waiter, id) in answers {
            switch outcome {
            case .success(let found): waiter.resume(returning: found[id] ?? .failure(.notFound))
            case .failure(let error): waiter.resume(returning: .failure(error))
            }
        }
    }
}

/// A batch that is open or in flight.
private struct RunningBatch {
    let task: Task<Void, Never>
    let priority: RequestPriority
}

/// Lookups that may be joined.
///
/// Guarded by the lock of ``Batches``: its members are used only while the lock is held.
// Unchecked: the compiler cannot see that the lock guards it.
private class BatchGroup: @unchecked Sendable {
    var isIdle: Bool { preconditionFailure("Every group is a TypedBatchGroup.") }
    var askerCount: Int { preconditionFailure("Every group is a TypedBatchGroup.") }

    /// Removes an asker; the result resumes it, and cancels a batch without askers.
    func leave(_ asker: UInt64) -> @Sendable () -> Void { {} }

    /// Returns the priority of the batch that the asker waits for.
    func priority(of asker: UInt64) -> RequestPriority? { nil }
}

/// A group with typed ids and values.
private final class TypedBatchGroup<
    ID: QueryParameter,
    Value: Codable & Sendable & Equatable
        // Unchecked for the same reason.
>: BatchGroup, @unchecked Sendable {
    var state: BatchState<ID>
    var waiters: [UInt64: CheckedContinuation<Result<Value, SanguineError>, Never>] = [:]
    var batches: [UInt64: RunningBatch] = [:]

    init(size: Int) { state = BatchState(size: size) }

    override var isIdle: Bool { state.isIdle }
    override var askerCount: Int { state.askerCount }

    override func leave(_ asker: UInt64) -> @Sendable () -> Void {
        let waiter = waiters.removeValue(forKey: asker)
        let cancelled = state.leave(asker).cancelled.flatMap { batches.removeValue(forKey: $0) }
        return {
            cancelled?.task.cancel()
            waiter?.resume(returning: .failure(.cancelled))
        }
    }

    override func priority(of asker: UInt64) -> RequestPriority? {
        state.batch(of: asker).flatMap { batches[$0]?.priority }
    }
}

extension SanguineError {
    /// The error of a lookup whose id is missing in the response.
    fileprivate static var notFound: SanguineError {
        .problem(
            Problem(.notFound, "The batch's response lacks this id. Remove it from the screen.")
        )
    }
}
