import Foundation
import SanguineModel

/// What the user may spend, and what they spend it on: the balance, the daily quotas, and the calls
/// that are paid from both.
///
/// Each call is one for all of them: what becomes of it is said once, here. ``BalanceState``
/// decides what is shown.
struct SpendingState: Sendable {
    private(set) var balance = BalanceState()
    private(set) var quotas = QuotaBook()
    private(set) var calls = CallBook()
    /// The epoch of the numbers that are known; `nil` from a server that knows of none.
    private(set) var epoch: Epoch?
    /// Epochs that are over, the newest last: an answer of one of them may still arrive.
    private var former: [Epoch] = []

    /// Creates the state of a client that knows nothing yet.
    init() {}

    /// Creates the state that an earlier process left.
    init(restoring archive: SpendingArchive) {
        epoch = archive.epoch
        calls = CallBook(restoring: archive.calls, kept: archive.kept)
        let isQueued = { [calls] key in calls[key].map { $0.isQueued && !$0.hasEnded } ?? false }
        balance = BalanceState(restoring: archive.balance, sendingAgain: isQueued)
        if let archive = archive.quotas {
            quotas = QuotaBook(restoring: archive, sendingAgain: isQueued)
        }
    }

    /// Whether only a fetch can bring what is shown up to date.
    var wantsFetch: Bool { balance.wantsFetch || quotas.wantsFetch }

    // MARK: - Calls

    /// What a call takes.
    struct Terms: Sendable {
        let expectedCost: Int64
        let quota: Price.QuotaPrice?
    }

    /// What the next call of a function will probably cost.
    func prediction(of function: String, _ terms: Terms) -> PredictedCost {
        let known = balance.costs.prediction(of: function, orElse: terms.expectedCost)
        let tokensInstead = quotas.tokensInstead(of: terms.quota) ?? 0
        return PredictedCost(
            expected: known.expected + tokensInstead,
            meanError: known.meanError,
            count: known.count
        )
    }

    /// A call begins, before its first request: from now on the user sees what it takes.
    ///
    /// Returns `false`, and changes nothing, if too many are pending.
    mutating func began(_ call: OpenCall, _ terms: Terms) -> Bool {
        guard !call.isQueued || calls.queued < BalanceLimits.queuedCalls else { return false }
        let isWaiting = call.state == .waiting
        let tokensInstead = quotas.tokensInstead(of: terms.quota)
        let isTaken = balance.began(
            call.key,
            function: call.function,
            expectedCost: terms.expectedCost,
            tokensInstead: tokensInstead ?? 0,
            isWaiting: isWaiting,
            at: call.begunAt
        )
        guard isTaken else { return false }
        if let quota = terms.quota, tokensInstead == nil {
            quotas.began(call.key, quota, isWaiting: isWaiting, at: call.begunAt)
        }
        calls.began(call)
        return true
    }

    /// A call is not sent again.
    mutating func leavesQueue(_ key: String) { calls.leavesQueue(key) }

    /// A call that has waited for a network is sent.
    mutating func sends(_ key: String) {
        balance.sends(key)
        quotas.each(key) { $0.sends(key) }
        calls.sends(key)
    }

    /// A call was answered.
    ///
    /// The numbers of an epoch that is over say nothing: then the balance is asked.
    mutating func answered(
        _ key: String,
        function: String,
        _ answer: CallAnswer,
        _ quota: Quota?,
        epoch: Epoch? = nil,
        at now: Timestamp
    ) {
        guard enter(epoch) else {
            gaveUp(key)
            return calls.ended(key, .answered)
        }
        // What is found again by its key may have been counted before.
        let isCounted = calls[key].map(\.hasEnded) ?? true
        balance.answered(key, function: isCounted ? nil : function, answer, at: now)
        quotas.answered(key, quota, head: answer.head, at: now)
        calls.ended(key, .answered)
        quotas.follow(balance)
    }

    /// A call was refused and never took effect.
    mutating func refused(_ key: String) {
        balance.refused(key)
        quotas.each(key) { $0.refused(key) }
    }

    /// A call failed after its hold was taken, and the hold was released.
    mutating func released(_ key: String, head: Int64?, epoch: Epoch? = nil) {
        let head = enter(epoch) ? head : nil
        balance.released(key, head: head)
        quotas.each(key) { $0.released(key, head: head) }
    }

    /// A call will not be sent again, and whether it happened is not known.
    mutating func gaveUp(_ key: String) {
        balance.gaveUp(key)
        quotas.each(key) { $0.gaveUp(key) }
    }

    /// A call was ended by its owner.
    mutating func cancelled(
        _ key: String,
        _ ending: CallEnding,
        epoch: Epoch? = nil,
        at now: Timestamp
    ) {
        if ending.state == .cancelled { calls.remove(key) }
        guard enter(epoch) else { return gaveUp(key) }
        balance.cancelled(key, charged: ending.charged, ending.balance, at: now)
        quotas.each(key) { $0.settled(key, head: ending.balance.head) }
        quotas.follow(balance)
    }

    /// Why a call has failed, for good.
    mutating func failed(_ key: String, _ problem: Problem?) {
        if let problem {
            calls.ended(key, .failed(problem))
        } else {
            calls.remove(key)
        }
    }

    /// The app has read a call's answer to its end, or why it has failed.
    mutating func given(_ key: String) { calls.given(key) }

    /// There is no answer to a call.
    mutating func forget(_ key: String) { calls.remove(key) }

    // MARK: - Bases

    /// An answer has numbers of an epoch.
    ///
    /// After a copy of the server's database was restored a lower number is newer: what was known
    /// by numbers of the lost history is asked about again. What is shown stays until then.
    ///
    /// Answers of two histories may come in any order. So an epoch that seems to be over is taken
    /// for the present one if the answer was asked for in the epoch that is known now: the server
    /// gave it later than the answer that led to this one.
    ///
    /// - Parameters:
    ///   - other: The epoch; `nil` if the server did not say.
    ///   - asked: The epoch that was known when the answer was asked for. Default: not known.
    /// - Returns: Whether the answer counts; `false` for one of an epoch that is over.
    mutating func enter(_ other: Epoch?, asked: Epoch? = nil) -> Bool {
        guard let other, other != epoch else { return true }
        guard !former.contains(other) || asked != nil && asked == epoch else { return false }
        former.removeAll { $0 == other }
        if let epoch {
            former = former.suffix(BalanceLimits.formerEpochs - 1) + [epoch]
            balance.beginEpoch()
            quotas.beginEpoch()
        }
        epoch = other
        return true
    }

    /// A fetch of the balance was answered, in whatever order to others.
    mutating func fetched(_ balance: Balance, for inquiry: BalanceInquiry, at now: Timestamp) {
        self.balance.fetched(balance, for: inquiry, at: now)
        quotas.follow(self.balance)
    }

    /// Begins the days of quotas that have come.
    mutating func turnQuotas(at now: Timestamp, in zone: TimeZone) {
        quotas.turn(at: now, in: zone)
    }

    /// A fetch of the quotas was answered.
    mutating func fetched(_ quotas: [Quota], head: Int64?, at now: Timestamp) {
        self.quotas.fetched(quotas, head: head, at: now)
    }

    /// The feed has a quota; returns whether it is one of those that are known.
    mutating func received(_ quota: Quota, head: Int64, at now: Timestamp) -> Bool {
        quotas.received(quota, head: head, at: now)
    }

    /// The account became known, or another's, whose balance and calls are forgotten.
    mutating func signedIn(_ id: Identifier) {
        if let account = balance.account, account != id { self = SpendingState() }
        balance.signedIn(id)
    }
}

/// The state as it is stored.
struct SpendingArchive: Codable, Sendable {
    let balance: BalanceArchive
    let quotas: QuotaArchive?
    let calls: [OpenCall]
    let kept: KeptTime?
    let epoch: Epoch?

    init(_ state: SpendingState) {
        balance = BalanceArchive(state.balance)
        quotas = state.quotas.archive
        calls = state.calls.calls
        kept = state.calls.kept
        epoch = state.epoch
    }

    /// Reads an archive, or returns `nil` if this version cannot.
    init?(_ data: Data) {
        guard let archive = try? JSONDecoder().decode(Self.self, from: data),
            archive.balance.isReadable
        else { return nil }
        self = archive
    }

    /// The archive as bytes.
    func encoded() throws(StoreError) -> Data {
        do {
            return try JSONEncoder().encode(self)
        } catch {
            throw .writeFailed("the balance: \(error)")
        }
    }
}
