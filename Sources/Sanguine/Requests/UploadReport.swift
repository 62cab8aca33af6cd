import Synchronization

/// Passes on how much of one request's body has been sent: at most once for each hundredth.
///
/// So whoever is told is told a bounded number of times, however large the body and however small
/// its parts. A request that goes out once more begins again at nothing.
///
/// Mutable state: `told`, by its mutex, not held while somebody is told.
final class UploadReport: Sendable {
    private let told = Mutex<UploadProgress?>(nil)
    private let tell: @Sendable (UploadProgress) -> Void
    private let beat: @Sendable () -> Void

    /// - Parameters:
    ///   - beat: Is called each time that something has gone on.
    ///   - tell: Is told of each hundredth.
    init(
        beat: @escaping @Sendable () -> Void = {},
        tell: @escaping @Sendable (UploadProgress) -> Void
    ) {
        (self.beat, self.tell) = (beat, tell)
    }

    /// Something goes on, of which there is nothing to tell.
    func goesOn() { beat() }

    /// So much has been sent.
    func take(_ progress: UploadProgress) {
        beat()
        let isNews = told.withLock { told in
            if let told, told.hundredths == progress.hundredths { return false }
            told = progress
            return true
        }
        if isNews { tell(progress) }
    }
}

/// How much one sending of a mutation has sent, in all its requests with a body of bytes, a file or
/// a form.
///
/// Mutable state: `state`, by its mutex, not held while the follower is told.
final class UploadTally: Sendable {
    private struct State {
        var beats: UInt64 = 0
        var requests: [Int: UploadProgress] = [:]
        var follower: (@Sendable (UploadProgress) -> Void)?
    }

    private let state = Mutex(State())

    /// How often something has gone on.
    private var beats: UInt64 { state.withLock { $0.beats } }

    /// Waits until nothing has gone on for a while, ``ClientLimits/uploadTimeout`` at the longest.
    ///
    /// - Returns: Whether nothing has; `false` if the wait was cancelled.
    func isSilent(for silence: Duration, on clock: any Clock<Duration>) async -> Bool {
        var (seen, passed) = (UInt64(0), Duration.zero)
        while true {
            guard (try? await clock.sleep(for: silence)) != nil else { return false }
            passed += silence
            let beats = beats
            if beats == seen || passed >= ClientLimits.uploadTimeout { return true }
            seen = beats
        }
    }

    /// Has the closure told of each change, until ``end()``.
    func follow(_ tell: @escaping @Sendable (UploadProgress) -> Void) {
        state.withLock { $0.follower = tell }
    }

    /// The sending is over: what comes late is told to nobody.
    func end() { state.withLock { $0.follower = nil } }

    /// What reports on the next request.
    ///
    /// - Parameter tell: Is told of that request's own progress.
    /// - Returns: What is told of that request.
    func report(telling tell: (@Sendable (UploadProgress) -> Void)?) -> UploadReport {
        let number = state.withLock { state in
            state.requests[state.requests.count] = UploadProgress(sentBytes: 0, totalBytes: 0)
            return state.requests.count - 1
        }
        return UploadReport { [self] in
            state.withLock { $0.beats += 1 }
        } tell: { [self] progress in
            tell?(progress)
            take(progress, of: number)
        }
    }

    private func take(_ progress: UploadProgress, of request: Int) {
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
