import SanguineModel
import Synchronization

/// The end of a run.
enum RunEnd: Sendable {
    /// The run has an output with this charge; the reason is `nil` if there is none.
    case made(output: [UInt8], charge: Int64, FinishReason? = nil)
    /// The run failed without output.
    case failed(Problem)
    /// The run was cut short; if it was sent, its output is charged.
    case cut(Problem, wasSent: Bool)
    /// The run never began, and nothing of it is stored.
    case withdrawn(Problem)
}

/// One run of a function, which any number of calls share.
///
/// The first call leads: it is accepted before the others, and its terms determine the run. Calls
/// and readers may leave; the run continues for as long as it is wanted, as the function declares.
///
/// Invariants:
/// 1. It ends once, even if it was cancelled before it began.
/// 2. A call wants the run before it is accepted, and until it is settled, so that no other call
///    can end the run in between.
/// 3. It is cut short only if no call needs it any longer, or if all of its readers have left and
///    its rules require that. No call joins a run that is cut short.
///
/// Mutable state: `state`, guarded by its mutex; turn, log, election and ending guard their own.
final class SharedRun: Sendable {
    private struct State {
        /// The number of calls that want it.
        var calls = 1
        /// The number of these calls without a reader: they wait for the answer in one piece, or
        /// their reader has not arrived yet.
        var unread = 1
        var readers = 0
        var task: Task<RunEnd, Never>?
        var isSent = false
        var hasEnded = false
        var cutReason: Problem?
        /// The language model that was asked last.
        var model: String?
        var isKept = false
        /// The permit of a run that continues without readers.
        var drain: DrainPool.Permit?
        /// The accounts of the accepted calls that want it, in the order of their acceptance.
        var accounts: [Identifier] = []
    }

    /// The remaining demand for a run.
    private enum Interest {
        case some
        /// Calls whose readers have left.
        case unread
        case none
    }

    /// The run's id, with which its parts are stored.
    let id: Identifier
    /// The time when it was created, by the clock that dates its parts.
    let beganAt: Timestamp
    /// Whether the answer is streamed.
    let isStreamed: Bool
    /// The turn of the run, for which each of its calls queues.
    let turn: CallQueue.Turn
    /// The parts of the answer.
    let log = AnswerLog()
    /// Whether the leading call was accepted.
    let election = OneShotValue<Bool>()
    /// The end of the run.
    let ending = OneShotValue<RunEnd>()
    /// Called when the last reader has left and no call waits for the answer in one piece.
    private let onUnread: @Sendable (SharedRun) -> Void

    private let state = Mutex(State())

    /// Creates a run for its leading call.
    init(
        id: Identifier,
        at now: Timestamp,
        isStreamed: Bool,
        turn: CallQueue.Turn,
        onUnread: @escaping @Sendable (SharedRun) -> Void
    ) {
        self.id = id
        beganAt = now
        self.isStreamed = isStreamed
        self.turn = turn
        self.onUnread = onUnread
    }

    /// The number of calls that share the run.
    var callCount: Int { state.withLock { $0.calls } }

    /// The reason why it is cut short, if it is.
    var cutReason: Problem? { state.withLock { $0.cutReason } }

    /// Whether it was sent upstream.
    var isSent: Bool { state.withLock { $0.isSent } }

    /// Whether its result is cached.
    var isKept: Bool { state.withLock { $0.isKept } }

    /// Records that its result is cached.
    func keep() { state.withLock { $0.isKept = true } }

    /// Marks the run as sent upstream, unless it was cut short before.
    ///
    /// - Returns: The reason why it is not sent, or `nil`.
    func send() -> Problem? {
        state.withLock { state in
            if state.cutReason == nil { state.isSent = true }
            return state.cutReason
        }
    }

    /// The language model that it has asked last; `nil` if there is none.
    var model: String? { state.withLock { $0.model } }

    /// Records the language model that it asks.
    func asks(_ model: String) { state.withLock { $0.model = model } }

    /// Records that the run ends without having been sent, although it was marked.
    func didNotLeave() { state.withLock { $0.isSent = false } }

    /// Starts the run, on the executor if there is one, and waits for its end.
    func begin(
        on executor: (any TaskExecutor)? = nil,
        _ body: @escaping @Sendable () async -> RunEnd
    ) async -> RunEnd {
        let task = Task(executorPreference: executor) { await body() }
        let isCancelled = state.withLock { state in
            state.task = task
            return state.cutReason != nil
        }
        if isCancelled { task.cancel() }
        return await task.value
    }

    /// Cuts the run short; only the first reason counts.
    func cancel(_ reason: Problem) { cancel(reason) { _ in true } }

    /// Cuts the run short if only one call wants it.
    ///
    /// - Returns: Whether that is the case.
    func cancelIfOnesOwn(_ reason: Problem) -> Bool { cancel(reason) { $0.calls == 1 } }

    @discardableResult
    private func cancel(_ reason: Problem, if mayBe: (State) -> Bool) -> Bool {
        let (isCut, task) = state.withLock { state in
            guard mayBe(state) else { return (false, Task<RunEnd, Never>?.none) }
            if state.cutReason == nil { state.cutReason = reason }
            return (true, state.task)
        }
        if isCut { log.cut() }
        task?.cancel()
        return isCut
    }

    // MARK: - Calls and readers

    /// Adds a call that wants the run.
    ///
    /// - Returns: `false` if the run is cut short.
    func join() -> Bool {
        state.withLock { state in
            guard state.cutReason == nil else { return false }
            state.calls += 1
            state.unread += 1
            return true
        }
    }

    /// Removes a call that wanted the run.
    ///
    /// - Parameter isUnread: Whether the call never had a reader.
    func leave(isUnread: Bool) {
        update { state in
            state.calls -= 1
            if isUnread { state.unread -= 1 }
        }
    }

    /// The accounts of the accepted calls that want the run, the first one's first.
    var accounts: [Identifier] { state.withLock { $0.accounts } }

    /// Records that a call that wants the run was accepted.
    func accepted(_ account: Identifier) { state.withLock { $0.accounts.append(account) } }

    /// Records that an accepted call of the account no longer wants the run.
    func acceptedLeft(_ account: Identifier) {
        state.withLock { state in
            guard let index = state.accounts.firstIndex(of: account) else { return }
            state.accounts.remove(at: index)
        }
    }

    /// Adds a reader of the parts.
    ///
    /// - Parameter isFirst: Whether the reader is the first one of its call.
    func readerJoined(isFirst: Bool) {
        let drain = state.withLock { state in
            state.readers += 1
            if isFirst { state.unread -= 1 }
            defer { state.drain = nil }
            return state.drain
        }
        drain?.release()
    }

    /// Removes a reader.
    func readerLeft() { update { $0.readers -= 1 } }

    private func update(_ body: (inout State) -> Void) {
        let interest = state.withLock { state -> Interest in
            body(&state)
            guard !state.hasEnded else { return .some }
            if state.calls == 0 { return .none }
            let isUnread = state.unread == 0 && state.readers == 0 && state.drain == nil
            return isUnread ? .unread : .some
        }
        switch interest {
        case .some: break
        case .unread: onUnread(self)
        case .none: cancel(.callCancelled)
        }
    }

    /// Continues the run without readers, with a permit for such runs.
    func drain(_ permit: DrainPool.Permit) {
        let isKept = state.withLock { state in
            guard state.readers == 0, state.drain == nil, !state.hasEnded else { return false }
            state.drain = permit
            return true
        }
        if !isKept { permit.release() }
    }

    /// Ends the run for all of its calls.
    func end(_ end: RunEnd) {
        log.end()
        let drain = state.withLock { state in
            state.hasEnded = true
            defer { state.drain = nil }
            return state.drain
        }
        drain?.release()
        ending.resolve(end)
    }
}

/// The runs that other calls may join, by key.
///
/// Invariants:
/// 1. There is at most one run for a key at a time, except for those that are cut short.
/// 2. A run is in the table before its leader is accepted, and until its result is in the memory
///    tier or the run has failed: a call that finds neither run nor result may begin one.
///
/// Mutable state: `runs`, guarded by its mutex; bounded by the accepted calls. The tier and a run
/// are queried under the lock, so that nothing changes in between; neither of them knows this
/// table.
final class SharedRunTable: Sendable {
    /// The result of looking up a key.
    enum Found {
        /// There was nothing: the call leads this new run, which others can now find.
        case lead(SharedRun)
        /// A run to follow, which now counts the call; see ``SharedRun/leave(isUnread:)``.
        case follow(SharedRun)
        /// A cached answer.
        case known(ResultRow)
    }

    private let runs = Mutex<[ResultKey: SharedRun]>([:])
    private let tier: ResultMemoryCache

    init(over tier: ResultMemoryCache) { self.tier = tier }

    /// Finds the answer or run for a key, or creates a run.
    func find(_ key: ResultKey, at now: Timestamp, else make: () -> SharedRun) -> Found {
        runs.withLock { runs in
            if let row = tier.find(key.bytes, at: now) { return .known(row) }
            if let run = runs[key], run.join() { return .follow(run) }
            let run = make()
            runs[key] = run
            return .lead(run)
        }
    }

    /// Removes a run that has ended or was never begun.
    func remove(_ key: ResultKey, _ run: SharedRun) {
        runs.withLock { runs in
            if runs[key] === run { runs[key] = nil }
        }
    }
}
