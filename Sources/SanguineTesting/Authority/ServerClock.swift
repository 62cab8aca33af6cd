import SanguineModel
import Synchronization

/// The clock of an ``InMemoryAuthority``: the test's clock, plus the time by which the server is
/// ahead of it.
///
/// Mutable state: `lead`, guarded by its mutex.
final class ServerClock: WallClock {
    private let base: any WallClock
    private let lead = Mutex(Duration.zero)

    init(_ base: any WallClock) { self.base = base }

    func now() -> Timestamp { base.now() + lead.withLock { $0 } }

    func advance(by duration: Duration) { lead.withLock { $0 += duration } }
}
