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

    /// Creates the state of a client that knows nothing yet.
    init() {}

    /// Creates the state that an earlier process left.
    init(restoring archive: SpendingArchive) {
        calls = CallBook(restoring: archive.calls)
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

    /// A call begins, before its first request: from now on the user sees what it takes.
    ///
    /// Returns `false`, and changes nothing, if too many are pending.
    mutating func began(_ call: OpenCall, _ terms: Terms) -> Bool {
        guard !call.isQueued || calls.queued < BalanceLimits.queuedCalls else { return false }
        let isWaiting = call.state == .waiting
        let isTaken = balance.began(
            call.key,
            function: call.function,
            expectedCost: terms.expectedCost,
            isWaiting: isWaiting,
            at: call.begunAt
        )
        guard isTaken else { return false }
        if let quota = terms.quota {
            quotas.began(call.key, quota, isWaiting: isWaiting, at: call.begunAt)
        }
        calls.began(call)
        return true
    }

    /// A call that has waited for a network is sent.
    mutating func sends(_ key: String) {
        balance.sends(key)
        quotas.each(key) { $0.sends(key) }
        calls.sends(key)
    }

    /// A call was answered.
    mutating func answered(
        _ key: String,
        function: String,
        _ answer: CallAnswer,
        _ quota: Quota?,
        isGiven: Bool,
        at now: Timestamp
    ) {
        // What is found again by its key may have been counted before.
        let isCounted = calls[key].map(\.hasEnded) ?? true
        balance.answered(key, function: isCounted ? nil : function, answer, at: now)
        quotas.answered(key, quota, head: answer.head, at: now)
        calls.ended(key, .answered, isGiven: isGiven)
        quotas.follow(balance)
    }

    /// A call was refused and never took effect.
    mutating func refused(_ key: String) {
        balance.refused(key)
        quotas.each(key) { $0.refused(key) }
    }

    /// A call failed after its hold was taken, and the hold was released.
    mutating func released(_ key: String, head: Int64?) {
        balance.released(key, head: head)
        quotas.each(key) { $0.released(key, head: head) }
    }

    /// A call will not be sent again, and whether it happened is not known.
    mutating func gaveUp(_ key: String) {
        balance.gaveUp(key)
        quotas.each(key) { $0.gaveUp(key) }
    }

    /// A call was ended by its owner.
    mutating func cancelled(_ key: String, _ ending: CallEnding, at now: Timestamp) {
        balance.cancelled(key, charged: ending.charged, ending.balance, at: now)
        quotas.each(key) { $0.settled(key, head: ending.balance.head) }
        if ending.state == .cancelled { calls.remove(key) }
        quotas.follow(balance)
    }

    /// Why a call has failed, for good.
    mutating func failed(_ key: String, _ problem: Problem?, isGiven: Bool) {
        if let problem {
            calls.ended(key, .failed(problem), isGiven: isGiven)
        } else {
            calls.remove(key)
        }
    }

    /// The app was given a call's answer, or there is none.
    mutating func forget(_ key: String) { calls.remove(key) }

    // MARK: - Bases

    /// A fetch of the balance was answered, in whatever order to others.
    mutating func fetched(_ balance: Balance, for inquiry: BalanceInquiry, at now: Timestamp) {
        self.balance.fetched(balance, for: inquiry, at: now)
        quotas.follow(self.balance)
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

    init(_ state: SpendingState) {
        balance = BalanceArchive(state.balance)
        quotas = state.quotas.archive
        calls = state.calls.calls
    }

    /// Reads an archive, or returns `nil` if this version cannot.
    init?(_ data: Data) {
        guard let archive = try? JSONDecoder().decode(Self.self, from: data),
            archive.balance.isReadable
        else { return nil }
        self = archive
    }

    /// The archive as bytes.
    func encoded() throws -> Data { try JSONEncoder().encode(self) }
}
