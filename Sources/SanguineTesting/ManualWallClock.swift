public import SanguineModel
import Synchronization

/// A time of day that stands still until a test moves it, possibly backwards.
///
/// ```swift
/// let clock = ManualWallClock()
/// configuration.clock = clock
/// clock.advance(by: .seconds(300))
/// ```
public final class ManualWallClock: WallClock {
    // The only mutable state, guarded by its mutex.
    private let moment: Mutex<Timestamp>

    /// Creates a clock that shows the given time.
    ///
    /// Default: 2026-11-21T12:00:00Z.
    public init(_ moment: Timestamp = Timestamp(millisecondsSince1970: 1_795_262_400_000)) {
        self.moment = Mutex(moment)
    }

    /// Returns the time that the clock shows.
    public func now() -> Timestamp { moment.withLock { $0 } }

    /// Moves the clock; a negative duration sets it back.
    public func advance(by duration: Duration) { moment.withLock { $0 = $0 + duration } }

    /// Sets the clock.
    public func set(_ moment: Timestamp) { self.moment.withLock { $0 = moment } }
}
