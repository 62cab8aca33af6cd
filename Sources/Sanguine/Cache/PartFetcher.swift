import SanguineModel
import Synchronization

/// Decides how the value of an entry is fetched in parts: the pages of a list, or the subranges of
/// a range.
///
/// Pure: each method records one event and returns what ``PartFetcher`` must now do.
protocol PartFetchState: Sendable {
    associatedtype Request: PartRequest

    /// Removes a caller that gave up; the last one cancels the requests that nothing else needs.
    mutating func leave(waiter: UInt64) -> PartFetchActions<Request>

    /// Forgets everything and ends all requests: the user has changed, or the client is closed.
    mutating func reset(_ error: SanguineError) -> PartFetchActions<Request>
}

/// A request for one part.
protocol PartRequest: Sendable {
    /// Its number, which identifies its response and its cancellation.
    var number: UInt64 { get }
    /// Its priority when it is sent.
    var priority: FetchPriority { get }
}

/// The actions that the owner of a ``PartFetchState`` must perform, in this order.
struct PartFetchActions<Request: PartRequest>: Sendable {
    /// The requests to cancel.
    var cancel: [UInt64] = []
    /// The requests in progress that a caller now needs more urgently.
    var raise: [(number: UInt64, priority: FetchPriority)] = []
    /// The requests to send.
    var start: [Request] = []
    /// Whether the base has changed, or what is known about it, apart from the requests.
    var hasNewBase = false
    /// The waiters to answer, with the error, or with `nil` for success.
    var answer: [(waiter: UInt64, error: SanguineError?)] = []

    /// Whether the change is visible to observers.
    fileprivate var isVisible: Bool { hasNewBase || !cancel.isEmpty || !start.isEmpty }
}

/// Executes the decisions of a ``PartFetchState``: sends its requests, suspends its callers, and
/// notifies the observers of the cache's entry.
///
/// Invariants:
///
/// 1. Every waiter is answered once: by an event, its own cancellation, a change of the user or the
///    closing of the client. Observers are notified first, so that a model on the main actor shows
///    the result when a caller there resumes.
/// 2. After ``switchUser(to:device:)`` the state has no data of the previous user.
///
/// Mutable state: `guarded`, protected by its mutex, which is never held during an `await`, a call
/// to the cache or the app's code, and may be taken inside the cache's lock; and `runner`, by its
/// own, set once.
final class PartFetcher<State: PartFetchState>: Sendable {
    typealias Actions = PartFetchActions<State.Request>
    typealias Waiter = CheckedContinuation<SanguineError?, Never>
    /// Runs one request to its end.
    typealias RequestRunner = @Sendable (State.Request, RequestPriority, CacheScope) async -> Void

    private struct RunningRequest {
        let task: Task<Void, Never>
        let priority: RequestPriority
    }

    private struct Guarded {
        var state: State
        /// The cache scope of these parts.
        var cacheScope: CacheScope
        var requests: [UInt64: RunningRequest] = [:]
        var waiters: [UInt64: Waiter] = [:]
        var lastWaiter: UInt64 = 0
        /// Rises whenever the base changes: earlier reads may be outdated.
        var revision: UInt64 = 0
        var isClosed = false
    }

    let queries: QueryCache
    private let key: QueryKey
    private let audience: Policy.Audience
    private let guarded: Mutex<Guarded>
    private let runner = Mutex<RequestRunner?>(nil)

    init(_ state: State, of key: QueryKey, _ policy: Policy, in queries: QueryCache) {
        self.queries = queries
        self.key = key
        audience = policy.audience
        guarded = Mutex(Guarded(state: state, cacheScope: queries.entries.cacheScope(of: policy)))
    }

    /// Sets the closure that runs requests; called once, before the first.
    func onStart(_ runner: @escaping RequestRunner) { self.runner.withLock { $0 = runner } }

    /// The cache scope of these parts.
    var cacheScope: CacheScope { guarded.withLock { $0.cacheScope } }

    /// Reads or changes state without notifying observers.
    func withState<Value: Sendable>(_ body: (inout State) -> Value) -> Value {
        guarded.withLock { body(&$0.state) }
    }

    // MARK: - Events

    /// Applies one event, and executes the resulting actions.
    ///
    /// - Parameters:
    ///   - cacheScope: The cache scope of the event; nothing happens if it is not the current one.
    ///     Default: any.
    ///   - event: Applies the event; returns `nil` if nothing has changed.
    /// - Returns: Whether something has changed: never after the closing.
    @discardableResult
    func apply(for cacheScope: CacheScope? = nil, _ event: (inout State) -> Actions?) -> Bool {
        let ending = ending(for: cacheScope, event)
        ending?()
        return ending != nil
    }

    /// Like ``apply(for:_:)``, but for a caller that holds the cache's lock.
    ///
    /// - Returns: Work that the caller must do with no lock held; `nil` if nothing has changed.
    func ending(for cacheScope: CacheScope? = nil, _ event: (inout State) -> Actions?) -> Delivery?
    {
        ending { guarded in
            guard cacheScope == nil || guarded.cacheScope === cacheScope else { return nil }
            return event(&guarded.state)
        }
    }

    /// Applies an event with a plan that is made with no lock held, and makes a new plan if the
    /// base has changed since.
    ///
    /// - Parameters:
    ///   - cacheScope: As in ``apply(for:_:)``.
    ///   - prepare: Plans the change from the state; returns `nil` to do nothing. It may run the
    ///     app's code.
    ///   - event: Applies the event.
    /// - Returns: Whether something has changed.
    @discardableResult
    func transact<Plan: Sendable>(
        for cacheScope: CacheScope? = nil,
        _ prepare: (State) -> Plan?,
        event: (inout State, Plan) -> Actions?
    ) -> Bool {
        attempt(prepare) { guarded, plan in
            guard cacheScope == nil || guarded.cacheScope === cacheScope else { return nil }
            return event(&guarded.state, plan)
        }
    }

    /// Returns a number for a caller, or for an observer, which is never answered.
    func newWaiter() -> UInt64 {
        guarded.withLock { guarded in
            guarded.lastWaiter += 1
            return guarded.lastWaiter
        }
    }

    /// Waits until the state answers the caller.
    ///
    /// - Parameters:
    ///   - prepare: As in ``transact(for:_:event:)``.
    ///   - join: Adds the caller to the state, under its number.
    /// - Throws: The error with which the state answers; ``SanguineError/cancelled`` if the task is
    ///   cancelled, and ``SanguineError/closed`` if the client is closed.
    func wait<Plan: Sendable>(
        _ prepare: (State) -> Plan,
        join: (inout State, Plan, _ waiter: UInt64) -> Actions
    ) async throws(SanguineError) {
        guard !Task.isCancelled else { throw .cancelled }
        let waiter = newWaiter()
        let error: SanguineError? = await withWaiter { continuation in
            let hasJoined = attempt(prepare) { guarded, plan in
                guarded.waiters[waiter] = continuation
                return join(&guarded.state, plan, waiter)
            }
            if !hasJoined { continuation.resume(returning: .closed) }
        } leave: { [self] in
            apply { $0.leave(waiter: waiter) }
        }
        if let error { throw error }
    }

    // MARK: - Life

    /// Switches to another user or to none.
    ///
    /// - Parameters:
    ///   - user: The other user's cache scope.
    ///   - device: The device's new cache scope; `nil` if it stays.
    /// - Returns: Work that the caller must do with no lock held.
    func switchUser(to user: CacheScope, device: CacheScope?) -> Delivery {
        let ending = guarded.withLock { guarded -> Delivery? in
            guard let next = audience == .user ? user : device, guarded.cacheScope !== next
            else { return nil }
            guarded.cacheScope = next
            guarded.revision += 1
            return perform(guarded.state.reset(.userChanged), in: &guarded)
        }
        return ending ?? {}
    }

    /// Whether a part is being fetched.
    var isUnderWay: Bool { guarded.withLock { !$0.requests.isEmpty } }

    /// Ends all requests.
    func close() {
        let ending = guarded.withLock { guarded in
            guarded.isClosed = true
            return perform(guarded.state.reset(.closed), in: &guarded)
        }
        ending()
    }

    // MARK: - Machinery

    private func attempt<Plan: Sendable>(
        _ prepare: (State) -> Plan?,
        _ event: (inout Guarded, Plan) -> Actions?
    ) -> Bool {
        // A separate function: a copy of the state that stayed alive would make the next change
        // copy all rows.
        func prepared() -> (plan: Plan, revision: UInt64)? {
            let (state, revision) = guarded.withLock { ($0.state, $0.revision) }
            return prepare(state).map { ($0, revision) }
        }
        while let (plan, revision) = prepared() {
            var isOutdated = false
            let ending = ending { guarded in
                isOutdated = guarded.revision != revision
                return isOutdated ? nil : event(&guarded, plan)
            }
            ending?()
            if !isOutdated { return ending != nil }
        }
        return false
    }

    private func ending(_ event: (inout Guarded) -> Actions?) -> Delivery? {
        guarded.withLock { guarded in
            guard !guarded.isClosed, let actions = event(&guarded) else { return nil }
            return perform(actions, in: &guarded)
        }
    }

    // Called under the lock; the result must be called after the lock is released.
    private func perform(_ actions: Actions, in guarded: inout Guarded) -> Delivery {
        if actions.hasNewBase { guarded.revision += 1 }
        let cancelled = actions.cancel.compactMap { guarded.requests.removeValue(forKey: $0)?.task }
        let raised = actions.raise.compactMap { raise in
            guarded.requests[raise.number].map { ($0.priority, raise.priority) }
        }
        for request in actions.start {
            guarded.requests[request.number] = launch(request, guarded.cacheScope)
        }
        let answers = actions.answer.compactMap { answer in
            guarded.waiters.removeValue(forKey: answer.waiter).map { ($0, answer.error) }
        }
        let isVisible = actions.isVisible
        return { [queries, key] in
            for task in cancelled { task.cancel() }
            for (request, priority) in raised { request.raise(to: priority) }
            let answer: Delivery = {
                for (waiter, error) in answers { waiter.resume(returning: error) }
            }
            if isVisible || !answers.isEmpty {
                queries.entries.notifyObservers(of: key, then: answer)
            }
        }
    }

    private func launch(_ request: State.Request, _ cacheScope: CacheScope) -> RunningRequest {
        let priority = RequestPriority(request.priority)
        // Detached: a request belongs to all its callers, so no caller's cancellation may end it.
        let task = Task.detached(priority: Task.currentPriority) { [weak self] in
            let runner = self?.runner.withLock { $0 }
            await runner?(request, priority, cacheScope)
            self?.guarded.withLock { $0.requests[request.number] = nil }
        }
        return RunningRequest(task: task, priority: priority)
    }
}
