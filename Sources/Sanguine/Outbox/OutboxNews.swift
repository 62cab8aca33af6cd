import Synchronization

/// Says that what an outbox has may have changed, whosever it is.
///
/// Mutable state: `count`, by its mutex, so that all hear of the same changes.
final class OutboxNews: Sendable {
    private let count = Mutex<UInt64>(0)
    private let followers = Followers<UInt64>()
    private let applyNow: @Sendable () -> Void

    /// - Parameter applyNow: Is called after each change, under no lock: has models follow at once.
    ///   Default: nothing.
    init(applyNow: @escaping @Sendable () -> Void = {}) { self.applyNow = applyNow }

    /// Something may have changed; called under no lock.
    func changed() {
        count.withLock { count in
            count += 1
            followers.tell(count)
        }
        applyNow()
    }

    /// An element at once and after each change; one stands for all that were missed.
    func stream() -> AsyncStream<UInt64> { count.withLock { followers.stream(from: $0) } }

    /// Calls the closure after each change, under a lock, until the result is released.
    func follow(_ tell: @escaping @Sendable () -> Void) -> ObservationToken {
        followers.follow { _ in tell() }
    }

    /// Ends all streams.
    func finish() { followers.finish() }
}
