import Foundation
import SanguineModel
import Synchronization

/// The batches of a client that are open or under way.
///
/// The shell around ``BatchState``. One group holds what may travel together: look-ups of one
/// batch, by one user, at one address, under one policy.
///
/// Mutable state: `guarded` and all groups in it, by its mutex, which is never held over an `await`
/// or over the app's code.
final class Batches: Sendable {
    fileprivate struct Key: Hashable {
        let name: String
        /// Whose look-up it is, or during whose presence it was made.
        let user: ObjectIdentifier
        let base: URL?
        let policy: Policy
    }

    private struct Guarded {
        var groups: [Key: BatchGroup] = [:]
        var lastNumber: UInt64 = 0  // Of askers and batches alike.

        mutating func nextNumber() -> UInt64 {
            lastNumber += 1
            return lastNumber
        }
    }

    private let guarded = Mutex(Guarded())
    private let delay: any Clock<Duration>

    init(delay: any Clock<Duration>) { self.delay = delay }

    /// Looks an id up, together with others.
    ///
    /// The flight of the one who asks is settled: the batch's request has its own attempts.
    ///
    /// - Throws: The batch's error, or the id's own.
    func value<ID, Value>(
        of id: ID,
        in batch: Batch<ID, Value>,
        _ policy: Policy,
        _ request: QueryRequest
    ) async throws(SanguineError) -> Value {
        request.flight.settle()
        var shared = policy
        shared.priority = .normal  // What differs in priority alone travels together.
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
            let look = Look(id: id, batch: batch, request: request, continuation: continuation)
            ask(look, as: asker, in: key)
            raise(asker, in: key, to: request.priority.current)
        } leave: { [self] in
            leave(asker, key)
        }
        return try outcome.get()
    }

    /// How many look-ups wait, of all batches.
    var askerCount: Int { guarded.withLock { $0.groups.values.reduce(0) { $0 + $1.askerCount } } }

    // MARK: - Events

    private struct Look<ID: QueryParameter, Value: Codable & Sendable & Equatable>: Sendable {
        let id: ID
        let batch: Batch<ID, Value>
        let request: QueryRequest
        let continuation: CheckedContinuation<Result<Value, SanguineError>, Never>
    }

    private func ask<ID, Value>(_ look: Look<ID, Value>, as asker: UInt64, in key: Key) {
        let ending = guarded.withLock { guarded -> (@Sendable () -> Void)? in
            let found = guarded.groups[key] ?? TypedBatchGroup<ID, Value>(size: look.batch.size)
            guard let group = found as? TypedBatchGroup<ID, Value> else { return nil }
            guarded.groups[key] = group
            let actions = group.state.ask(asker, for: look.id, nextBatch: guarded.nextNumber())
            group.waiters[asker] = look.continuation
            if let batch = actions.opened {
                let window = look.batch.window
                start(batch, of: group, in: key, look) { [weak self, delay] in
                    // A window that is cut short was closed by somebody else.
                    guard (try? await delay.sleep(for: window)) != nil else { return nil }
                    return self?.close(batch, of: group)
                }
            }
            guard let closed = actions.closed else { return {} }
            let waiting = group.flights[closed.batch]
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

    // MARK: - Flights

    // Under the lock. `ids` says what to ask for, or `nil` if another task does.
    private func start<ID, Value>(
        _ number: UInt64,
        of group: TypedBatchGroup<ID, Value>,
        in key: Key,
        _ look: Look<ID, Value>,
        priority: RequestPriority? = nil,
        ids: @escaping @Sendable () async -> [ID]?
    ) {
        let priority = priority ?? RequestPriority(look.request.priority.current)
        let (batch, request) = (look.batch, look.request)
        // Detached: the flight belongs to all who ask, so it has the cancellation of none.
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
        group.flights[number] = BatchFlight(task: task, priority: priority)
    }

    private func end<ID, Value>(
        _ number: UInt64,
        of group: TypedBatchGroup<ID, Value>,
        in key: Key,
        with outcome: Result<[ID: Result<Value, SanguineError>], SanguineError>
    ) {
        let answers = guarded.withLock { guarded in
            group.flights[number] = nil
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

/// A batch that is open or under way.
private struct BatchFlight {
    let task: Task<Void, Never>
    let priority: RequestPriority
}

/// Look-ups that may travel together.
///
/// Guarded by the lock of ``Batches``: everything in here is touched only while it is held.
// Unchecked: the compiler cannot see that the lock guards it.
private class BatchGroup: @unchecked Sendable {
    var isIdle: Bool { preconditionFailure("A group is always a typed one.") }
    var askerCount: Int { preconditionFailure("A group is always a typed one.") }

    /// Takes an asker out; the result answers them, and cancels what nobody wants any more.
    func leave(_ asker: UInt64) -> @Sendable () -> Void { {} }

    /// The priority of the batch that the asker waits for.
    func priority(of asker: UInt64) -> RequestPriority? { nil }
}

/// A group whose ids and values have types.
private final class TypedBatchGroup<
    ID: QueryParameter,
    Value: Codable & Sendable & Equatable
        // Unchecked for the reason above.
>: BatchGroup, @unchecked Sendable {
    var state: BatchState<ID>
    var waiters: [UInt64: CheckedContinuation<Result<Value, SanguineError>, Never>] = [:]
    var flights: [UInt64: BatchFlight] = [:]

    init(size: Int) { state = BatchState(size: size) }

    override var isIdle: Bool { state.isIdle }
    override var askerCount: Int { state.askerCount }

    override func leave(_ asker: UInt64) -> @Sendable () -> Void {
        let waiter = waiters.removeValue(forKey: asker)
        let cancelled = state.leave(asker).cancelled.flatMap { flights.removeValue(forKey: $0) }
        return {
            cancelled?.task.cancel()
            waiter?.resume(returning: .failure(.cancelled))
        }
    }

    override func priority(of asker: UInt64) -> RequestPriority? {
        state.batch(of: asker).flatMap { flights[$0]?.priority }
    }
}

extension SanguineError {
    /// What a look-up gets whose id the answer does not contain.
    fileprivate static var notFound: SanguineError {
        .problem(
            Problem(.notFound, "The batch's answer does not contain it: take it off the screen.")
        )
    }
}
