import Foundation
import SanguineModel

/// The balance, the daily quotas, and the calls that are paid from both.
///
/// Each event of a call is reported once, here, and applied to all of them. ``BalanceState``
/// decides what is shown.
struct SpendingState: Sendable {
    private(set) var balance = BalanceState()
    private(set) var quotas = QuotaBook()
    private(set) var calls = OpenCallBook()
    /// The epoch of the known numbers; `nil` if the server has none.
    private(set) var epoch: Epoch?
    /// Earlier epochs, newest last; an answer from one of them may still arrive.
    private var former: [Epoch] = []

    /// Creates the state of a client without data.
    init() {}

    /// Restores the state that an earlier process left.
    init(restoring archive: SpendingArchive) {
        epoch = archive.epoch
        calls = OpenCallBook(restoring: archive.calls, kept: archive.kept)
        let isQueued = { [calls] key in calls[key].map { $0.isQueued && !$0.hasEnded } ?? false }
        balance = BalanceState(restoring: archive.balance, sendingAgain: isQueued)
        if let archive = archive.quotas {
            quotas = QuotaBook(restoring: archive, sendingAgain: isQueued)
        }
    }

    /// Whether only a fetch can bring the shown values up to date.
    var wantsFetch: Bool { balance.wantsFetch || quotas.wantsFetch }

    // MARK: - Calls

    /// The price of a call.
    struct Terms: Sendable {
        let expectedCost: Int64
        let quota: Price.QuotaPrice?
        /// Whether a switch of the server lets the cost be shown only once it is known.
        var isWithheld = false
    }

    /// Predicts the cost of a function's next call.
    func prediction(of function: String, _ terms: Terms) -> PredictedCost {
        let known = balance.costs.prediction(of: function, orElse: terms.expectedCost)
        let tokensInstead = quotas.tokensInstead(of: terms.quota) ?? 0
        return PredictedCost(
            expected: known.expected + tokensInstead,
            meanError: known.meanError,
            count: known.count
        )
    }

    /// Records a call before its first request, which shows its cost to the user.
    ///
    /// Returns `false`, and changes nothing, if too many calls are pending.
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
            isWithheld: terms.isWithheld,
            at: call.begunAt
        )
        guard isTaken else { return false }
        if let quota = terms.quota, tokensInstead == nil {
            quotas.began(
                call.key,
                quota,
                isWaiting: isWaiting,
                isWithheld: terms.isWithheld,
                at: call.begunAt
            )
        }
        calls.began(call)
        return true
    }

    /// Records that a call is not sent again.
    mutating func leavesQueue(_ key: String) { calls.leavesQueue(key) }

    /// Records that a call that was waiting for a network is being sent.
    mutating func sends(_ key: String) {
        balance.sends(key)
        quotas.each(key) { $0.sends(key) }
        calls.sends(key)
    }

    /// Records the answer to a call.
    ///
    /// Numbers of an earlier epoch are ignored; the balance is fetched in that case.
    mutating func answered(
        _ key: String,
        function: String,
        _ answer: CallCost,
        _ quota: Quota?,
        epoch: Epoch? = nil,
        at now: Timestamp
    ) {
        guard enter(epoch) else {
            gaveUp(key)
            return calls.ended(key, .answered)
        }
        // The cost of an answer that was found again by its key may have been learned before.
        let isCounted = calls[key].map(\.hasEnded) ?? true
        balance.answered(key, function: isCounted ? nil : function, answer, at: now)
        quotas.answered(key, quota, head: answer.head, at: now)
        calls.ended(key, .answered)
        quotas.follow(balance)
    }

    /// Records that a call was refused and never took effect.
    mutating func refused(_ key: String) {
        balance.refused(key)
        quotas.each(key) { $0.refused(key) }
    }

    /// Records that a call failed after its hold was placed, and that the hold was released.
    mutating func released(_ key: String, head: Int64?, epoch: Epoch? = nil) {
        let head = enter(epoch) ? head : nil
        balance.released(key, head: head)
        quotas.each(key) { $0.released(key, head: head) }
    }

    /// Records that a call will not be sent again and that its outcome is unknown.
    mutating func gaveUp(_ key: String) {
        balance.gaveUp(key)
        quotas.each(key) { $0.gaveUp(key) }
    }

    /// Records that the user ended a call.
    mutating func cancelled(
        _ key: String,
        _ ending: CallCancellation,
        epoch: Epoch? = nil,
        at now: Timestamp
    ) {
        if ending.state == .cancelled { calls.remove(key) }
        guard enter(epoch) else { return gaveUp(key) }
        balance.cancelled(key, charged: ending.charged, ending.balance, at: now)
        quotas.each(key) { $0.settled(key, head: ending.balance.head) }
        quotas.follow(balance)
    }

    /// Records why a call has failed permanently.
    mutating func failed(_ key: String, _ problem: Problem?) {
        if let problem {
            calls.ended(key, .failed(problem))
        } else {
            calls.remove(key)
        }
    }

    /// Removes a call whose answer or failure the app has read.
    mutating func resultRead(_ key: String) { calls.resultRead(key) }

    /// Removes a call without an answer.
    mutating func forget(_ key: String) { calls.remove(key) }

    // MARK: - Consumptions

    /// Shows units of a quota as used that the app consumes itself.
    mutating func consumes(_ quota: String, _ amount: Int64, _ key: String, at now: Timestamp) {
        let price = Price.QuotaPrice(quota, units: amount)
        quotas.began(key, price, isWaiting: false, at: now)
    }

    /// Records the quota after a consumption; numbers of an earlier epoch are ignored.
    mutating func consumed(
        _ key: String,
        _ quota: Quota,
        head: Int64?,
        epoch: Epoch?,
        at now: Timestamp
    ) {
        guard let head, enter(epoch) else { return consumptionLost(key) }
        quotas.answered(key, quota, head: head, at: now)
    }

    /// Shows units of a quota as used by an operation of the outbox.
    ///
    /// - Parameters:
    ///   - quota: The quota's name.
    ///   - amount: The number of units.
    ///   - key: The key of the operation's requests.
    ///   - outcomeUnknown: Whether a request may have reached the server.
    ///   - now: The current time.
    mutating func queuesUse(
        of quota: String,
        _ amount: Int64,
        _ key: String,
        outcomeUnknown: Bool,
        at now: Timestamp
    ) {
        quotas.began(key, Price.QuotaPrice(quota, units: amount), isWaiting: true, at: now)
        quotas.each(key) { $0.queued(key, outcomeUnknown: outcomeUnknown) }
    }

    /// Records that an operation of the outbox that uses a quota is being sent.
    mutating func sendsUse(_ key: String) { quotas.each(key) { $0.sends(key) } }

    /// Takes the units of an operation back that is refused or withdrawn.
    ///
    /// A use that was answered stays until a list of quotas contains it.
    mutating func withdrawsUse(_ key: String) {
        quotas.each(key) { if $0.call(key)?.isOpen == true { $0.refused(key) } }
    }

    /// Forgets units of operations and calls that no longer exist, and were never sent.
    mutating func forgetUses(except keys: Set<String>) {
        for key in quotas.waiting where !keys.contains(key) && calls[key] == nil {
            withdrawsUse(key)
        }
    }

    /// Records that a consumption has not happened.
    mutating func notConsumed(_ key: String) { quotas.each(key) { $0.refused(key) } }

    /// Records that it is not known whether a consumption has happened.
    mutating func consumptionLost(_ key: String) { quotas.each(key) { $0.gaveUp(key) } }

    // MARK: - Bases

    /// Records the epoch of an answer, and begins a new one if it differs.
    ///
    /// After the server's database is restored from a backup, a lower number is newer: everything
    /// that is known by numbers of the lost history is fetched again. The shown values stay until
    /// then.
    ///
    /// Answers from two histories may arrive in any order. So an epoch that seems to be over
    /// becomes the current one if the request was made in the epoch that is known now: the server
    /// answered it after the answer that began this epoch.
    ///
    /// - Parameters:
    ///   - other: The epoch; `nil` if the server did not send one.
    ///   - asked: The epoch that was known when the request was made. Default: unknown.
    /// - Returns: Whether the answer counts; `false` for an answer of an earlier epoch.
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

    /// Records a fetched balance; fetches may complete in any order.
    mutating func fetched(_ balance: Balance, for inquiry: BalanceInquiry, at now: Timestamp) {
        self.balance.fetched(balance, for: inquiry, at: now)
        quotas.follow(self.balance)
    }

    /// Starts the new days of quotas.
    mutating func startNewQuotaDays(at now: Timestamp, in zone: TimeZone) {
        quotas.startNewDays(at: now, in: zone)
    }

    /// Records the fetched quotas.
    mutating func fetched(_ quotas: [Quota], head: Int64?, at now: Timestamp) {
        self.quotas.fetched(quotas, head: head, at: now)
    }

    /// Records a quota from the feed; returns whether it is a known one.
    mutating func received(_ quota: Quota, head: Int64, at now: Timestamp) -> Bool {
        quotas.received(quota, head: head, at: now)
    }

    /// Continues with the account that the guest has become a part of: the calls and the shown
    /// values stay until newer ones arrive.
    mutating func moved(to id: Identifier, from account: Identifier) {
        former = former.suffix(BalanceLimits.formerEpochs - 1) + [.former(account)]
        balance.moved(to: id)
        quotas.beginEpoch()
    }

    /// Records the account, and forgets the balance and calls of any other account.
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
    let kept: RetentionTime?
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

    /// Returns the archive as JSON.
    func encoded() throws(StoreError) -> Data {
        do {
            return try JSONEncoder().encode(self)
        } catch {
            throw .writeFailed("the balance: \(error)")
        }
    }
}
