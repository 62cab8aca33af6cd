import SanguineModel
import Synchronization

/// How a run of a function has ended.
enum FlightEnd: Sendable {
    /// It made an output, of that price.
    case made(output: [UInt8], charge: Int64)
    /// It failed, and made nothing.
    case failed(Problem)
    /// It was cut short; if it was sent, what was made is charged.
    case cut(Problem, wasSent: Bool)
    /// It never began: nothing is kept of it.
    case withdrawn(Problem)
}

/// One run of a function, which any number of calls share.
///
/// The first call leads: it is accepted before anybody follows, and what it pays for is what is run.
/// Calls and readers may leave; the run goes on for as long as it is wanted, as the function
/// declares.
///
/// Invariants:
/// 1. It ends once, also if it was cancelled before it began.
/// 2. It is cancelled only if no call wants it any more, or all of its readers have left and its
///    rules say so.
///
/// Mutable state: `state`, by its mutex; log, election and ending guard their own.
final class Flight: Sendable {
    private struct State {
        /// Calls that are not settled yet.
        var calls = 0
        /// Of them, those whose answer is waited for in one piece.
        var plain = 0
        var readers = 0
        var task: Task<FlightEnd, Never>?
        var isSent = false
        var cutReason: Problem?
        /// The place of a run that goes on although nobody reads it.
        var drain: SharedPool.Place?
    }

    /// The run's id, under which its parts are stored.
    let id: Identifier
    /// Whether the answer comes in parts.
    let isStreamed: Bool
    /// The parts.
    let log = AnswerLog()
    /// Whether the leading call was accepted.
    let election = OneAnswer<Bool>()
    /// How it has ended.
    let ending = OneAnswer<FlightEnd>()
    /// Called when the last reader has left and no call waits for the answer in one piece.
    private let onUnread: @Sendable (Flight) -> Void

    private let state = Mutex(State())

    init(id: Identifier, isStreamed: Bool, onUnread: @escaping @Sendable (Flight) -> Void) {
        self.id = id
        self.isStreamed = isStreamed
        self.onUnread = onUnread
    }

    /// Why it is cut short, once it is.
    var cutReason: Problem? { state.withLock { $0.cutReason } }

    /// Whether it has left for the upstream.
    var isSent: Bool { state.withLock { $0.isSent } }

    /// It leaves for the upstream now.
    func sent() { state.withLock { $0.isSent = true } }

    /// Begins the run.
    func begin(_ body: @escaping @Sendable () async -> FlightEnd) async -> FlightEnd {
        let task = Task { await body() }
        let isCancelled = state.withLock { state in
            state.task = task
            return state.cutReason != nil
        }
        if isCancelled { task.cancel() }
        return await task.value
    }

    /// Cuts the run short; only the first reason counts.
    func cancel(_ reason: Problem) {
        state.withLock { state in
            if state.cutReason == nil { state.cutReason = reason }
            return state.task
        }?.cancel()
    }

    // MARK: - Who wants it

    /// A call shares the run from now on.
    func join(isPlain: Bool) {
        state.withLock { state in
            state.calls += 1
            if isPlain { state.plain += 1 }
        }
    }

    /// A call is settled.
    ///
    /// - Returns: Whether others are left.
    @discardableResult
    func leave(isPlain: Bool) -> Bool {
        state.withLock { state in
            state.calls -= 1
            if isPlain { state.plain -= 1 }
            return state.calls > 0
        }
    }

    /// Whether one call alone wants it.
    var isOnesOwn: Bool { state.withLock { $0.calls == 1 } }

    /// Somebody reads its parts.
    func readerJoined() {
        let drain = state.withLock { state in
            state.readers += 1
            defer { state.drain = nil }
            return state.drain
        }
        drain?.leave()
    }

    /// Somebody reads no more.
    func readerLeft() {
        let isUnread = state.withLock { state in
            state.readers -= 1
            return state.readers == 0 && state.plain == 0
        }
        if isUnread, ending.value == nil { onUnread(self) }
    }

    /// Goes on although nobody reads it, in a place for such runs.
    func drain(_ place: SharedPool.Place) {
        let isKept = state.withLock { state in
            guard state.readers == 0 else { return false }
            state.drain = place
            return true
        }
        if !isKept { place.leave() }
    }

    /// Ends it for all who follow.
    func end(_ end: FlightEnd) {
        log.end()
        ending.resolve(end)
        state.withLock { state in
            defer { state.drain = nil }
            return state.drain
        }?.leave()
    }
}

/// The runs that others may join, by what they make.
///
/// Invariants:
/// 1. There is at most one run for a key at a time.
/// 2. A run is here from before its leader is accepted until its result is in the memory tier, or
///    it has failed: whoever finds neither run nor result may begin.
///
/// Mutable state: `flights`, guarded by the mutex; bounded by the calls that are accepted.
final class FlightTable: Sendable {
    /// What a call finds.
    enum Found {
        /// Nothing: it leads this run, which others find from now on.
        case lead(Flight)
        /// A run to follow.
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
            if let flight = flights[key] { return .follow(flight) }
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
