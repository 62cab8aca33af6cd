import SanguineModel
import Synchronization

/// A clock that a test sets.
///
/// It starts at noon, 2026-11-21T12:00:00Z.
final class ManualClock: WallClock {
    static let start = Timestamp(millisecondsSince1970: 1_795_262_400_000)

    private let current = Mutex(ManualClock.start)

    func now() -> Timestamp { current.withLock { $0 } }

    func advance(by duration: Duration) { current.withLock { $0 = $0 + duration } }

    func set(_ moment: Timestamp) { current.withLock { $0 = moment } }
}
