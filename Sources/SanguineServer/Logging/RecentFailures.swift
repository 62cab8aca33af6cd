import SanguineAuthority
import Synchronization

/// The failures of a storage that were logged a short time ago.
///
/// While a storage fails, jobs and requests find the same failure many times in a second.
///
/// Mutable state: `logged`, by its mutex. At most ``limit`` failures are remembered; others are
/// news each time.
final class RecentFailures: Sendable {
    /// How long a failure is no news: a minute.
    static let pause = Duration.seconds(60)
    /// Failures that are remembered.
    static let limit = 64

    private let uptime: @Sendable () -> Duration
    private let logged = Mutex<[StorageError: Duration]>([:])

    /// Creates a list of none.
    ///
    /// - Parameter clock: A clock that never jumps.
    init(clock: any Clock<Duration>) { uptime = Stopwatch(clock).elapsed }

    /// Returns whether a failure is to be logged.
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
