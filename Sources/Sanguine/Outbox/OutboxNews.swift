import Synchronization

/// Says that what an outbox has may have changed, whosever it is.
///
/// Mutable state: `count`, by its mutex, so that all hear of the same changes.
final class OutboxNews: Sendable {
    private let count = Mutex<UInt64>(0)
    private let followers = Followers<UInt64>()

    /// Something may have changed.
    func changed() {
        count.withLock { count in
            count += 1
            followers.tell(count)
        }
    }

    /// An element at once and after each change; one stands for all that were missed.
    func stream() -> AsyncStream<UInt64> { count.withLock { followers.stream(from: $0) } }

    /// Ends all streams.
    func finish() { followers.finish() }
}
