import SanguineModel
import Synchronization

/// The calls that this process runs now, by their keys.
///
/// Invariants:
/// 1. A call is here from its acceptance until it is settled, or left to its hold's expiry.
/// 2. After ``abandon()`` nobody waits: whoever comes is told that the server stops.
/// 3. A key is reserved from before its call is accepted until the call is settled or given up, if
///    nothing of the call is stored in between. The key of any call is reserved while its end waits
///    for the storage: a storage that fails cannot tell that the key is taken.
/// 4. No such key is reserved while a call is accepted under it that is stored from its start:
///    neither the storage nor a reservation would tell one of the two of the other.
///
/// Mutable state: `state`, guarded by the mutex.
final class LiveCalls: Sendable {
    fileprivate struct State {
        var calls: [OperationPosition: RunningCall] = [:]
        /// The keys of calls of which the storage knows nothing, or not yet how they have ended.
        var reserved: [OperationPosition: Reservation] = [:]
        /// The keys of calls whose acceptance is on its way to the storage.
        var accepting: [OperationPosition: Acceptances] = [:]
        var isStopped = false
        /// How many requests of this process are about a call now: its run and its repetitions.
        var present: [OperationPosition: Int] = [:]
        var whenIdle: [CheckedContinuation<Void, Never>] = []
    }

    /// A key that is taken by a call.
    fileprivate struct Reservation {
        let fingerprint: Fingerprint
        /// The call's id.
        let operation: Identifier
    }

    /// Calls that are being accepted under one key: the storage takes one of them.
    fileprivate struct Acceptances {
        /// Of the one that came first.
        let fingerprint: Fingerprint
        var count = 0
    }

    private let state = Mutex(State())

    /// Whether the server's patience has ended.
    var isStopped: Bool { state.withLock { $0.isStopped } }

    /// How many calls run.
    var count: Int { state.withLock { $0.calls.count } }

    /// When the oldest run of a call began that is here; `nil` if there is none.
    var oldestRun: Timestamp? {
        state.withLock { $0.calls.values.lazy.map(\.flight.beganAt).min() }
    }

    /// The call of that key, if it runs here.
    func call(_ position: OperationPosition) -> RunningCall? {
        state.withLock { $0.calls[position] }
    }

    func add(_ call: RunningCall) {
        let isStopped = state.withLock { state in
            state.calls[call.call.position] = call
            return state.isStopped
        }
        if isStopped { call.ending.resolve(.failure(.stopping)) }
    }

    /// Runs a call no longer.
    ///
    /// The key of one that is unsettled stays reserved until ``release(_:of:)``.
    func remove(_ call: RunningCall, isUnsettled: Bool = false) {
        let waiting = state.withLock { state -> [CheckedContinuation<Void, Never>] in
            // Its key may have been forgotten, and used again before this.
            if state.calls[call.call.position] === call {
                state.calls[call.call.position] = nil
                if !isUnsettled { state.release(call.call.position, of: call.call.operation) }
            }
            guard state.calls.isEmpty else { return [] }
            defer { state.whenIdle = [] }
            return state.whenIdle
        }
        for caller in waiting { caller.resume() }
    }

    /// Tells all who wait that the server stops; the calls go on for as long as the process does.
    func abandon() {
        let (calls, idle) = state.withLock { state in
            state.isStopped = true
            defer { state.whenIdle = [] }
            return (Array(state.calls.values), state.whenIdle)
        }
        for call in calls {
            call.ending.resolve(.failure(.stopping))
            call.flight.log.wakeAll()
        }
        for caller in idle { caller.resume() }
    }

    /// Waits until no call runs, or for the next ``abandon()``.
    ///
    /// - Parameter isInVain: Whether it returns at once if there was one before.
    func waitUntilIdle(unlessStopped isInVain: Bool) async {
        await withCheckedContinuation { continuation in
            let isIdle = state.withLock { state in
                guard !state.calls.isEmpty, !(isInVain && state.isStopped) else { return true }
                state.whenIdle.append(continuation)
                return false
            }
            if isIdle { continuation.resume() }
        }
    }

    // MARK: - Keys

    /// Refuses a request whose key is reserved, as the storage would if it knew of the call.
    ///
    /// - Throws: `idempotency_mismatch`, `operation_in_progress`.
    func check(_ position: OperationPosition, _ fingerprint: Fingerprint) throws(Problem) {
        try Self.check(state.withLock { $0.reserved[position]?.fingerprint }, fingerprint)
    }

    /// Reserves a key for a call of which nothing is stored before it ends.
    ///
    /// - Throws: As ``check(_:_:)`` does.
    func reserve(
        _ position: OperationPosition,
        _ fingerprint: Fingerprint,
        for operation: Identifier
    ) throws(Problem) {
        let taken = state.withLock { state in
            let taken =
                state.reserved[position]?.fingerprint ?? state.accepting[position]?.fingerprint
            if taken == nil {
                let new = Reservation(fingerprint: fingerprint, operation: operation)
                state.reserved[position] = new
            }
            return taken
        }
        try Self.check(taken, fingerprint)
    }

    /// Reserves the key of a call whose end waits for the storage, unless it is taken.
    func keep(_ call: AcceptedCall, _ fingerprint: Fingerprint) {
        state.withLock { state in
            guard state.reserved[call.position] == nil else { return }
            state.reserved[call.position] = Reservation(
                fingerprint: fingerprint,
                operation: call.operation
            )
        }
    }

    /// Gives back the key of a call that was not accepted, was settled, or never will be.
    func release(_ position: OperationPosition, of operation: Identifier) {
        state.withLock { $0.release(position, of: operation) }
    }

    /// Keeps a key from being reserved while a call is accepted that is stored from its start.
    ///
    /// Several may be accepted under one key at a time: the storage refuses all but one.
    ///
    /// - Throws: As ``check(_:_:)`` does.
    func beginAcceptance(
        _ position: OperationPosition,
        _ fingerprint: Fingerprint
    ) throws(Problem) {
        let reserved = state.withLock { state in
            let reserved = state.reserved[position]?.fingerprint
            if reserved == nil {
                let new = Acceptances(fingerprint: fingerprint)
                state.accepting[position, default: new].count += 1
            }
            return reserved
        }
        try Self.check(reserved, fingerprint)
    }

    /// The call was accepted, which the storage knows now, or refused.
    func endAcceptance(_ position: OperationPosition) {
        state.withLock { state in
            state.accepting[position]?.count -= 1
            if state.accepting[position]?.count == 0 { state.accepting[position] = nil }
        }
    }

    private static func check(
        _ reserved: Fingerprint?,
        _ fingerprint: Fingerprint
    ) throws(Problem) {
        guard let reserved else { return }
        throw reserved == fingerprint ? .stillRuns : .otherRequest
    }

    // MARK: - Requests

    /// A request about a call has come.
    func enter(_ position: OperationPosition) {
        state.withLock { $0.present[position, default: 0] += 1 }
    }

    /// It was answered.
    func leave(_ position: OperationPosition) {
        state.withLock { state in
            let others = (state.present[position] ?? 1) - 1
            state.present[position] = others > 0 ? others : nil
        }
    }

    /// Whether a call runs here, or is being accepted, that this hold pays for.
    ///
    /// Whether the hold's time is over is measured by a clock that never jumps.
    func isRunning(_ hold: HoldRow, at now: Duration) -> Bool {
        guard let key = hold.operation else { return false }
        let position = OperationPosition(account: hold.account, key: key)
        return state.withLock { state in
            if let call = state.calls[position], call.call.hold == hold.id {
                return now < call.expiresAt
            }
            return state.accepting[position] != nil
        }
    }

    /// Whether nothing of this process but one request is about the call.
    func isAlone(_ position: OperationPosition) -> Bool {
        state.withLock { $0.calls[position] == nil && $0.present[position] == 1 }
    }
}

extension LiveCalls.State {
    fileprivate mutating func release(_ position: OperationPosition, of operation: Identifier) {
        if reserved[position]?.operation == operation { reserved[position] = nil }
    }
}

extension Problem {
    /// Not 503, which would say that nothing was changed: the call was accepted.
    static var stopping: Problem {
        Problem(
            .operationInProgress,
            "The server stops: send the call again with the same key, which gets its end.",
            retryAfter: 1
        )
    }
}
