import Synchronization

/// The line-up of reads before the network.
///
/// The shell around ``RequestQueueState``. Only reads stand here. Calls of functions, the renewal
/// of a session and the balance never do: nothing that the user pays for waits behind a prefetch.
///
/// Mutable state: `guarded`, by its mutex, which is never held over an `await` or over code from
/// outside. A class with a mutex and not an actor, because a caller who is cancelled must be out of
/// the line at once.
final class RequestQueue: Sendable {
    private typealias Waiter = CheckedContinuation<Result<Void, SanguineError>, Never>

    /// A lane that a request has until it gives it back.
    struct Ticket: Sendable {
        fileprivate let queue: RequestQueue
        fileprivate let number: UInt64
        fileprivate let priority: RequestPriority
        fileprivate let observer: UInt64

        /// Gives the lane back.
        func release() {
            priority.forget(observer)
            queue.change { $0.leave(number) }
        }
    }

    private struct Guarded {
        var state: RequestQueueState
        var waiters: [UInt64: Waiter] = [:]
        var lastNumber: UInt64 = 0
    }

    private let guarded: Mutex<Guarded>

    init(limits: RequestQueueState.Limits = .init()) {
        guarded = Mutex(Guarded(state: RequestQueueState(limits: limits)))
    }

    /// Waits for a lane to the host.
    ///
    /// - Parameters:
    ///   - host: Scheme, name and port.
    ///   - priority: How much the request matters; what raises it raises the request.
    /// - Returns: The lane, to be released.
    /// - Throws: ``SanguineError/queueFull(limit:)`` if too many wait that matter as much, and
    ///   ``SanguineError/cancelled``.
    func enter(
        _ host: String,
        _ priority: RequestPriority
    ) async throws(SanguineError) -> Ticket {
        // Another thread may enter with a later number first: the state sorts by it.
        let number = guarded.withLock { guarded in
            guarded.lastNumber += 1
            return guarded.lastNumber
        }
        let observer = priority.observe { [weak self] in self?.raise(number, to: $0) }
        let outcome: Result<Void, SanguineError> = await withWaiter { waiter in
            enter(number, host, priority.current, waiter)
            // It may have been raised just before it stood in the line.
            raise(number, to: priority.current)
        } leave: { [self] in
            giveUp(number)
        }
        do throws(SanguineError) {
            try outcome.get()
        } catch {
            priority.forget(observer)
            throw error
        }
        return Ticket(queue: self, number: number, priority: priority, observer: observer)
    }

    /// How many requests to the host wait.
    func waiting(for host: String) -> Int { guarded.withLock { $0.state.waiting(for: host) } }

    /// How many requests to the host wait that have this priority.
    func waiting(for host: String, of priority: FetchPriority) -> Int {
        guarded.withLock { $0.state.waiting(for: host, of: priority) }
    }

    /// How many requests to the host are under way.
    func underWay(to host: String) -> Int { guarded.withLock { $0.state.underWay(to: host) } }

    private func enter(
        _ number: UInt64,
        _ host: String,
        _ priority: FetchPriority,
        _ waiter: Waiter
    ) {
        change(adding: waiter, as: number) {
            $0.enter(number, host: host, priority: priority)
        }
    }

    private func raise(_ number: UInt64, to priority: FetchPriority) {
        change { $0.raise(number, to: priority) }
    }

    /// Takes a request out of the line; one that goes already is its ticket's business.
    private func giveUp(_ number: UInt64) {
        let waiter = guarded.withLock { $0.waiters.removeValue(forKey: number) }
        guard let waiter else { return }
        change { $0.leave(number) }
        waiter.resume(returning: .failure(.cancelled))
    }

    /// Plays one event, and does what the state then asks for.
    private func change(
        adding waiter: Waiter? = nil,
        as number: UInt64 = 0,
        _ event: (inout RequestQueueState) -> RequestQueueState.Actions
    ) {
        let (granted, refused, limit) = guarded.withLock { guarded in
            if let waiter { guarded.waiters[number] = waiter }
            let actions = event(&guarded.state)
            let granted = actions.granted.compactMap { guarded.waiters.removeValue(forKey: $0) }
            let refused = actions.refused.flatMap { guarded.waiters.removeValue(forKey: $0) }
            return (granted, refused, guarded.state.limits.waiting)
        }
        for waiter in granted { waiter.resume(returning: .success(())) }
        refused?.resume(returning: .failure(.queueFull(limit: limit)))
    }
}
