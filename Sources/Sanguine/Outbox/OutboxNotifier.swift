import Synchronization

/// Notifies observers that the outbox of any user may have changed.
///
/// Mutable state: `count`, protected by its mutex, so that all observers get the same changes.
final class OutboxNotifier: Sendable {
    private let count = Mutex<UInt64>(0)
    private let followers = Followers<UInt64>()
    private let applyNow: @Sendable () -> Void

    /// - Parameter applyNow: Called after each change without a lock, to update models at once.
    ///   Default: nothing.
    init(applyNow: @escaping @Sendable () -> Void = {}) { self.applyNow = applyNow }

    /// Notifies observers that something may have changed; called without a lock.
    func changed() {
        count.withLock { count in
            count += 1
            followers.notify(count)
        }
        applyNow()
    }

    /// An element at once and after each change; one element may stand for several changes.
    func stream() -> AsyncStream<UInt64> { count.withLock { followers.stream(from: $0) } }

    /// Calls the closure after each change, under a lock, until the result is released.
    func follow(_ tell: @escaping @Sendable () -> Void) -> ObservationToken {
        followers.follow { _ in tell() }
    }

    /// Finishes all streams.
    func finish() { followers.finish() }
}
