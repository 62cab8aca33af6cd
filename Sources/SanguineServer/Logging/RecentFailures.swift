import SanguineAuthority
import Synchronization

/// The failures of a storage that were logged recently.
///
/// While a storage fails, jobs and requests encounter the same failure many times a second.
///
/// Mutable state: `logged`, guarded by its mutex. It contains at most ``limit`` failures; others
/// are logged each time.
final class RecentFailures: Sendable {
    /// The time for which a failure is not logged again: a minute.
    static let pause = Duration.seconds(60)
    /// The maximum number of failures to remember.
    static let limit = 64

    private let uptime: @Sendable () -> Duration
    private let logged = Mutex<[StorageError: Duration]>([:])

    /// Creates an empty list.
    ///
    /// - Parameter clock: A monotonic clock.
    init(clock: any Clock<Duration>) { uptime = Stopwatch(clock).elapsed }

    /// Returns whether to log a failure.
    func isNews(_ error: StorageError) -> Bool {
        let now = uptime()
        return logged.withLock { logged in
            if let last = logged[error], now - last < Self.pause { return false }
            if logged.count >= Self.limit {
                logged = logged.filter { now - $0.value < Self.pause }
            }
            if logged.count < Self.limit || logged[error] != nil { logged[error] = now }
            return true
        }
    }
}
