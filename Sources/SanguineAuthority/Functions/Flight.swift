import SanguineModel
import Synchronization

/// How a run of a function has ended.
enum FlightEnd: Sendable {
    /// It made an output, of that price; the reason is `nil` if there is none.
    case made(output: [UInt8], charge: Int64, FinishReason? = nil)
    /// It failed, and made nothing.
    case failed(Problem)
    /// It was cut short; if it was sent, what was made is charged.
    case cut(Problem, wasSent: Bool)
    /// It never began: nothing is kept of it.
    case withdrawn(Problem)
}

/// One run of a function, which any number of calls share.
///
/// The first call leads: it is accepted before any other, and what it pays for is what is run.
/// Calls and readers may leave; the run goes on for as long as it is wanted, as the function
/// declares.
///
/// Invariants:
/// 1. It ends once, also if it was cancelled before it began.
/// 2. A call wants it from before it is accepted until it is settled: what another one does in
///    between does not take the run away from it.
/// 3. It is cut short only if no call wants it any more, or all of its readers have left and its
///    rules say so. Nobody joins a run that is cut short.
///
/// Mutable state: `state`, by its mutex; turn, log, election and ending guard their own.
final class Flight: Sendable {
    private struct State {
        /// Calls that want it.
        var calls = 1
        /// Of them, those that nobody reads: their answer is waited for in one piece, or their
        /// reader is still to come.
        var unread = 1
        var readers = 0
        var task: Task<FlightEnd, Never>?
        var isSent = false
        var hasEnded = false
        var cutReason: Problem?
        var isKept = false
        /// The place of a run that goes on although nobody reads it.
        var drain: DrainPool.Place?
    }

    /// Who is left that wants it.
    private enum Interest {
        case some
        /// Calls, whose readers have left.
        case unread
        case none
    }

    /// The run's id, under which its parts are stored.
    let id: Identifier
    /// When it was made, by the clock that dates its parts.
    let beganAt: Timestamp
    /// Whether the answer comes in parts.
    let isStreamed: Bool
    /// Its turn, for which each call that wants it stands in line.
    let turn: CallQueue.Turn
    /// The parts.
    let log = AnswerLog()
    /// Whether the leading call was accepted.
    let election = OneAnswer<Bool>()
    /// How it has ended.
    let ending = OneAnswer<FlightEnd>()
    /// Called when the last reader has left and no call waits for the answer in one piece.
    private let onUnread: @Sendable (Flight) -> Void

    private let state = Mutex(State())

    /// Creates a run that its leading call wants.
    init(
        id: Identifier,
        at now: Timestamp,
        isStreamed: Bool,
        turn: CallQueue.Turn,
        onUnread: @escaping @Sendable (Flight) -> Void
    ) {
        self.id = id
        beganAt = now
        self.isStreamed = isStreamed
        self.turn = turn
        self.onUnread = onUnread
    }

    /// How many calls want it.
    var callCount: Int { state.withLock { $0.calls } }

    /// Why it is cut short, once it is.
    var cutReason: Problem? { state.withLock { $0.cutReason } }

    /// Whether it has left for the upstream.
    var isSent: Bool { state.withLock { $0.isSent } }

    /// Whether its result is kept for later calls.
    var isKept: Bool { state.withLock { $0.isKept } }

    /// Its result is kept.
    func keep() { state.withLock { $0.isKept = true } }

    /// It leaves for the upstream now, unless it was cut short before.
    ///
    /// - Returns: Why it does not, or `nil`.
    func send() -> Problem? {
        state.withLock { state in
            if state.cutReason == nil { state.isSent = true }
            return state.cutReason
        }
    }

    /// It ends without having left, although it was about to.
    func didNotLeave() { state.withLock { $0.isSent = false } }

    /// Begins the run, there or anywhere.
    func begin(
        on executor: (any TaskExecutor)? = nil,
        _ body: @escaping @Sendable () async -> FlightEnd
    ) async -> FlightEnd {
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

    /// Cuts the run short if one call alone wants it.
    ///
    /// - Returns: Whether it does.
    func cancelIfOnesOwn(_ reason: Problem) -> Bool { cancel(reason) { $0.calls == 1 } }

    @discardableResult
    private func cancel(_ reason: Problem, if mayBe: (State) -> Bool) -> Bool {
        let (isCut, task) = state.withLock { state in
            guard mayBe(state) else { return (false, Task<FlightEnd, Never>?.none) }
            if state.cutReason == nil { state.cutReason = reason }
            return (true, state.task)
        }
        if isCut { log.cut() }
        task?.cancel()
        return isCut
    }

    // MARK: - Who wants it

    /// Another call wants it from now on.
    ///
    /// - Returns: Whether it can: not if it is cut short.
    func join() -> Bool {
        state.withLock { state in
            guard state.cutReason == nil else { return false }
            state.calls += 1
            state.unread += 1
            return true
        }
    }

    /// A call wants it no more.
    ///
    /// - Parameter isUnread: Whether nobody has ever read it for the call.
    func leave(isUnread: Bool) {
        change { state in
            state.calls -= 1
            if isUnread { state.unread -= 1 }
        }
    }

    /// Somebody reads its parts.
    ///
    /// - Parameter isFirst: Whether it is the one for whom the call has waited.
    func readerJoined(isFirst: Bool) {
        let drain = state.withLock { state in
            state.readers += 1
            if isFirst { state.unread -= 1 }
            defer { state.drain = nil }
            return state.drain
        }
        drain?.leave()
    }

    /// Somebody reads no more.
    func readerLeft() { change { $0.readers -= 1 } }

    private func change(_ body: (inout State) -> Void) {
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

    /// Goes on although nobody reads it, in a place for such runs.
    func drain(_ place: DrainPool.Place) {
        let isKept = state.withLock { state in
            guard state.readers == 0, state.drain == nil, !state.hasEnded else { return false }
            state.drain = place
            return true
        }
        if !isKept { place.leave() }
    }

    /// Ends it for all who follow.
    func end(_ end: FlightEnd) {
        log.end()
        let drain = state.withLock { state in
            state.hasEnded = true
            defer { state.drain = nil }
            return state.drain
        }
        drain?.leave()
        ending.resolve(end)
    }
}

/// The runs that others may join, by what they make.
///
/// Invariants:
/// 1. There is at most one run for a key at a time, except those that are cut short. (A call that
///    has waited for ``CallLimits/refusedLeaders`` runs by itself, and its run is not here.)
/// 2. A run is here from before its leader is accepted until its result is in the memory tier, or
///    it has failed: whoever finds neither run nor result may begin.
///
/// Mutable state: `flights`, guarded by the mutex; bounded by the calls that are accepted. The tier
/// and a flight are asked under the lock, so that nothing comes between; neither knows this table.
final class FlightTable: Sendable {
    /// What a call finds.
    enum Found {
        /// Nothing: it leads this run, which others find from now on.
        case lead(Flight)
        /// A run to follow, which the call wants from now on; see ``Flight/leave(isUnread:)``.
        case follow(Flight)
        /// An answer that was kept meanwhile.
        case known(ResultRow)
    }

    private let flights = Mutex<[ResultKey: Flight]>([:])
    private let tier: ResultTier

    init(over tier: ResultTier) { self.tier = tier }

    /// Finds what is known for a key, or begins.
    func find(_ key: ResultKey, at now: Timestamp, else make: () -> Flight) -> Found {
        flights.withLock { flights in
            if let row = tier.find(key.bytes, at: now) { return .known(row) }
            if let flight = flights[key], flight.join() { return .follow(flight) }
            let flight = make()
            flights[key] = flight
            return .lead(flight)
        }
    }

    /// A run is over, or was never begun.
    func remove(_ key: ResultKey, _ flight: Flight) {
        flights.withLock { flights in
            if flights[key] === flight { flights[key] = nil }
        }
    }
}
