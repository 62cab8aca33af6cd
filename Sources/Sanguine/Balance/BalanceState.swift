import OrderedCollections
import SanguineModel

/// What the client knows of the user's balance, and the only code that decides what they see.
///
///     visible = base ⊕ pending
///
/// *Base* is the last server balance that was adopted. *Pending* are our own calls that it may not
/// contain. An answer to one call does not replace the base while others are in flight: whether
/// their holds are in that number is not known, and guessing makes it dance. Instead the call is
/// marked as charged, which is exact, and the answer's balance is kept as the *candidate*. A
/// candidate becomes the base, in one step with everything that it contains leaving the list, once
/// it is known of each pending call what the candidate has of it:
///
/// - its end, if the call is known to have ended at the candidate's number or before;
/// - what the server said, if the fetch asked about it (`?operations=`);
/// - nothing, if the call began after the candidate was received.
///
/// A call leaves the list only when the base contains its end, or when it never happened. One that
/// failed after its hold was taken stays too, at no effect, because a balance that is still on its
/// way may show that hold.
///
/// Each method is one event. Nothing here waits, reads a clock or writes; ``BalanceKeeper`` does.
///
/// Invariants, checked by ``checkInvariants()`` after every event in debug builds:
///
/// 1. The base's number never falls, except by ``reset(account:)`` and ``beginEpoch()``.
/// 2. No pending call is known to have ended at the base's number or before.
/// 3. Of a call that ended in the base only a request under way keeps it in the list.
/// 4. A candidate is newer than the base.
/// 5. There are at most ``BalanceLimits/pendingCalls`` pending calls, and
///    ``BalanceLimits/history`` balances in the history.
struct BalanceState: Sendable {
    /// Whose balance it is; `nil` until that is known.
    private(set) var account: Identifier?
    private(set) var base: BalanceSnapshot?
    private(set) var candidate: BalanceSnapshot?
    /// By idempotency key, in the order in which they began.
    private var pending: OrderedDictionary<String, PendingCharge> = [:]
    /// The newest comes last.
    private(set) var history: [RecordedBalance] = []
    private(set) var costs = LearnedCosts()

    /// Creates the state of a client that knows nothing yet.
    init() {}

    /// Creates the state that an earlier process left.
    ///
    /// Its calls in flight were cut off, but for those that are sent again.
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

    /// The pending call of that key, or `nil` if it is none, or none any more.
    func call(_ key: String) -> PendingCharge? { pending[key] }

    /// Base ⊕ pending, or `nil` if no balance was ever received.
    ///
    /// Never below zero: a prediction may exceed what is there, and the server refuses such calls.
    var visible: Balance? {
        guard var balance = base?.balance else { return nil }
        for call in pending.values {
            balance.available += call.effectOnAvailable
            balance.held += call.effectOnHeld
        }
        balance.available = max(0, balance.available)
        balance.held = max(0, balance.held)
        return balance
    }

    /// Whether only a fetch can bring the base up to date.
    ///
    /// So it is when calls wait for a base and none is in flight whose answer could bring one, or
    /// when many wait because there is always one in flight.
    var wantsFetch: Bool {
        guard !pending.isEmpty else { return false }
        let waiting = pending.values.count { $0.phase == .waiting }
        let sending = pending.values.count { $0.isSending }
        let open = pending.count - waiting - sending
        return open > (sending == 0 ? 0 : BalanceLimits.answeredCalls)
    }

    /// Whether a fetch brings the base up to date at once: no call is open.
    var awaitsBase: Bool { wantsFetch && !pending.values.contains(where: \.isAskedAfter) }

    /// Whether there is a base, and no newer epoch has begun since.
    var isOfEpoch: Bool { base.map { $0.balance.head >= 0 } ?? false }

    /// Whether the base was received within ``BalanceLimits/freshness``.
    ///
    /// A time in the future counts as stale: the clock was changed.
    func isFresh(at now: Timestamp) -> Bool {
        guard let receivedAt = base?.receivedAt else { return false }
        return receivedAt <= now && now - receivedAt <= BalanceLimits.freshness
    }

    /// A call begins, before its first request: from now on the user sees its hold.
    ///
    /// Returns `false`, and changes nothing, if too many are pending.
    mutating func began(
        _ key: String,
        function: String,
        expectedCost: Int64,
        tokensInstead: Int64 = 0,
        isWaiting: Bool = false,
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
            trace: .absent
        )
        candidate?.traces[key] = .absent
        return true
    }

    /// A call that has waited for a network is sent.
    mutating func sends(_ key: String) {
        defer { checkInvariants() }
        guard pending[key]?.phase == .waiting else { return }
        pending[key]?.phase = .sending
        candidate?.traces[key] = .absent
    }

    /// A call was answered.
    ///
    /// - Parameters:
    ///   - key: The call's.
    ///   - function: Whose cost is learned from it; `nil` if it was before.
    ///   - answer: What it says of the balance.
    ///   - now: The time of day.
    mutating func answered(
        _ key: String,
        function: String?,
        _ answer: CallAnswer,
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

    /// A call was refused and never took effect.
    mutating func refused(_ key: String) {
        defer { checkInvariants() }
        guard let call = pending[key] else { return }
        if case .running = call.trace {
            // The base has a hold for it all the same: only a newer balance shows that it is gone.
            pending[key]?.phase = .released(head: nil)
        } else {
            pending[key] = nil
        }
        adoptCandidate()
    }

    /// A call failed after its hold was taken, and the hold was released.
    ///
    /// - Parameters:
    ///   - key: The call's.
    ///   - head: The number from which on balances contain the release, if it is known.
    mutating func released(_ key: String, head: Int64?) {
        defer { checkInvariants() }
        end(key, .released(head: head))
    }

    /// A call was ended by its owner, at that price.
    mutating func cancelled(_ key: String, charged: Int64, _ balance: Balance, at now: Timestamp) {
        defer { checkInvariants() }
        pending[key]?.phase = .charged(charged, head: balance.head)
        offer(BalanceSnapshot(balance: balance, traces: [:], receivedAt: now))
    }

    /// A call is known to have ended, at a price that only a newer base tells.
    mutating func settled(_ key: String, head: Int64) {
        defer { checkInvariants() }
        end(key, .settled(head: head))
    }

    /// A call will not be sent again, and whether it happened is not known.
    mutating func gaveUp(_ key: String) {
        defer { checkInvariants() }
        end(key, .unanswered)
    }

    /// Takes in what became of a call, unless that is known already.
    private mutating func end(_ key: String, _ phase: PendingCharge.Phase) {
        if pending[key]?.isOpen == true { pending[key]?.phase = phase }
        adoptCandidate()
    }

    /// How many fetches it may take until all open calls were asked about.
    var inquiries: Int {
        let open = pending.values.count(where: \.isAskedAfter)
        return max(1, (open + WireLimits.operationsAsked - 1) / WireLimits.operationsAsked)
    }

    /// What the next fetch has to ask about, so that its answer can be adopted.
    ///
    /// First about those of which the candidate does not know: at one number of the feed, several
    /// fetches together learn of more calls than one may name.
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

    /// A fetch was answered, in whatever order to others.
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

    /// The account became known, or another's.
    ///
    /// Another's balance and calls are forgotten.
    mutating func signedIn(_ id: Identifier) {
        if let account, account != id { reset() }
        account = id
    }

    /// Numbers begin again, in another epoch: the base stays, older than any that comes, and how
    /// calls have ended must be asked again.
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

    /// Forgets everything of the user, as after a sign-out.
    ///
    /// What their calls have cost, too: it says which functions they use, and for how much.
    mutating func reset() { self = BalanceState() }
}

// MARK: - Decisions

extension BalanceState {
    /// Ends the uncertainty about a call for which no request was under way at the fetch.
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

    /// Adopts the snapshot if it can be, else keeps it if it is the newest.
    private mutating func offer(_ snapshot: BalanceSnapshot) {
        if !adopt(snapshot), snapshot.balance.head >= candidate?.balance.head ?? .min {
            var snapshot = snapshot
            if let candidate, candidate.balance.head == snapshot.balance.head {
                // Of the same number: what is known of one is true of the other.
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

    /// Makes the snapshot the base, in one step with what it contains leaving the list.
    private mutating func adopt(_ snapshot: BalanceSnapshot) -> Bool {
        if let base, snapshot.balance.head < base.balance.head { return false }
        var traces: [PendingCharge.Trace] = []
        traces.reserveCapacity(pending.count)
        for call in pending.values {
            guard let trace = call.trace(in: snapshot) else { return false }
            traces.append(trace)
        }
        for index in traces.indices { pending.values[index].trace = traces[index] }
        base = snapshot
        record(snapshot)
        removeContained()
        return true
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
        assert(candidate.map { $0.balance.head > base.head } ?? true, "A candidate is old.")
        assert(
            pending.values.allSatisfy { ($0.head ?? .max) > base.head },
            "A call is counted that the base contains."
        )
        assert(
            pending.values.allSatisfy { $0.trace != .settled || $0.isSending },
            "A call that has ended in the base stays in the list."
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
