import Synchronization

/// Events for an app's analytics: steps in the life of the account, and reads of the balance.
///
/// ```swift
/// for await event in client.analytics.events() { track(event) }
/// ```
///
/// An event contains nothing personal: no id, no address, no amount. Each stream keeps at most
/// ``MetricsLimits/waitingEvents`` events; a slow reader loses the oldest.
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

    private let streams = EventStreams<Event>()

    init() {}

    /// Returns a stream of later events, which ends with its reader's task.
    public func events() -> AsyncStream<Event> { streams.stream() }

    /// Delivers an event to all streams.
    func post(_ event: Event) { streams.post(event) }
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
