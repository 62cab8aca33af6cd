import SanguineModel

/// A call of this device that the base does not contain, or may not contain.
///
/// It has two dimensions. *Phase* is the state of the call, and *trace* is the part of it that the
/// base contains. Together they determine how the call changes the balance that is shown:
///
///     effect on available = hold in the base − cost
///
/// The cost is the predicted amount until the price is known, and 0 once the base contains the end
/// of the call.
struct PendingCharge: Hashable, Codable, Sendable {
    /// The state of the call, as far as this device knows.
    enum Phase: Hashable, Codable, Sendable {
        /// It waits for a network: no request was ever sent.
        case waiting
        /// A request is in progress, or another attempt is scheduled.
        case sending
        /// Abandoned without an answer, or cut off by the end of the process: it may have taken
        /// effect.
        case unanswered
        /// Answered, with this charge, which the balances from number `head` contain.
        case charged(Int64, head: Int64)
        /// Failed after its hold was placed. It costs nothing. The balances from number `head`
        /// contain the release; `nil` if the answer did not state the number.
        case released(head: Int64?)
        /// Ended at an unknown price, which the balances from number `head` contain.
        case settled(head: Int64)
    }

    /// The part of the call that a balance contains.
    enum Trace: Hashable, Codable, Sendable {
        /// Nothing: the hold was placed later, or never.
        case absent
        /// Its hold, with the amount.
        case running(held: Int64)
        /// Its end: the charge, or the release.
        case settled
    }

    /// The idempotency key of every request of the call.
    let key: String
    /// The amount deducted while the price is unknown, in the balance's unit.
    let predicted: Int64
    /// The time at which the call began, by the device's clock.
    let since: Timestamp
    var phase: Phase
    /// The part of the call that the base contains.
    var trace: Trace
    /// Whether the call is not shown before it is answered; `nil` if it is.
    var isWithheld: Bool?

    /// The first number in the feed at which balances contain the call's end, if it is known.
    var head: Int64? {
        switch phase {
        case .waiting, .sending, .unanswered: nil
        case .charged(_, let head), .settled(let head): head
        case .released(let head): head
        }
    }

    /// Whether the call has ended at a known price.
    var hasKnownPrice: Bool {
        switch phase {
        case .charged: true
        case .released(let head): head != nil
        case .waiting, .sending, .unanswered, .settled: false
        }
    }

    /// Whether a request is in progress or will be.
    var isSending: Bool { phase == .sending }

    /// Whether a balance may supply the call's outcome.
    var isAskedAfter: Bool { isOpen && phase != .waiting }

    /// Whether it is unknown which balances contain the call's end.
    var isOpen: Bool { head == nil }

    /// The amount that the call adds to `available` of the base.
    var effectOnAvailable: Int64 {
        switch trace {
        case .settled: 0
        case .absent: -cost
        case .running(let held): held - cost
        }
    }

    /// The amount that the call adds to `held` of the base.
    var effectOnHeld: Int64 {
        switch trace {
        case .settled: 0
        case .absent: shownAsHeld
        case .running(let held): shownAsHeld - held
        }
    }

    private var cost: Int64 {
        switch phase {
        case .waiting, .sending, .unanswered: shownInAdvance
        case .settled: predicted
        case .charged(let amount, _): amount
        case .released: 0
        }
    }

    private var shownInAdvance: Int64 { isWithheld == true ? 0 : predicted }

    private var shownAsHeld: Int64 {
        switch phase {
        case .waiting, .sending, .unanswered: shownInAdvance
        case .charged, .released, .settled: 0
        }
    }

    /// Returns what a snapshot contains of the call, or `nil` if that is unknown.
    func trace(in snapshot: BalanceSnapshot) -> Trace? {
        if phase == .waiting { return .absent }
        if let head, head <= snapshot.balance.head { return .settled }
        return snapshot.traces[key]
    }
}

/// A balance from the server, with the known traces of this device's calls.
struct BalanceSnapshot: Sendable {
    var balance: Balance
    /// Its traces of the calls that the fetch asked about, or that began after it was received.
    var traces: [String: PendingCharge.Trace]
    /// The time at which it was received, by the device's clock.
    let receivedAt: Timestamp
}

/// The calls that a fetch of the balance asks about, fixed when its request is made.
struct BalanceInquiry: Sendable {
    /// The keys to ask about, at most ``WireLimits/operationsAsked``.
    let keys: [String]
    /// The keys without a request in progress: if the server does not know such a call by then, it
    /// never will.
    let idle: Set<String>
}
