import OrderedCollections
import SanguineModel

/// The user's balance, and the only code that decides what is shown of it.
///
///     visible = base ⊕ pending
///
/// *Base* is the last server balance that was adopted. *Pending* are this device's calls that it
/// may not contain. The answer to one call does not replace the base while others are in progress:
/// it is unknown whether its number contains their holds, and a guess would make the shown number
/// jump back and forth. Instead the call is marked as charged, which is exact, and the answer's
/// balance is kept as the *candidate*. A candidate becomes the base, and all calls that it contains
/// leave the list in the same step, once its content is known for each pending call:
///
/// - its end, if the call is known to have ended at the candidate's number or before;
/// - the server's statement, if the fetch asked about the call (`?operations=`);
/// - nothing, if the call began after the candidate was received.
///
/// A call leaves the list only when the base contains its end, or when it never took effect. A call
/// that failed after its hold was placed stays too, without effect, because a balance on its way
/// may still contain that hold.
///
/// Each method is one event. Nothing here waits, reads a clock or writes; ``BalanceKeeper`` does.
///
/// Invariants, checked by ``checkInvariants()`` after every event in debug builds:
///
/// 1. The base's number never decreases, except by ``reset()`` and ``beginEpoch()``.
/// 2. No pending call is known to have ended at the base's number or before.
/// 3. A call whose end the base contains stays in the list only while a request for it is in
///    progress.
/// 4. A candidate is newer than the base.
/// 5. There are at most ``BalanceLimits/pendingCalls`` pending calls, and ``BalanceLimits/history``
///    balances in the history.
struct BalanceState: Sendable {
    /// The account of the balance; `nil` until it is known.
    private(set) var account: Identifier?
    private(set) var base: BalanceSnapshot?
    private(set) var candidate: BalanceSnapshot?
    /// By idempotency key, in the order in which they began.
    private var pending: OrderedDictionary<String, PendingCharge> = [:]
    /// The newest comes last.
    private(set) var history: [RecordedBalance] = []
    private(set) var costs = LearnedCosts()
    /// The number of balances from the server that differed from the shown one although every
    /// charge of this device was known; see ``adopt(_:)``.
    private(set) var mismatches = 0

    /// Creates the state of a client without data.
    init() {}

    /// Restores the state that an earlier process left.
    ///
    /// Its calls in progress were cut off, except for those that are sent again.
    init(
        restoring archive: BalanceArchive,
        sendingAgain isQueued: (String) -> Bool = { _ in false }
    ) {
        account = archive.account
        base = archive.base.map {
            BalanceSnapshot(balance: $0.balance, traces: [:], receivedAt: $0.receivedAt)
        }
        history = archive.history.suffix(BalanceLimits.history)
        costs = archive.costs
        for var call in archive.pending.prefix(BalanceLimits.pendingCalls) {
            if call.isSending, !isQueued(call.key) { call.phase = .unanswered }
            pending[call.key] = call
        }
        removeContained()
    }

    /// The pending calls, in the order in which they began.
    var calls: [PendingCharge] { Array(pending.values) }

    /// Returns the pending call of that key, or `nil` if none is pending.
    func call(_ key: String) -> PendingCharge? { pending[key] }

    /// Base ⊕ pending, or `nil` if no balance was ever received.
    ///
    /// A prediction may exceed the balance, and the server refuses such calls: so it never shows
    /// less than zero, or than the server's balance if a refund has taken that below zero.
    var visible: Balance? {
        guard var balance = base?.balance else { return nil }
        for call in pending.values {
            balance.available += call.effectOnAvailable
            balance.held += call.effectOnHeld
        }
        balance.available = max(min(0, base?.balance.available ?? 0), balance.available)
        balance.held = max(0, balance.held)
        return balance
    }

    /// Whether the base can only be brought up to date by a fetch.
    ///
    /// This is the case if calls wait for a base and no call is in progress whose answer could
    /// supply one, or if many calls wait because one is always in progress.
    var wantsFetch: Bool {
        guard !pending.isEmpty else { return false }
        let waiting = pending.values.count { $0.phase == .waiting }
        let sending = pending.values.count { $0.isSending }
        let open = pending.count - waiting - sending
        return open > (sending == 0 ? 0 : BalanceLimits.answeredCalls)
    }

    /// Whether a fetch brings the base up to date at once, because no call is open.
    var awaitsBase: Bool { wantsFetch && !pending.values.contains(where: \.isAskedAfter) }

    /// Whether there is a base, and no newer epoch has begun since.
    var isOfEpoch: Bool { base.map { $0.balance.head >= 0 } ?? false }

    /// Whether the base was received less than ``BalanceLimits/freshness`` ago.
    ///
    /// A time in the future counts as stale, because the clock was changed.
    func isFresh(at now: Timestamp) -> Bool {
        guard let receivedAt = base?.receivedAt else { return false }
        return receivedAt <= now && now - receivedAt <= BalanceLimits.freshness
    }

    /// Returns the refusal of a call that costs something, if a refund has left a debt.
    ///
    /// The server would refuse it too. A stale balance refuses nothing, because the debt may have
    /// been covered in the meantime.
    func refusal(ofCost cost: Int64, at now: Timestamp) -> Problem? {
        guard cost > 0, let balance = visible, balance.debt > 0, isFresh(at: now) else {
            return nil
        }
        var problem = Problem(
            .insufficientTokens,
            "Get more tokens first: \(balance.debt) of a refunded purchase are not covered."
        )
        (problem.available, problem.held) = (balance.available, balance.held)
        problem.required = cost
        return problem
    }

    /// Records a call before its first request, which shows its hold to the user.
    ///
    /// Returns `false`, and changes nothing, if too many calls are pending.
    mutating func began(
        _ key: String,
        function: String,
        expectedCost: Int64,
        tokensInstead: Int64 = 0,
        isWaiting: Bool = false,
        isWithheld: Bool = false,
        at now: Timestamp
    ) -> Bool {
        defer { checkInvariants() }
        guard pending.count < BalanceLimits.pendingCalls, pending[key] == nil else { return false }
        pending[key] = PendingCharge(
            key: key,
            predicted: min(
                max(0, costs.expectedCost(of: function) ?? expectedCost) + tokensInstead,
                WireLimits.amount
            ),
            since: now,
            phase: isWaiting ? .waiting : .sending,
            trace: .absent,
            isWithheld: isWithheld ? true : nil
        )
        candidate?.traces[key] = .absent
        return true
    }

    /// Records that a call that was waiting for a network is being sent.
    mutating func sends(_ key: String) {
        defer { checkInvariants() }
        guard pending[key]?.phase == .waiting else { return }
        pending[key]?.phase = .sending
        candidate?.traces[key] = .absent
    }

    /// Records that a call is queued and will be sent, for the first time or again.
    ///
    /// - Parameters:
    ///   - key: The key of the call.
    ///   - outcomeUnknown: Whether a request may have reached the server.
    mutating func queued(_ key: String, outcomeUnknown: Bool) {
        defer { checkInvariants() }
        switch pending[key]?.phase {
        case .waiting, .sending, .unanswered:
            pending[key]?.phase = outcomeUnknown ? .sending : .waiting
        case .charged, .released, .settled, nil: return
        }
        adoptCandidate()
    }

    /// Records the answer to a call.
    ///
    /// - Parameters:
    ///   - key: The key of the call.
    ///   - function: The function whose cost is learned; `nil` if it was learned before.
    ///   - answer: The answer's statement about the balance.
    ///   - now: The current time.
    mutating func answered(
        _ key: String,
        function: String?,
        _ answer: CallCost,
        at now: Timestamp
    ) {
        defer { checkInvariants() }
        pending[key]?.phase = .charged(answer.charged, head: answer.head)
        if !answer.cached, let function {
            costs.learn(answer.charged - answer.tokensInstead, of: function)
        }
        let balance = Balance(
            unit: base?.balance.unit ?? "tokens",
            available: answer.available,
            held: answer.held,
            head: answer.head,
            asOf: now
        )
        offer(BalanceSnapshot(balance: balance, traces: [:], receivedAt: now))
    }

    /// Records that a call was refused and never took effect.
    mutating func refused(_ key: String) {
        defer { checkInvariants() }
        guard let call = pending[key] else { return }
        if case .running = call.trace {
            // The base contains a hold for it anyway: only a newer balance shows its release.
            pending[key]?.phase = .released(head: nil)
        } else {
            pending[key] = nil
        }
        adoptCandidate()
    }

    /// Records that a call failed after its hold was placed, and that the hold was released.
    ///
    /// - Parameters:
    ///   - key: The key of the call.
    ///   - head: The first number at which balances contain the release, if it is known.
    mutating func released(_ key: String, head: Int64?) {
        defer { checkInvariants() }
        end(key, .released(head: head))
    }

    /// Records that the user ended a call, at the given price.
    mutating func cancelled(_ key: String, charged: Int64, _ balance: Balance, at now: Timestamp) {
        defer { checkInvariants() }
        pending[key]?.phase = .charged(charged, head: balance.head)
        offer(BalanceSnapshot(balance: balance, traces: [:], receivedAt: now))
    }

    /// Records that a call has ended, at a price that only a newer base contains.
    mutating func settled(_ key: String, head: Int64) {
        defer { checkInvariants() }
        end(key, .settled(head: head))
    }

    /// Records that a call will not be sent again and that its outcome is unknown.
    mutating func gaveUp(_ key: String) {
        defer { checkInvariants() }
        end(key, .unanswered)
    }

    /// Records a call's outcome, unless it is known already.
    private mutating func end(_ key: String, _ phase: PendingCharge.Phase) {
        if pending[key]?.isOpen == true { pending[key]?.phase = phase }
        adoptCandidate()
    }

    /// The number of fetches it may take to ask about all open calls.
    var inquiries: Int {
        let open = pending.values.count(where: \.isAskedAfter)
        return max(1, (open + WireLimits.operationsAsked - 1) / WireLimits.operationsAsked)
    }

    /// Returns the calls that the next fetch must ask about so that its answer can be adopted.
    ///
    /// Calls missing from the candidate come first: several fetches at one number of the feed
    /// together cover more calls than one may name.
    func inquiry() -> BalanceInquiry {
        let all = pending.values.filter(\.isAskedAfter)
        let known = candidate?.traces ?? [:]
        let open =
            all.count <= WireLimits.operationsAsked
            ? all[...]
            : (all.filter { known[$0.key] == nil } + all.filter { known[$0.key] != nil })
                .prefix(WireLimits.operationsAsked)
        return BalanceInquiry(
            keys: open.map(\.key),
            idle: Set(open.filter { !$0.isSending }.map(\.key))
        )
    }

    /// Records a fetched balance; fetches may complete in any order.
    mutating func fetched(_ balance: Balance, for inquiry: BalanceInquiry, at now: Timestamp) {
        defer { checkInvariants() }
        var snapshot = BalanceSnapshot(balance: balance, traces: [:], receivedAt: now)
        snapshot.balance.operations = nil
        for key in inquiry.keys {
            guard let state = balance.operations?[key] else { continue }
            snapshot.traces[key] = PendingCharge.Trace(state)
        }
        for key in inquiry.idle { reconcile(key, with: snapshot) }
        offer(snapshot)
    }

    /// Records the account.
    ///
    /// The balance and calls of another account are forgotten.
    mutating func signedIn(_ id: Identifier) {
        if let account, account != id { reset() }
        account = id
    }

    /// Continues with the account that the guest has become a part of.
    mutating func moved(to id: Identifier) {
        account = id
        beginEpoch()
    }

    /// Begins a new epoch of numbers: the base stays, but counts as older than any later one, and
    /// the ends of calls must be asked for again.
    mutating func beginEpoch() {
        defer { checkInvariants() }
        base?.balance.head = -1
        candidate = nil
        for index in pending.values.indices {
            pending.values[index].trace = .absent
            switch pending.values[index].phase {
            case .charged, .settled: pending.values[index].phase = .unanswered
            case .released: pending.values[index].phase = .released(head: nil)
            case .waiting, .sending, .unanswered: break
            }
        }
    }

    /// Forgets all data of the user, as after a sign-out.
    ///
    /// This includes the costs of their calls, which show which functions they use and how much
    /// they pay.
    mutating func reset() { self = BalanceState() }
}

// MARK: - Decisions

extension BalanceState {
    /// Settles a call for which no request was in progress at the fetch.
    private mutating func reconcile(_ key: String, with snapshot: BalanceSnapshot) {
        guard let call = pending[key], call.isOpen, !call.isSending else { return }
        let head = snapshot.balance.head
        let wasReleased = call.phase == .released(head: nil)
        switch snapshot.traces[key] {
        case .running:
            break  // It still runs: the next fetch knows more.
        case .absent where call.trace == .absent:
            pending[key] = nil  // It never happened.
        case .absent:
            pending[key]?.phase = .released(head: head)
        case .settled:
            pending[key]?.phase = wasReleased ? .released(head: head) : .settled(head: head)
        case nil where snapshot.receivedAt - call.since >= BalanceLimits.unansweredLifetime:
            pending[key]?.phase = wasReleased ? .released(head: head) : .settled(head: head)
        case nil:
            break
        }
    }

    /// Adopts the snapshot if possible; otherwise keeps it if it is the newest.
    private mutating func offer(_ snapshot: BalanceSnapshot) {
        if !adopt(snapshot), snapshot.balance.head >= candidate?.balance.head ?? .min {
            var snapshot = snapshot
            if let candidate, candidate.balance.head == snapshot.balance.head {
                // They have the same number, so the traces of one apply to the other.
                snapshot.traces.merge(candidate.traces) { own, _ in own }
            }
            candidate = snapshot
        }
        adoptCandidate()
    }

    private mutating func adoptCandidate() {
        if let candidate { _ = adopt(candidate) }
        if let candidate, let base, candidate.balance.head <= base.balance.head {
            self.candidate = nil
        }
        removeContained()
    }

    /// Makes the snapshot the base, and removes the calls that it contains in the same step.
    private mutating func adopt(_ snapshot: BalanceSnapshot) -> Bool {
        if let base, snapshot.balance.head < base.balance.head { return false }
        var traces: [PendingCharge.Trace] = []
        traces.reserveCapacity(pending.count)
        for call in pending.values {
            guard let trace = call.trace(in: snapshot) else { return false }
            traces.append(trace)
        }
        if isMismatch(snapshot) { mismatches += 1 }
        for index in traces.indices { pending.values[index].trace = traces[index] }
        base = snapshot
        record(snapshot)
        removeContained()
        return true
    }

    /// Whether a balance, as of the end of this device's last pending call, differs from the shown
    /// one, although the price of each pending call is known.
    ///
    /// The cause is a fault of this client, or another device that has spent or received tokens
    /// during these calls.
    private func isMismatch(_ snapshot: BalanceSnapshot) -> Bool {
        guard let shown = visible, let last = pending.values.compactMap(\.head).max(),
            last == snapshot.balance.head, pending.values.allSatisfy(\.hasKnownPrice)
        else { return false }
        return shown.available != snapshot.balance.available
            || shown.held != snapshot.balance.held
    }

    private mutating func removeContained() {
        let head = base?.balance.head ?? .min
        pending.removeAll { _, call in
            if let end = call.head, end <= head { return true }
            return call.trace == .settled && !call.isSending
        }
    }

    private mutating func record(_ snapshot: BalanceSnapshot) {
        let last = history.last?.balance
        let new = snapshot.balance
        guard last?.available != new.available || last?.held != new.held else { return }
        history.append(RecordedBalance(balance: new, receivedAt: snapshot.receivedAt))
        history.removeFirst(max(0, history.count - BalanceLimits.history))
    }

    func checkInvariants() {
        assert(pending.count <= BalanceLimits.pendingCalls)
        assert(history.count <= BalanceLimits.history)
        guard let base = base?.balance else { return }
        assert(
            candidate.map { $0.balance.head > base.head } ?? true,
            "The candidate is not newer than the base."
        )
        assert(
            pending.values.allSatisfy { ($0.head ?? .max) > base.head },
            "A pending call is already in the base."
        )
        assert(
            pending.values.allSatisfy { $0.trace != .settled || $0.isSending },
            "A settled call is still in the list."
        )
    }
}

extension PendingCharge.Trace {
    init(_ state: OperationState) {
        self =
            switch state.phase {
            case .unknown: .absent
            case .running: .running(held: state.held)
            case .settled: .settled
            }
    }
}
