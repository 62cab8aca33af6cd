import Foundation
import Synchronization

/// Prevents the system from suspending the process while it holds a lock on a file.
///
/// iOS terminates a process that is suspended with a lock on a file in a shared folder
/// (`0xdead10cc`). Before that, the app and its companions would wait for the lock without success.
struct ExpiringActivity: Sendable {
    /// Begins an activity and returns a closure that ends it; `nil` if a suspension is imminent.
    let begin: @Sendable () -> (@Sendable () -> Void)?

    #if os(iOS) || os(tvOS) || os(watchOS) || os(visionOS)
    /// The system's activities.
    static let system = ExpiringActivity {
        let (decided, over) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        let isGranted = Mutex(false)
        ProcessInfo.processInfo.performExpiringActivity(withReason: "Sanguine writes") { isOver in
            isGranted.withLock { $0 = !isOver }
            decided.signal()
            // The activity lasts until this closure returns. On expiration, it is called a second
            // time.
            if !isOver { over.wait() }
        }
        let end = DispatchTime.now() + .seconds(1)  // tidy: allow hidden-clock: a semaphore's own.
        let isDecided = decided.wait(timeout: end) == .success
        guard isDecided, isGranted.withLock({ $0 }) else {
            over.signal()
            return nil
        }
        return { over.signal() }
    }
    #else
    /// Does nothing, because this system does not suspend processes.
    static let system = ExpiringActivity { {} }
    #endif
}
