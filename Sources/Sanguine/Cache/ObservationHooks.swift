import Synchronization

/// Notifies the components that fetch observed entries: by timer, at midnight, or through the feed.
///
/// Mutable state: `hooks`, protected by its mutex, which is never held during a call.
final class ObservationHooks: Sendable {
    /// Called when an entry that is polled or follows the user's days is first observed, and when
    /// it is no longer observed.
    typealias Followed = @Sendable (QueryKey, Policy, _ isObserved: Bool) -> Void

    private struct Hooks {
        var followed: Followed?
        var carried: (@Sendable () -> Void)?
    }

    private let hooks = Mutex(Hooks())
    /// The polling interval of entries whose policy sets none.
    private let polling: [QueryKey: Duration]

    init(polling: [QueryKey: Duration]) { self.polling = polling }

    /// Sets the hook for observed entries that are polled or follow the user's days.
    func onFollowed(_ hook: @escaping Followed) { hooks.withLock { $0.followed = hook } }

    /// Sets the hook for the first observation of an entry that the feed carries, or whose changes
    /// it announces.
    func onCarried(_ hook: @escaping @Sendable () -> Void) {
        hooks.withLock { $0.carried = hook }
    }

    /// Queues notifications of the hooks about an entry, in order with those of its observers.
    ///
    /// Queries of one key may have different policies; the last one used counts.
    ///
    /// - Parameters:
    ///   - entry: The entry.
    ///   - isNew: Whether the first observer has come or the last one has gone.
    ///   - deliveries: The notifications for observers.
    func queueNotifications(_ entry: Entry, isNew: Bool, in deliveries: inout DeliveryQueue) {
        let isObserved = entry.state.isObserved
        if isNew, isObserved,
            FeedCacheUpdater.keys.contains(entry.key)
                || !PublishedRecords.collections(of: entry.policy).isEmpty
        {
            deliveries.append { [self] in hooks.withLock { $0.carried }?() }
        }
        guard isObserved || entry.reportedPolicy != nil else { return }
        var policy = entry.policy
        policy.polling = policy.polling ?? polling[entry.key]
        let isFollowed = isObserved && (policy.polling != nil || policy.followsDays)
        let (old, next) = (entry.reportedPolicy, isFollowed ? policy : nil)
        guard next?.polling != old?.polling || next?.followsDays != old?.followsDays else { return }
        entry.reportedPolicy = next
        deliveries.append { [self, key = entry.key] in
            let hook = hooks.withLock { $0.followed }
            if let old { hook?(key, old, false) }
            if let next { hook?(key, next, true) }
        }
    }
}
