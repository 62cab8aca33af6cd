import SanguineModel
import Synchronization

/// The position of a removal in the rows of its account, or of a guest whose data the account has.
///
/// Rows that stay for a while, such as tombstones that others can read, are stepped over once in
/// each walk. The position is in memory only: after a restart a new walk begins, and finds what the
/// earlier ones did not remove.
package struct RemovalWalk: Sendable {
    /// A kind of rows.
    enum Stage: Hashable, Sendable {
        case rows(AccountRowsQuery.Kind)
        case records(liveOnly: Bool)
        case holds
    }

    /// The kinds of rows of an account, in the order of their removal.
    static let stages: [Stage] = [
        .rows(.sessions), .rows(.devices), .rows(.documents), .rows(.quotas), .rows(.blobs),
        .records(liveOnly: true), .records(liveOnly: false), .holds, .rows(.results),
        .rows(.operations),
    ]

    /// The guest whose rows are walked; `nil` for the account itself.
    let alias: Identifier?
    /// The time of the first step.
    var began: Timestamp?
    /// Whether no call of the account was running at any step.
    var isQuiet = true
    /// The key of the last row of the stage; `nil` before the first one.
    var last: Key?
    /// The number of the last record of the stage.
    var number: Int64 = 0
    private var position = 0

    /// Creates a walk through the rows of the account itself.
    package init() { self.init(alias: nil) }

    init(alias: Identifier?) { self.alias = alias }

    /// The current stage; `nil` at the end.
    var stage: Stage? { position < Self.stages.count ? Self.stages[position] : nil }

    /// Begins the next stage.
    mutating func endStage() {
        position += 1
        (last, number) = (nil, 0)
    }
}

/// The removals that the periodic work has reached, so that none waits for the end of another.
///
/// Mutable state: `state`, guarded by its mutex; bounded by ``limit``.
final class RemovalTurns: Sendable {
    /// The number of removals whose walks are remembered; beyond it, walks begin again.
    static let limit = 1_024
    /// The time after which a removal is looked at again that had nothing to do: 5 s.
    static let pause = Duration.seconds(5)

    private struct State {
        var last: Identifier?
        var walks: [Identifier: RemovalWalk] = [:]
        var dueAt: [Identifier: Timestamp] = [:]
    }

    private let state = Mutex(State())

    /// The account after which the next turn continues; `nil` to begin with the first one.
    var last: Identifier? {
        get { state.withLock(\.last) }
        set { state.withLock { $0.last = newValue } }
    }

    /// Returns the walk of an account that has something to do; `nil` if it has not.
    func walk(of account: Identifier, at now: Timestamp) -> RemovalWalk? {
        state.withLock { state in
            if let due = state.dueAt[account], now < due, due - now <= Self.pause { return nil }
            return state.walks[account] ?? RemovalWalk()
        }
    }

    /// Stores the walk of an account after a step.
    func set(
        _ walk: RemovalWalk,
        of account: Identifier,
        after step: Authority.RemovalStep,
        at now: Timestamp
    ) {
        state.withLock { state in
            if state.walks.count >= Self.limit { state.walks = [:] }
            if state.dueAt.count >= Self.limit { state.dueAt = [:] }
            state.walks[account] = step == .removed ? walk : nil
            state.dueAt[account] = step == .waiting ? now + Self.pause : nil
        }
    }
}
