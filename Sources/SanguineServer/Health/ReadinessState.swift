import SanguineAuthority
import SanguineModel

/// A reason why the server is not ready: the `code` of the problem at `/health/ready`.
enum NotReady: String, Hashable, Sendable, CaseIterable {
    /// The disk is full.
    case diskFull = "disk_full"
    /// The data can be read but not written.
    case readOnly = "disk_read_only"
    /// Stored data is damaged; this state lasts until the server restarts.
    case damaged = "data_damaged"
    /// The storage fails for another reason, which is logged.
    case failed = "storage_failed"
    /// The storage has not responded for ``ReadinessState/patience``.
    case stalled = "storage_stalled"
    /// Too many operations wait for the storage.
    case overloaded
    /// The storage is closed because the server is shutting down.
    case stopping

    init(_ error: StorageError) {
        self =
            switch error {
            case .full: .diskFull
            case .readOnly: .readOnly
            case .damaged: .damaged
            case .failed, .unknownOutcome: .failed
            case .overloaded: .overloaded
            case .closed: .stopping
            }
    }

    /// The problem document for this reason.
    var problem: Problem {
        var problem = Problem(.overloaded, detail, retryAfter: 1)
        problem.code = ProblemCode(rawValue: rawValue)
        problem.type = "urn:sanguine:problem:\(rawValue)"
        problem.title = "The server is not ready."
        return problem
    }

    private var detail: String {
        switch self {
        case .diskFull: "Free some space on the disk of the data folder."
        case .readOnly: "Make the disk of the data folder writable."
        case .damaged:
            "Stop the server, run 'sanguine doctor', and restore the data from a backup."
        case .failed: "See the log: the storage fails."
        case .stalled: "Check the disk of the data folder: the storage does not respond."
        case .overloaded: "Ask again soon: too many operations wait for the storage."
        case .stopping: "Use another server: this one is shutting down."
        }
    }
}

/// Decides when the storage is probed, and which result applies in between.
///
/// Invariants:
/// 1. Regardless of the number of callers, the storage is probed at most once per ``interval``,
///    with one probe at a time.
/// 2. A failed write of a request counts at once, until the next probe.
/// 3. Damage persists: a successful write elsewhere proves nothing about the damaged page.
struct ReadinessState {
    /// The time between two probes.
    static let interval = Duration.seconds(5)
    /// The time after which a running probe is reported as stalled.
    static let patience = Duration.seconds(5)

    /// The next step for a caller.
    enum Step: Equatable {
        /// Return this result; `nil` if the server is ready.
        case answer(NotReady?)
        /// Start a probe and wait for its result.
        case probe
        /// Wait for the result of the running probe.
        case wait
    }

    private(set) var isDamaged = false
    private var verdict: NotReady?
    private var triedAt: Duration?
    private var isTrying = false
    private var hangs = false

    /// Returns the next step for a caller.
    mutating func asked(at now: Duration) -> Step {
        if isDamaged { return .answer(.damaged) }
        if isTrying { return hangs ? .answer(.stalled) : .wait }
        if let triedAt, now - triedAt < Self.interval { return .answer(verdict) }
        isTrying = true
        hangs = false
        return .probe
    }

    /// Records that a storage call of a request failed.
    ///
    /// - Returns: Whether the failure should be logged: damage is logged once.
    @discardableResult
    mutating func saw(_ error: StorageError) -> Bool {
        switch error {
        case .damaged:
            defer { isDamaged = true }
            return !isDamaged
        case .full, .readOnly, .unknownOutcome: verdict = NotReady(error)
        // A single command may fail on its own, so a probe decides.
        case .failed, .overloaded, .closed: break
        }
        return true
    }

    /// Records the result of the probe.
    ///
    /// - Returns: The result for the waiting callers.
    mutating func tried(_ found: NotReady?, at now: Duration) -> NotReady? {
        isTrying = false
        triedAt = now
        verdict = found
        if found == .damaged { isDamaged = true }
        return isDamaged ? .damaged : found
    }

    /// Records that the probe has taken ``patience``.
    mutating func ranOutOfPatience() {
        if isTrying { hangs = true }
    }
}
