import Synchronization

/// Has those told that fetch what is observed: by a timer, at midnight, or through the feed.
///
/// Mutable state: `hooks`, by its mutex, held over nothing.
final class ObservationHooks: Sendable {
    /// Is told when an entry that is polled or follows the user's days is observed, and when it no
    /// longer is.
    typealias Followed = @Sendable (QueryKey, Policy, _ isObserved: Bool) -> Void

    private struct Hooks {
        var followed: Followed?
        var carried: (@Sendable () -> Void)?
    }

    private let hooks = Mutex(Hooks())
    /// How often what is observed is fetched, if its policy says nothing of it.
    private let polling: [QueryKey: Duration]

    init(polling: [QueryKey: Duration]) { self.polling = polling }

    /// Has the hook told which entries are observed that are polled or follow the days.
    func onFollowed(_ hook: @escaping Followed) { hooks.withLock { $0.followed = hook } }

    /// Has the hook told when somebody observes what the feed carries.
    func onCarried(_ hook: @escaping @Sendable () -> Void) {
        hooks.withLock { $0.carried = hook }
    }

    /// Has the hooks told what is new of an entry, as observers are told.
    ///
    /// Two queries of one key may have different policies; the one used last counts.
    ///
    /// - Parameters:
    ///   - entry: The entry.
    ///   - isNew: Whether the first one observes it now, or the last one no longer does.
    ///   - deliveries: What observers are to be told.
    func note(_ entry: Entry, isNew: Bool, in deliveries: inout DeliveryQueue) {
        let isObserved = entry.state.isObserved
        if isNew, isObserved, FeedCarrier.keys.contains(entry.key) {
            deliveries.append { [self] in hooks.withLock { $0.carried }?() }
        }
        guard isObserved || entry.toldPolicy != nil else { return }
        var policy = entry.policy
        policy.polling = policy.polling ?? polling[entry.key]
        let isFollowed = isObserved && (policy.polling != nil || policy.followsDays)
        let (old, next) = (entry.toldPolicy, isFollowed ? policy : nil)
        guard next?.polling != old?.polling || next?.followsDays != old?.followsDays else { return }
        entry.toldPolicy = next
        deliveries.append { [self, key = entry.key] in
            let hook = hooks.withLock { $0.followed }
            if let old { hook?(key, old, false) }
            if let next { hook?(key, next, true) }
        }
    }
}
