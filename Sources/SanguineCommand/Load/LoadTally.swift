import Sanguine

/// The counts and latencies of a run.
///
/// Every latency begins at the intended start. Requests that timed out, or that were unanswered at
/// the end, count with the time that they waited: without them, a server that stops would look
/// faster. Other failures are counted, but not among the latencies, because refusals are fast.
struct LoadTally: Sendable {
    /// The counts of one step.
    struct Row: Sendable {
        let name: String
        /// The requests whose time has come.
        var intended = 0
        var succeeded = 0
        var failed = 0
        var latencies = DurationHistogram()
        /// The number of failures by reason.
        var reasons: [String: Int] = [:]
    }

    /// The requests that were intended in a part of the run.
    struct Window: Sendable {
        var intended = 0
        var failed = 0
        /// The responses that arrived in this part, whenever their requests were intended.
        var completed = 0
        var latencies = DurationHistogram()
    }

    /// How a request ended.
    enum End: Sendable {
        case success
        /// It failed before its timeout.
        case failure(String)
        /// It waited in vain.
        case unanswered(String)
    }

    /// The sign-in, then the steps in their order.
    private(set) var rows: [Row]
    private(set) var windows: [Window]
    let windowLength: Duration
    /// The time from the intended to the actual start of each request.
    private(set) var lag = DurationHistogram()
    /// The requests that were not started, because too many were open.
    private(set) var overflown = 0
    private(set) var liveConnections = 0
    private(set) var mostLiveConnections = 0
    /// The bytes that the live connections received after their heads.
    private(set) var liveBytes = 0
    private(set) var arrived = 0

    init(_ plan: LoadPlan) {
        rows = (["guest"] + plan.steps.map(\.name)).map { Row(name: $0) }
        let length = (plan.duration / .seconds(1) / Double(LoadLimits.windows)).rounded(.up)
        windowLength = .seconds(max(1, Int(length)))
        windows = []
    }

    var succeeded: Int { rows.reduce(0) { $0 + $1.succeeded } }
    var failed: Int { rows.reduce(0) { $0 + $1.failed } }

    /// The sum of all rows.
    var all: Row {
        rows.reduce(into: Row(name: "all")) { sum, row in
            sum.intended += row.intended
            sum.succeeded += row.succeeded
            sum.failed += row.failed
            sum.latencies.merge(row.latencies)
        }
    }

    /// Records that a request's time has come.
    mutating func begin(_ row: Int, intended: Duration, now: Duration) {
        rows[row].intended += 1
        updateWindow(at: intended) { $0.intended += 1 }
        lag.record(now - intended)
    }

    /// Records the end of a request.
    mutating func end(_ row: Int, intended: Duration, now: Duration, _ end: End) {
        let latency = now - intended
        switch end {
        case .success:
            rows[row].succeeded += 1
            rows[row].latencies.record(latency)
            updateWindow(at: intended) { $0.latencies.record(latency) }
            updateWindow(at: now) { $0.completed += 1 }
        case .failure(let reason):
            fail(row, reason, at: intended)
        case .unanswered(let reason):
            fail(row, reason, at: intended)
            rows[row].latencies.record(latency)
            updateWindow(at: intended) { $0.latencies.record(latency) }
        }
    }

    mutating func overflow(_ row: Int, intended: Duration) {
        overflown += 1
        fail(row, "not started", at: intended)
    }

    mutating func arrive() { arrived += 1 }

    mutating func liveBegan() {
        liveConnections += 1
        mostLiveConnections = max(mostLiveConnections, liveConnections)
    }

    mutating func liveReceived(_ bytes: Int) { liveBytes += bytes }

    /// Records that the server ended a live connection, which counts as a failure of its step.
    mutating func liveEnded(_ row: Int, now: Duration) {
        liveConnections -= 1
        fail(row, "ended by the server", at: now)
        // It was counted as a success when it began.
        rows[row].succeeded -= 1
    }

    private mutating func fail(_ row: Int, _ reason: String, at time: Duration) {
        rows[row].failed += 1
        let isKnown = rows[row].reasons[reason] != nil
        let hasRoom = rows[row].reasons.count < LoadLimits.reasons
        rows[row].reasons[isKnown || hasRoom ? reason : "other", default: 0] += 1
        updateWindow(at: time) { $0.failed += 1 }
    }

    private mutating func updateWindow(at time: Duration, _ body: (inout Window) -> Void) {
        // Bounded by the plan: nothing is intended after its duration, nor waits beyond its
        // timeout.
        let index = max(0, Int(time / windowLength))
        while windows.count <= index { windows.append(Window()) }
        body(&windows[index])
    }
}
