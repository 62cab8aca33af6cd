import Synchronization

/// Events for an app's analytics: steps in the life of the account, and reads of the balance.
///
/// ```swift
/// for await event in client.analytics.events() { track(event) }
/// ```
///
/// An event contains nothing personal: no id, no address, no amount. Each stream keeps at most
/// ``MetricsLimits/waitingEvents`` events; a slow reader loses the oldest.
///
/// Mutable state: the streams, guarded by their mutex, which may be taken under any other lock.
public final class ClientAnalytics: Sendable {
    /// An event.
    public enum Event: Hashable, Sendable {
        /// The server created a guest for this device.
        case guestCreated
        /// The guest became a registered account.
        case upgraded
        /// The guest was merged into another account.
        case merged
        /// A call or an operation was refused, because the quota of the period is used up.
        case quotaExhausted
        /// A purchase was credited.
        case purchased
        /// The balance was read: at once if it is a hit, otherwise after a fetch.
        case balanceRead(isHit: Bool)
        /// The server's balance differed from the shown one after all charges of this device had
        /// settled, because of another device or a fault.
        case balanceMismatch
    }

    private struct Guarded {
        var streams: [Int: AsyncStream<Event>.Continuation] = [:]
        var last = 0
    }

    private let guarded = Mutex(Guarded())

    init() {}

    /// Returns a stream of later events, which ends with its reader's task.
    public func events() -> AsyncStream<Event> {
        let (stream, sink) = AsyncStream.makeStream(
            of: Event.self,
            bufferingPolicy: .bufferingNewest(MetricsLimits.waitingEvents)
        )
        let number = guarded.withLock { guarded in
            guarded.last += 1
            guarded.streams[guarded.last] = sink
            return guarded.last
        }
        sink.onTermination = { [weak self] _ in
            _ = self?.guarded.withLock { $0.streams.removeValue(forKey: number) }
        }
        return stream
    }

    /// Delivers an event to all streams.
    func post(_ event: Event) {
        let sinks = guarded.withLock { Array($0.streams.values) }
        for sink in sinks { sink.yield(event) }
    }

    deinit {
        for sink in guarded.withLock({ Array($0.streams.values) }) { sink.finish() }
    }
}

/// Counts the outcomes of the outbox's operations.
///
/// Mutable state: the counters, which are atomic.
final class OutboxCounters: Sendable {
    private let performed = Atomic(0)
    private let refused = Atomic(0)

    func count(performed: Int, refused: Int) {
        self.performed.wrappingAdd(performed, ordering: .relaxed)
        self.refused.wrappingAdd(refused, ordering: .relaxed)
    }

    /// The current numbers.
    var outcomes: MetricsSummary.Outcomes {
        MetricsSummary.Outcomes(
            performed: performed.load(ordering: .relaxed),
            refused: refused.load(ordering: .relaxed)
        )
    }

    /// Resets the numbers to 0.
    func reset() {
        performed.store(0, ordering: .relaxed)
        refused.store(0, ordering: .relaxed)
    }
}
