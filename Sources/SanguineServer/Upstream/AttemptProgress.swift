import Synchronization

/// How far one attempt at an upstream has come.
///
/// Mutable state: `state`, by its mutex, because the connection writes it and the pool reads it.
final class AttemptProgress: Sendable {
    private struct State {
        var isSent = false
        var hasGiven = false
        var couldNotConnect = false
        var isTimeUp = false
        var isReading = false
        var firstHeard: Duration?
        var lastHeard: Duration?
        var learned: String?
    }

    private let start: Duration
    private let now: @Sendable () -> Duration
    private let state = Mutex(State())

    /// Creates the progress of an attempt that begins now.
    ///
    /// - Parameter now: The time on a clock that never goes back.
    init(now: @escaping @Sendable () -> Duration) {
        self.now = now
        start = now()
    }

    /// Whether the request's body has been drawn: the upstream may have begun to work.
    var isSent: Bool { state.withLock { $0.isSent } }

    /// Whether a piece of the answer was given to the caller.
    var hasGiven: Bool { state.withLock { $0.hasGiven } }

    /// Whether no connection could be made in time.
    var couldNotConnect: Bool { state.withLock { $0.couldNotConnect } }

    /// Whether its time was over before it had ended.
    var isTimeUp: Bool { state.withLock { $0.isTimeUp } }

    /// The time from the beginning to the first byte of the answer; `nil` if none came.
    var timeToFirstByte: Duration? { state.withLock { $0.firstHeard }.map { $0 - start } }

    /// For how long the upstream has said nothing.
    var silence: Duration { now() - (state.withLock { $0.lastHeard } ?? start) }

    /// What the attempt has shown the upstream to take or not to take; `nil` for nothing new.
    var learned: String? { state.withLock { $0.learned } }

    func learned(_ words: String) { state.withLock { $0.learned = words } }
    func sent() { state.withLock { $0.isSent = true } }
    func gave() { state.withLock { $0.hasGiven = true } }
    func ranOutOfTime() { state.withLock { $0.isTimeUp = true } }
    /// The reader has a piece, and takes its time: that is no silence of the upstream.
    func beganReading() { state.withLock { $0.isReading = true } }

    /// The reader has taken its piece.
    func hasRead() {
        let moment = now()
        state.withLock { ($0.isReading, $0.lastHeard) = (false, moment) }
    }

    /// How long the upstream may go on to say nothing; zero or less if that was too long.
    func patience(_ longest: Duration) -> Duration {
        state.withLock { $0.isReading } ? longest : longest - silence
    }

    func failedToConnect() { state.withLock { $0.couldNotConnect = true } }

    func heard() {
        let moment = now()
        state.withLock { state in
            state.lastHeard = moment
            if state.firstHeard == nil { state.firstHeard = moment }
        }
    }
}
