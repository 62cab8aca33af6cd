import OrderedCollections
import SanguineModel
import Synchronization

/// The calls that run in this process, by their keys.
///
/// Invariants:
/// 1. A call is listed from its acceptance until it is settled, or left to its hold's expiry.
/// 2. After ``abandon()``, no client waits: each gets the error that the server is stopping.
/// 3. If nothing of a call is stored before its end, its key is reserved before its acceptance and
///    until the call is settled or given up. The key of any call is reserved while its end waits
///    for the storage, because a failing storage cannot tell that the key is taken.
/// 4. No such key is reserved during the acceptance of a call that is stored from its start:
///    neither the storage nor the reservation would reveal one to the other.
/// 5. The keys of a guest that was merged while its calls ran are those of the account: `aliases`
///    has the last ``CallLimits/mergedGuests`` such guests, and no other key has one of them.
///
/// Mutable state: `state`, guarded by its mutex.
final class RunningCalls: Sendable {
    fileprivate struct State {
        var calls: [OperationPosition: RunningCall] = [:]
        /// The keys of calls that the storage does not know, or whose end it does not know yet.
        var reserved: [OperationPosition: Reservation] = [:]
        /// The keys of calls whose acceptance is being stored.
        var accepting: [OperationPosition: Acceptances] = [:]
        var isStopped = false
        /// The number of current requests for each call: its run and its repetitions.
        var requestCounts: [OperationPosition: Int] = [:]
        /// The accounts into which guests were merged while their calls ran.
        var aliases: OrderedDictionary<Identifier, Identifier> = [:]
        var whenIdle: [CheckedContinuation<Void, Never>] = []
    }

    /// The reservation of a key by a call.
    fileprivate struct Reservation {
        let fingerprint: Fingerprint
        /// The call's id.
        let operation: Identifier
    }

    /// Concurrent acceptances with one key, of which the storage allows one.
    fileprivate struct Acceptances {
        /// The fingerprint of the first one.
        let fingerprint: Fingerprint
        var count = 0
    }

    private let state = Mutex(State())

    /// Whether the server has stopped waiting for calls.
    var isStopped: Bool { state.withLock { $0.isStopped } }

    /// The number of running calls.
    var count: Int { state.withLock { $0.calls.count } }

    /// The time when the oldest of the calls' runs began; `nil` if there are no calls.
    var oldestRun: Timestamp? {
        state.withLock { $0.calls.values.lazy.map(\.sharedRun.beganAt).min() }
    }

    /// Returns the call with the key, if it is running here.
    func call(_ position: OperationPosition) -> RunningCall? {
        state.withLock { $0.calls[$0.aliased(position)] }
    }

    /// Returns the keys of the account's calls that run here.
    func positions(of account: Identifier) -> [OperationPosition] {
        state.withLock { $0.calls.keys.filter { $0.account == account } }
    }

    func add(_ call: RunningCall) {
        let isStopped = state.withLock { state in
            state.calls[state.aliased(call.call.position)] = call
            return state.isStopped
        }
        if isStopped { call.ending.resolve(.failure(.stopping)) }
    }

    /// Removes a call.
    ///
    /// The key of an unsettled call stays reserved until ``release(_:of:)``.
    func remove(_ call: RunningCall, isUnsettled: Bool = false) {
        let waiting = state.withLock { state -> [CheckedContinuation<Void, Never>] in
            // The key may have been deleted and used again before this.
            let position = state.aliased(call.call.position)
            if state.calls[position] === call {
                state.calls[position] = nil
                if !isUnsettled { state.release(call.call.position, of: call.call.operation) }
            }
            guard state.calls.isEmpty else { return [] }
            defer { state.whenIdle = [] }
            return state.whenIdle
        }
        for caller in waiting { caller.resume() }
    }

    /// Notifies all clients that the server is stopping; the calls continue for as long as the
    /// process runs.
    func abandon() {
        let (calls, idle) = state.withLock { state in
            state.isStopped = true
            defer { state.whenIdle = [] }
            return (Array(state.calls.values), state.whenIdle)
        }
        for call in calls {
            call.ending.resolve(.failure(.stopping))
            call.sharedRun.log.wakeAll()
        }
        for caller in idle { caller.resume() }
    }

    /// Waits until no call is running, or for the next ``abandon()``.
    ///
    /// - Parameter isInVain: Whether it returns at once if ``abandon()`` was called earlier.
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

    /// Refuses a request whose key is reserved, as the storage would if it knew the call.
    ///
    /// - Throws: `idempotency_mismatch`, `operation_in_progress`.
    func check(_ position: OperationPosition, _ fingerprint: Fingerprint) throws(Problem) {
        let reserved = state.withLock { $0.reserved[$0.aliased(position)]?.fingerprint }
        try Self.check(reserved, fingerprint)
    }

    /// Reserves a key for a call that is stored only at its end.
    ///
    /// - Throws: see ``check(_:_:)``.
    func reserve(
        _ position: OperationPosition,
        _ fingerprint: Fingerprint,
        for operation: Identifier
    ) throws(Problem) {
        let taken = state.withLock { state in
            let position = state.aliased(position)
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

    /// Reserves the key of a call whose end waits for the storage, unless the key is taken.
    func keep(_ call: AcceptedCall, _ fingerprint: Fingerprint) {
        state.withLock { state in
            let position = state.aliased(call.position)
            guard state.reserved[position] == nil else { return }
            state.reserved[position] = Reservation(
                fingerprint: fingerprint,
                operation: call.operation
            )
        }
    }

    /// Releases the key of a call that was not accepted, was settled, or never will be.
    func release(_ position: OperationPosition, of operation: Identifier) {
        state.withLock { $0.release(position, of: operation) }
    }

    /// Blocks reservations of a key during the acceptance of a call that is stored from its start.
    ///
    /// Several acceptances with one key may run concurrently: the storage refuses all but one.
    ///
    /// - Throws: see ``check(_:_:)``.
    func beginAcceptance(
        _ position: OperationPosition,
        _ fingerprint: Fingerprint
    ) throws(Problem) {
        let reserved = state.withLock { state in
            let position = state.aliased(position)
            let reserved = state.reserved[position]?.fingerprint
            if reserved == nil {
                let new = Acceptances(fingerprint: fingerprint)
                state.accepting[position, default: new].count += 1
            }
            return reserved
        }
        try Self.check(reserved, fingerprint)
    }

    /// Ends an acceptance, which the storage has stored or refused.
    func endAcceptance(_ position: OperationPosition) {
        state.withLock { state in
            let position = state.aliased(position)
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

    /// Counts a request for a call.
    func beginRequest(_ position: OperationPosition) {
        state.withLock { $0.requestCounts[$0.aliased(position), default: 0] += 1 }
    }

    /// Removes a request that was answered.
    func endRequest(_ position: OperationPosition) {
        state.withLock { state in
            let position = state.aliased(position)
            let others = (state.requestCounts[position] ?? 1) - 1
            state.requestCounts[position] = others > 0 ? others : nil
        }
    }

    /// Returns whether the call of this hold is running here, or is being accepted.
    ///
    /// A monotonic clock decides whether the hold has expired.
    func isRunning(_ hold: HoldRow, at now: Duration) -> Bool {
        guard let key = hold.operation else { return false }
        let position = OperationPosition(account: hold.account, key: key)
        return state.withLock { state in
            let position = state.aliased(position)
            if let call = state.calls[position], call.call.hold == hold.id {
                return now < call.expiresAt
            }
            return state.accepting[position] != nil
        }
    }

    /// Returns whether the call is not running here, and only one request concerns it.
    func isAlone(_ position: OperationPosition) -> Bool {
        state.withLock { state in
            let position = state.aliased(position)
            return state.calls[position] == nil && state.requestCounts[position] == 1
        }
    }

    // MARK: - Merges

    /// Makes the calls of a guest those of the account into which it was merged.
    ///
    /// A key that both have used remains the account's; the guest's call ends without being listed.
    func rehome(_ guest: Identifier, to account: Identifier) {
        state.withLock { $0.rehome(guest, to: account) }
    }
}

extension RunningCalls.State {
    /// Returns the position of a key, which is that of the account for a merged guest.
    fileprivate func aliased(_ position: OperationPosition) -> OperationPosition {
        guard !aliases.isEmpty, let account = aliases[position.account] else { return position }
        return OperationPosition(account: account, key: position.key)
    }

    fileprivate mutating func rehome(_ guest: Identifier, to account: Identifier) {
        let hasMoved = [
            Self.move(&calls, guest, account), Self.move(&reserved, guest, account),
            Self.move(&accepting, guest, account), Self.move(&requestCounts, guest, account),
        ].contains(true)
        guard hasMoved else { return }
        aliases[guest] = account
        if aliases.count > CallLimits.mergedGuests { aliases.removeFirst() }
    }

    /// Moves the entries of a guest, and returns whether there were any.
    private static func move<Value>(
        _ entries: inout [OperationPosition: Value],
        _ guest: Identifier,
        _ account: Identifier
    ) -> Bool {
        let own = entries.keys.filter { $0.account == guest }
        for position in own {
            let value = entries.removeValue(forKey: position)
            let new = OperationPosition(account: account, key: position.key)
            if entries[new] == nil { entries[new] = value }
        }
        return !own.isEmpty
    }

    fileprivate mutating func release(_ position: OperationPosition, of operation: Identifier) {
        let position = aliased(position)
        if reserved[position]?.operation == operation { reserved[position] = nil }
    }
}
