import Foundation
import Synchronization

/// Keeps the system from suspending the process while it holds a lock on a file.
///
/// iOS ends a process that is suspended with a lock on a file of a shared folder (`0xdead10cc`),
/// and until then the app and its companions wait for that lock in vain.
struct ExpiringActivity: Sendable {
    /// Begins an activity and returns what ends it; `nil` if the process is about to be suspended.
    let begin: @Sendable () -> (@Sendable () -> Void)?

    #if os(iOS) || os(tvOS) || os(watchOS) || os(visionOS)
    /// The system's activities.
    static let system = ExpiringActivity {
        let (decided, over) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        let isGranted = Mutex(false)
        ProcessInfo.processInfo.performExpiringActivity(withReason: "Sanguine writes") { isOver in
            isGranted.withLock { $0 = !isOver }
            decided.signal()
            // It lasts until this returns. When it expires, this is called a second time.
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
    /// Nothing: this system suspends no process.
    static let system = ExpiringActivity { {} }
    #endif
}
