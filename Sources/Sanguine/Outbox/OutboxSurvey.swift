import SanguineModel

/// The operations of an outbox at one moment, without their arguments and the names of lanes.
///
/// A lane is often named after a record, so that lanes are only numbered.
struct OutboxSurvey: Sendable {
    /// One operation.
    struct Row: Sendable {
        let name: String
        let lane: Int
        let created: Timestamp
        let phase: String
        /// The number of its consecutive failed sends.
        let attempts: Int
        /// The time at which it is tried again; `nil` if it does not wait for another try.
        let due: Timestamp?
        /// The code of the last error.
        let failure: String?

        init(
            _ item: OutboxState.Item,
            name: String,
            lane: Int,
            attempts: Int,
            due: Timestamp?,
            failure: SanguineError?
        ) {
            self.name = name
            self.lane = lane
            self.attempts = attempts
            self.due = due
            created = item.id.moment
            phase = item.inReport
            self.failure = failure?.metricsCode
        }
    }

    /// One line about all operations.
    let state: String
    /// The number of all operations.
    let count: Int
    /// The first operations, by lane.
    let rows: [Row]

    init(state: String, count: Int, _ rows: [Row]) {
        self.state = state
        self.count = count
        // By lane, and in a lane in their order.
        self.rows = rows.enumerated()
            .sorted { ($0.element.lane, $0.offset) < ($1.element.lane, $1.offset) }
            .map(\.element)
    }

    /// Numbers lanes from 1, in the order in which they occur.
    static func numbers(of lanes: [String]) -> [String: Int] {
        lanes.reduce(into: [:]) { numbers, lane in
            if numbers[lane] == nil { numbers[lane] = numbers.count + 1 }
        }
    }
}

extension OutboxState.Item {
    /// The phase in words.
    fileprivate var inReport: String {
        switch phase {
        case .queued: outcomeUnknown ? "may have been applied, will be sent again" : "queued"
        case .sending: "being sent"
        case .acknowledged: "applied, its changes have not arrived"
        case .refused(let problem): "refused with \(SanguineError.problem(problem).metricsCode)"
        }
    }
}
