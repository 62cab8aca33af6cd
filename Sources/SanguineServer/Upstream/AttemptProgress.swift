import SanguineModel
import Synchronization

/// The progress of one attempt at an upstream.
///
/// Mutable state: `state`, guarded by its mutex: the connection writes it and the pool reads it.
final class AttemptProgress: Sendable {
    private struct State {
        /// The time at which it was sent last; `nil` before.
        var sentAt: Duration?
        var hasGiven = false
        var couldNotConnect = false
        var isTimeUp = false
        var isReading = false
        var firstHeard: Duration?
        var lastHeard: Duration?
        var learned: String?
    }

    /// The account that pays for the attempt, if there is one.
    let account: Identifier?
    private let start: Duration
    private let now: @Sendable () -> Duration
    private let state = Mutex(State())

    /// Creates the progress of an attempt that starts now.
    ///
    /// - Parameters:
    ///   - account: The account that pays for it.
    ///   - now: The time of a monotonic clock.
    init(for account: Identifier? = nil, now: @escaping @Sendable () -> Duration) {
        self.account = account
        self.now = now
        start = now()
    }

    /// Whether the request's body was read for sending: the upstream may have begun to work.
    var isSent: Bool { state.withLock { $0.sentAt != nil } }

    /// The time since the request's body was last read for sending; zero before.
    var timeSinceSent: Duration { state.withLock { $0.sentAt }.map { now() - $0 } ?? .zero }

    /// Whether a piece of the answer was passed to the caller.
    var hasGiven: Bool { state.withLock { $0.hasGiven } }

    /// Whether no connection could be established in time.
    var couldNotConnect: Bool { state.withLock { $0.couldNotConnect } }

    /// Whether its time expired before it ended.
    var isTimeUp: Bool { state.withLock { $0.isTimeUp } }

    /// The time from the start to the first byte of the answer; `nil` if none has arrived.
    var timeToFirstByte: Duration? { state.withLock { $0.firstHeard }.map { $0 - start } }

    /// The time since the upstream last sent data.
    var silence: Duration { now() - (state.withLock { $0.lastHeard } ?? start) }

    /// Parameters that the attempt has shown to be accepted or refused; `nil` if nothing is new.
    var learned: String? { state.withLock { $0.learned } }

    func learned(_ words: String) { state.withLock { $0.learned = words } }
    func sent() {
        let moment = now()
        state.withLock { $0.sentAt = moment }
    }
    func gave() { state.withLock { $0.hasGiven = true } }
    func ranOutOfTime() { state.withLock { $0.isTimeUp = true } }
    /// Records that the reader processes a piece, which does not count as silence of the upstream.
    func beganReading() { state.withLock { $0.isReading = true } }

    /// Records that the reader has processed its piece.
    func hasRead() {
        let moment = now()
        state.withLock { ($0.isReading, $0.lastHeard) = (false, moment) }
    }

    /// Returns the time for which the upstream may remain silent; zero or less after a timeout.
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
