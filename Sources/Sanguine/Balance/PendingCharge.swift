import SanguineModel

/// A call of ours whose effect on the balance is not, or is not known to be, in the base.
///
/// Two axes. *Phase* is what we know of the call; *trace* is what the base has of it. Their
/// combination gives what the call adds to the base to make what the user sees:
///
///     effect on available = what the base holds for it − what it costs
///
/// It costs what we predicted until we know better, and nothing once the base contains its end.
struct PendingCharge: Hashable, Codable, Sendable {
    /// What we know of the call.
    enum Phase: Hashable, Codable, Sendable {
        /// It waits for a network: no server has ever heard of it.
        case waiting
        /// A request is under way, or another try is scheduled.
        case sending
        /// Given up without an answer, or cut off by the end of the process: it may have happened.
        case unanswered
        /// Answered: it cost that much, and balances from `head` on contain it.
        case charged(Int64, head: Int64)
        /// Failed after its hold was taken: it costs nothing, and balances from `head` on contain
        /// the release. `nil`: the answer did not say from where on.
        case released(head: Int64?)
        /// Known to have ended, at a price unknown: balances from `head` on contain it.
        case settled(head: Int64)
    }

    /// What a balance has of the call.
    enum Trace: Hashable, Codable, Sendable {
        /// Nothing: the hold came later, or never.
        case absent
        /// Its hold, of this much.
        case running(held: Int64)
        /// Its end: the charge, or the release.
        case settled
    }

    /// The idempotency key of every sending of the call.
    let key: String
    /// What we deduct while the price is unknown, in the balance's unit.
    let predicted: Int64
    /// When the call began, by the device's clock.
    let since: Timestamp
    var phase: Phase
    /// What the base has of it.
    var trace: Trace

    /// The number in the feed from which on balances contain the call's end, if it is known.
    var head: Int64? {
        switch phase {
        case .waiting, .sending, .unanswered: nil
        case .charged(_, let head), .settled(let head): head
        case .released(let head): head
        }
    }

    /// Whether a request is under way or will be.
    var isSending: Bool { phase == .sending }

    /// Whether a balance can tell something of it that is not known.
    var isAskedAfter: Bool { isOpen && phase != .waiting }

    /// Whether a balance of any number may or may not contain the call, for all we know.
    var isOpen: Bool { head == nil }

    /// What the call adds to `available` of the base.
    var effectOnAvailable: Int64 {
        switch trace {
        case .settled: 0
        case .absent: -cost
        case .running(let held): held - cost
        }
    }

    /// What the call adds to `held` of the base.
    var effectOnHeld: Int64 {
        switch trace {
        case .settled: 0
        case .absent: shownAsHeld
        case .running(let held): shownAsHeld - held
        }
    }

    private var cost: Int64 {
        switch phase {
        case .waiting, .sending, .unanswered, .settled: predicted
        case .charged(let amount, _): amount
        case .released: 0
        }
    }

    private var shownAsHeld: Int64 {
        switch phase {
        case .waiting, .sending, .unanswered: predicted
        case .charged, .released, .settled: 0
        }
    }

    /// What a snapshot has of the call, or `nil` if that cannot be told.
    func trace(in snapshot: BalanceSnapshot) -> Trace? {
        if phase == .waiting { return .absent }
        if let head, head <= snapshot.balance.head { return .settled }
        return snapshot.traces[key]
    }
}

/// A balance from the server, with what is known about which of our calls it contains.
struct BalanceSnapshot: Sendable {
    var balance: Balance
    /// What it has of the calls that it was asked about, or that began after it was received.
    var traces: [String: PendingCharge.Trace]
    /// When it was received, by the device's clock.
    let receivedAt: Timestamp
}

/// What a fetch of the balance asks about, fixed when its request is made.
struct BalanceInquiry: Sendable {
    /// The keys to ask about, at most ``WireLimits/operationsAsked``.
    let keys: [String]
    /// Those of them for which no request was under way: what the server does not know of them by
    /// then, it will never know.
    let idle: Set<String>
}
