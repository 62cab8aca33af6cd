import Synchronization

/// Reports how much of a request's body has been sent, at most once for each percent.
///
/// This bounds the number of calls, however large the body and however small its chunks. A request
/// that is sent again starts at zero.
///
/// Mutable state: `reported`, protected by its mutex, which is not held during the calls.
final class UploadReport: Sendable {
    private let reported = Mutex<UploadProgress?>(nil)
    private let tell: @Sendable (UploadProgress) -> Void
    private let beat: @Sendable () -> Void

    /// - Parameters:
    ///   - beat: Called at each sign of progress.
    ///   - tell: Called at each new percentage.
    init(
        beat: @escaping @Sendable () -> Void = {},
        tell: @escaping @Sendable (UploadProgress) -> Void
    ) {
        (self.beat, self.tell) = (beat, tell)
    }

    /// Reports activity without a change of the progress.
    func goesOn() { beat() }

    /// Reports the progress.
    func report(_ progress: UploadProgress) {
        beat()
        let hasChanged = reported.withLock { last in
            if let last, last.hundredths == progress.hundredths { return false }
            last = progress
            return true
        }
        if hasChanged { tell(progress) }
    }
}

/// Sums up the progress of one sending of a mutation, over all its requests whose body is bytes, a
/// file or a form.
///
/// Mutable state: `state`, protected by its mutex, which is not held while the follower is called.
final class UploadTally: Sendable {
    private struct State {
        var activityCount: UInt64 = 0
        var requests: [Int: UploadProgress] = [:]
        var follower: (@Sendable (UploadProgress) -> Void)?
    }

    private let state = Mutex(State())

    /// The number of signs of progress.
    private var activityCount: UInt64 { state.withLock { $0.activityCount } }

    /// Waits until there is no progress for a while, at most ``ClientLimits/uploadTimeout``.
    ///
    /// - Returns: `true` after that, or `false` if the wait was cancelled.
    func isSilent(for silence: Duration, on clock: any Clock<Duration>) async -> Bool {
        var (seen, passed) = (UInt64(0), Duration.zero)
        while true {
            guard (try? await clock.sleep(for: silence)) != nil else { return false }
            passed += silence
            let beats = activityCount
            if beats == seen || passed >= ClientLimits.uploadTimeout { return true }
            seen = beats
        }
    }

    /// Calls the closure after each change, until ``end()``.
    func follow(_ tell: @escaping @Sendable (UploadProgress) -> Void) {
        state.withLock { $0.follower = tell }
    }

    /// Ends the sending: later progress is not reported.
    func end() { state.withLock { $0.follower = nil } }

    /// Creates the report of the next request.
    ///
    /// - Parameter tell: Called with that request's own progress.
    /// - Returns: The report, which receives that request's progress.
    func report(telling tell: (@Sendable (UploadProgress) -> Void)?) -> UploadReport {
        let number = state.withLock { state in
            state.requests[state.requests.count] = UploadProgress(sentBytes: 0, totalBytes: 0)
            return state.requests.count - 1
        }
        return UploadReport { [self] in
            state.withLock { $0.activityCount += 1 }
        } tell: { [self] progress in
            tell?(progress)
            add(progress, of: number)
        }
    }

    private func add(_ progress: UploadProgress, of request: Int) {
        let (sum, follower) = state.withLock { state in
            state.requests[request] = progress
            let sum = state.requests.values.reduce(UploadProgress(sentBytes: 0, totalBytes: 0)) {
                UploadProgress(
                    sentBytes: $0.sentBytes + $1.sentBytes,
                    totalBytes: $0.totalBytes + $1.totalBytes
                )
            }
            return (sum, state.follower)
        }
        follower?(sum)
    }
}

extension UploadProgress {
    fileprivate var hundredths: Int { Int(fraction * 100) }
}
