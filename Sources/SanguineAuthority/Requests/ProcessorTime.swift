import Foundation

/// Measures the processor time that a piece of work takes.
package struct ProcessorTime {
    private let start = Self.ofThread()

    /// The assumed cost of creating or verifying one signature.
    package static let signature = Duration.microseconds(200)

    /// Starts the measurement.
    package init() {}

    /// The processor time since the start, for work that has not suspended.
    package var spent: Duration { .nanoseconds(max(0, Self.ofThread() - start)) }

    private static func ofThread() -> Int64 {
        var time = timespec()
        let thread = CLOCK_THREAD_CPUTIME_ID
        clock_gettime(thread, &time)  // tidy: allow hidden-clock: a thread's work is no moment.
        return Int64(time.tv_sec) * 1_000_000_000 + Int64(time.tv_nsec)
    }
}
