import SanguineAuthority
import SanguineModel

/// Why a server cannot do its work: the `code` of the problem at `/health/ready`.
enum NotReady: String, Hashable, Sendable, CaseIterable {
    /// The disk has no room left.
    case diskFull = "disk_full"
    /// The data can be read and not written.
    case readOnly = "disk_read_only"
    /// Something that is stored does not read back. It lasts until the server is started again.
    case damaged = "data_damaged"
    /// The storage fails for another reason, which the log has.
    case failed = "storage_failed"
    /// The storage has not answered for ``ReadinessState/patience``.
    case stalled = "storage_stalled"
    /// Too much waits for the storage.
    case overloaded
    /// The storage is closed, because the server stops.
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

    /// The document that says so.
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
        case .failed: "Look into the log: the storage fails."
        case .stalled: "Look at the disk of the data folder: the storage does not answer."
        case .overloaded: "Ask again soon: too much waits for the storage."
        case .stopping: "Ask another server: this one stops."
        }
    }
}

/// Decides when the storage is tried, and what is known of it in between.
///
/// Invariants:
/// 1. However many ask, the storage is tried once in ``interval``, and once at a time.
/// 2. A failure of a request's own write counts at once, until the next try.
/// 3. Damage lasts: a write that succeeds elsewhere proves nothing of the damaged page.
struct ReadinessState {
    /// The time from one try to the next.
    static let interval = Duration.seconds(5)
    /// How long a try may take before those who ask are told that it hangs.
    static let patience = Duration.seconds(5)

    /// What one who asks gets.
    enum Step: Equatable {
        /// This: `nil` if all is well.
        case answer(NotReady?)
        /// The outcome of a try that begins now.
        case probe
        /// The outcome of the try that is under way.
        case wait
    }

    private(set) var isDamaged = false
    private var verdict: NotReady?
    private var triedAt: Duration?
    private var isTrying = false
    private var hangs = false

    /// Somebody asks.
    mutating func asked(at now: Duration) -> Step {
        if isDamaged { return .answer(.damaged) }
        if isTrying { return hangs ? .answer(.stalled) : .wait }
        if let triedAt, now - triedAt < Self.interval { return .answer(verdict) }
        isTrying = true
        hangs = false
        return .probe
    }

    /// A request's own call of the storage has failed.
    ///
    /// - Returns: Whether that is news: damage is, once.
    @discardableResult
    mutating func saw(_ error: StorageError) -> Bool {
        switch error {
        case .damaged:
            defer { isDamaged = true }
            return !isDamaged
        case .full, .readOnly, .unknownOutcome: verdict = NotReady(error)
        // One command may fail by itself: a try tells.
        case .failed, .overloaded, .closed: break
        }
        return true
    }

    /// The try has ended.
    ///
    /// - Returns: What those who wait for it get.
    mutating func tried(_ found: NotReady?, at now: Duration) -> NotReady? {
        isTrying = false
        triedAt = now
        verdict = found
        if found == .damaged { isDamaged = true }
        return isDamaged ? .damaged : found
    }

    /// The try has taken ``patience``.
    mutating func ranOutOfPatience() {
        if isTrying { hangs = true }
    }
}
