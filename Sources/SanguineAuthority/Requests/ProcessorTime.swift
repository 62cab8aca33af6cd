import Foundation

/// Measures the processor time that a piece of work takes.
package struct ProcessorTime {
    private let thread = pthread_self()
    private let start = Self.ofThread()

    /// What the work is taken to have cost where it ended on another thread than it began on: about
    /// that of checking one signature.
    package static let elsewhere = Duration.microseconds(200)

    /// Starts to measure.
    package init() {}

    /// The processor time since the start.
    package var spent: Duration {
        guard pthread_equal(thread, pthread_self()) != 0 else { return Self.elsewhere }
        return .nanoseconds(max(0, Self.ofThread() - start))
    }

    private static func ofThread() -> Int64 {
        var time = timespec()
        let thread = CLOCK_THREAD_CPUTIME_ID
        clock_gettime(thread, &time)  // tidy: allow hidden-clock: a thread's work is no moment.
        return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
    }
}
