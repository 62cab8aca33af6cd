public import SanguineModel

/// What a function call costs at most, and for what.
public struct CallTerms: Hashable, Sendable {
    /// The operation's id.
    public var operation: Identifier
    /// The function's name; it stands in the ledger.
    public var function: String
    /// What is held: the most that the call can cost.
    ///
    /// Zero for a free function.
    public var hold: Int64
    /// What the call takes of a daily quota; `nil` for none.
    public var quota: Price.QuotaPrice?
    /// How long the call may take before its hold expires.
    public var life: Duration
    /// Whether the call leaves for the upstream as soon as it is accepted, so that its expiry
    /// charges it.
    public var isSent: Bool
    /// The run whose parts the answer streams; `nil` if it comes in one piece.
    public var run: Identifier?
    /// What the call is charged if nothing comes of it after it was sent; `nil` for all of the
    /// hold.
    public var chargeWhenCut: Int64?
    /// Why the function cannot run now, whoever pays, or `nil` if it can.
    ///
    /// Decided last.
    public var unavailable: Problem?

    /// Creates the terms.
    public init(
        operation: Identifier,
        function: String,
        hold: Int64,
        quota: Price.QuotaPrice? = nil,
        life: Duration,
        isSent: Bool = false,
        run: Identifier? = nil,
        chargeWhenCut: Int64? = nil,
        unavailable: Problem? = nil
    ) {
        self.operation = operation
        self.function = function
        self.hold = hold
        self.quota = quota
        self.life = life
        self.isSent = isSent
        self.run = run
        self.chargeWhenCut = chargeWhenCut
        self.unavailable = unavailable
    }
}

/// A call that was accepted and now runs.
public struct AcceptedCall: Hashable, Sendable {
    /// The operation's id.
    public var operation: Identifier
    /// Who pays.
    public var account: Identifier
    /// The idempotency key.
    public var key: String
    /// The hold that pays, or `nil` for a free function.
    public var hold: Identifier?
    /// What it takes of a daily quota, or `nil` for nothing.
    public var quota: QuotaHold?
    /// The tokens that it costs instead of units of a quota, of which too few were left.
    ///
    /// They are part of the hold. Default: none.
    public var tokensInstead: Int64 = 0
    /// Whether its account's plan lifts the quota: units are counted, and never run out.
    ///
    /// Default: no.
    public var isUnlimited = false
    /// What is stored of it under its key.
    ///
    /// Default: that it runs, and then how it has ended.
    public var record = Record.fromStart

    /// What is stored of a call under its key.
    public enum Record: Hashable, Sendable {
        /// That it runs, and then how it has ended.
        case fromStart
        /// How it has ended, for a request with this fingerprint.
        ///
        /// It is free, and in one piece: if the process dies before, nothing has happened, and it
        /// can be made again.
        case end(Fingerprint)
        /// Nothing: it is free, in one piece, and cannot be asked for again.
        case nothing
    }

    /// Where the operation stands.
    public var position: OperationPosition { OperationPosition(account: account, key: key) }
}

/// How the acceptance of a call ends.
public enum CallStart: Hashable, Sendable {
    /// It was done before: give this answer, whose parts are those of the run, if it has one.
    case replayed(Answer, run: Identifier?)
    /// It is new: run it, then settle it.
    case accepted(AcceptedCall)
}

/// What a call came to.
public enum CallEnd: Sendable {
    /// What the answer is made of: the balance after the charge, and the quota if one was taken of.
    public typealias Body = @Sendable (BalanceRow, Quota?) -> [UInt8]

    /// It succeeded: charge this, at most the hold, and answer with the body.
    case succeeded(charge: Int64, answer: Body)
    /// It failed: release the hold, give the quota back, and answer with the problem.
    case failed(Problem)
    /// It was cut short after something was made: charge this, at most the hold, and answer with
    /// the problem, which says so. The units of a quota are given back unless it takes them.
    case cut(charge: Int64, takesQuota: Bool, Problem)
}

extension QuotaHold {
    /// What a call takes of a quota on a day.
    init(of price: Price.QuotaPrice, on day: CalendarDay) {
        self.init(
            name: price.name,
            day: day,
            units: price.units,
            isKeptWhenLost: price.moment.charges(.lost)
        )
    }
}
