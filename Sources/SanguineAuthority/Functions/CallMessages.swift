public import SanguineModel

/// The terms of a function call: its price and its conditions.
public struct CallTerms: Hashable, Sendable {
    /// The operation's id.
    public var operation: Identifier
    /// The function's name, which the ledger shows.
    public var function: String
    /// The held amount: the most that the call can cost.
    ///
    /// Zero for a free function.
    public var hold: Int64
    /// The part of a daily quota that the call uses; `nil` for none.
    public var quota: Price.QuotaPrice?
    /// The time after which the call's hold expires.
    public var life: Duration
    /// Whether the call is sent upstream as soon as it is accepted, so that its expiry charges it.
    public var isSent: Bool
    /// The run whose parts the answer streams; `nil` for an answer in one piece.
    public var run: Identifier?
    /// The charge if nothing is known about the call after it was sent; `nil` for the whole hold.
    public var chargeWhenCut: Int64?
    /// The problem if the function cannot run now for any account; `nil` if it can.
    ///
    /// It is checked last.
    public var unavailable: Problem?
    /// The question, for a call in a thread; `nil` for any other call.
    package var question: ThreadQuestion?

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

/// A call that was accepted and is running.
public struct AcceptedCall: Hashable, Sendable {
    /// The operation's id.
    public var operation: Identifier
    /// The account that pays.
    public var account: Identifier
    /// The idempotency key.
    public var key: String
    /// The hold that pays, or `nil` for a free function.
    public var hold: Identifier?
    /// The part of a daily quota that the call uses; `nil` for none.
    public var quota: QuotaHold?
    /// The tokens that the call costs instead of units of an exhausted quota.
    ///
    /// They are part of the hold. Default: 0.
    public var tokensInstead: Int64 = 0
    /// Whether the account's plan lifts the quota: units are counted without a limit.
    ///
    /// Default: false.
    public var isUnlimited = false
    /// The state that is stored under the call's key.
    ///
    /// Default: from the start of the call.
    public var record = Record.fromStart
    /// The language model that its run has asked last; `nil` if none was asked yet.
    public var model: String?
    /// Whether the call has a question and an answer in a thread.
    ///
    /// Default: false.
    package var isInThread = false

    /// The state of a call that is stored under its key.
    public enum Record: Hashable, Sendable {
        /// The running call, and later its end.
        case fromStart
        /// Only the end, for a request with this fingerprint.
        ///
        /// The call is free, and in one piece: if the process crashes before the end, nothing has
        /// happened, and the call can be repeated.
        case end(Fingerprint)
        /// Nothing: the call is free, in one piece, and cannot be repeated.
        case nothing
    }

    /// The position of the operation.
    public var position: OperationPosition { OperationPosition(account: account, key: key) }

    /// Returns the call as one of another account, into which its guest was merged.
    func paid(by account: Identifier) -> AcceptedCall {
        var call = self
        call.account = account
        return call
    }
}

/// The result of accepting a call.
public enum CallStart: Hashable, Sendable {
    /// The call was already answered: return this answer, whose parts are those of the run, if any.
    case replayed(Answer, run: Identifier?)
    /// The call is new: run it, then settle it.
    case accepted(AcceptedCall)
}

/// The end of a call.
public enum CallEnd: Sendable {
    /// Creates the body from the balance after the charge, and the quota if one was used.
    public typealias Body = @Sendable (BalanceRow, Quota?) -> [UInt8]

    /// The call succeeded: charge this amount, at most the hold, and answer with the body.
    case succeeded(charge: Int64, answer: Body)
    /// The call failed: release the hold, return the quota, and answer with the problem.
    case failed(Problem)
    /// The call was cut short: charge this amount, at most the hold, return the units of a quota
    /// unless `takesQuota` is true, and answer with the problem.
    case cut(charge: Int64, takesQuota: Bool, Problem)
}

extension QuotaHold {
    /// Creates the part of a quota that a call uses on a day.
    init(of price: Price.QuotaPrice, on day: CalendarDay) {
        self.init(
            name: price.name,
            day: day,
            units: price.units,
            isKeptWhenLost: price.moment.charges(.lost)
        )
    }
}
