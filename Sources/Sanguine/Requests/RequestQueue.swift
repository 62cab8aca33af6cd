import Synchronization

/// Queues reads before they reach the network.
///
/// The shell around ``RequestQueueState``. Only reads are queued. Function calls, the renewal of a
/// session and the balance are not: nothing that the user pays for waits behind a prefetch.
///
/// Mutable state: `guarded`, protected by its mutex, which is never held during an `await` or a
/// call to other code. A class with a mutex instead of an actor, because a cancelled caller must
/// leave the queue at once.
final class RequestQueue: Sendable {
    private typealias Waiter = CheckedContinuation<Result<Void, SanguineError>, Never>

    /// A slot that a request holds until it releases it.
    struct Ticket: Sendable {
        fileprivate let queue: RequestQueue
        fileprivate let number: UInt64
        fileprivate let priority: RequestPriority
        fileprivate let observer: UInt64

        /// Releases the slot.
        func release() {
            priority.forget(observer)
            queue.apply { $0.leave(number) }
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

    /// Waits for a slot to the host.
    ///
    /// - Parameters:
    ///   - host: Scheme, name and port.
    ///   - priority: The priority of the request; raising it raises the request.
    /// - Returns: The slot, which must be released.
    /// - Throws: ``SanguineError/queueFull(limit:)`` if too many requests of at least this priority
    ///   wait, and ``SanguineError/cancelled``.
    func enter(
        _ host: String,
        _ priority: RequestPriority
    ) async throws(SanguineError) -> Ticket {
        // Another thread may enter first with a later number: the state sorts by number.
        let number = guarded.withLock { guarded in
            guarded.lastNumber += 1
            return guarded.lastNumber
        }
        let observer = priority.observe { [weak self] in self?.raise(number, to: $0) }
        let outcome: Result<Void, SanguineError> = await withWaiter { waiter in
            enter(number, host, priority.current, waiter)
            // The priority may have been raised just before the request was queued.
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

    /// Returns the number of waiting requests to the host.
    func waiting(for host: String) -> Int { guarded.withLock { $0.state.waiting(for: host) } }

    /// Returns the number of waiting requests to the host with this priority.
    func waiting(for host: String, of priority: FetchPriority) -> Int {
        guarded.withLock { $0.state.waiting(for: host, of: priority) }
    }

    /// The requests to one host at one moment.
    struct Load: Hashable, Sendable {
        let host: String
        let underWay: Int
        let waiting: [FetchPriority: Int]
    }

    /// The hosts with requests that wait or are in flight, in the order of their names.
    var loads: [Load] {
        guarded.withLock { guarded in
            let state = guarded.state
            return state.hostNames.sorted().map { host in
                let waiting = FetchPriority.allCases.map { ($0, state.waiting(for: host, of: $0)) }
                return Load(
                    host: host,
                    underWay: state.underWay(to: host),
                    waiting: Dictionary(uniqueKeysWithValues: waiting)
                )
            }
        }
    }

    /// Returns the number of requests to the host in flight.
    func underWay(to host: String) -> Int { guarded.withLock { $0.state.underWay(to: host) } }

    private func enter(
        _ number: UInt64,
        _ host: String,
        _ priority: FetchPriority,
        _ waiter: Waiter
    ) {
        apply(adding: waiter, as: number) {
            $0.enter(number, host: host, priority: priority)
        }
    }

    private func raise(_ number: UInt64, to priority: FetchPriority) {
        apply { $0.raise(number, to: priority) }
    }

    /// Removes a waiting request; one that has a slot is left to its ticket.
    private func giveUp(_ number: UInt64) {
        let waiter = guarded.withLock { $0.waiters.removeValue(forKey: number) }
        guard let waiter else { return }
        apply { $0.leave(number) }
        waiter.resume(returning: .failure(.cancelled))
    }

    /// Applies an event, and performs the resulting actions.
    private func apply(
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
