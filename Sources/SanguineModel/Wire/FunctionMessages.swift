/// The price of a function.
public struct Price: Hashable, Codable, Sendable {
    /// The calculation of the price.
    public enum Kind: String, Codable, Sendable {
        /// ``Price/amount`` for each call.
        case fixed
        /// The usage that the upstream reports, at the rates ``Price/perMillionInput`` and
        /// ``Price/perMillionOutput``, rounded up, and at least ``Price/amount``. Tokens from the
        /// upstream's cache and tokens of reasoning may have separate rates.
        case usage
    }

    /// The calculation of the price.
    public var kind: Kind
    /// The price of a call, or its minimum, in the balance's unit.
    public var amount: Int64
    /// The price of a million input tokens of the upstream, in the balance's unit.
    public var perMillionInput: Int64?
    /// The price of a million output tokens of the upstream, in the balance's unit.
    public var perMillionOutput: Int64?
    /// The price of a million input tokens from the upstream's cache, in the balance's unit.
    ///
    /// Default: the same as for other input.
    public var perMillionCachedInput: Int64?
    /// The price of a million output tokens of reasoning, in the balance's unit.
    ///
    /// Default: the same as for other output.
    public var perMillionReasoning: Int64?
    /// The price of a cached answer, in the balance's unit.
    ///
    /// Default: nothing.
    public var cached: Int64?
    /// The daily quota that a call uses, in addition to the amount.
    ///
    /// A cached answer uses none. Default: none.
    public var quota: QuotaPrice?
    /// The moment at which the amount of a ``Kind/fixed`` price is charged.
    ///
    /// A price by usage is charged for the produced output. Default: `nil`, which means
    /// ``ChargeMoment/onStart``.
    public var charged: ChargeMoment?

    /// The part of a price that is paid from a daily quota.
    public struct QuotaPrice: Hashable, Codable, Sendable {
        /// The quota's name in the configuration.
        public var name: String
        /// The number of units that a call uses, at least 1.
        public var units: Int64
        /// The price of a call if the quota is insufficient, in the balance's unit.
        ///
        /// Default: `nil`, the call is refused.
        public var otherwise: Int64?
        /// The moment at which the units, or the price that replaces them, are charged.
        ///
        /// Default: `nil`, which means ``ChargeMoment/onCompletion``.
        public var charged: ChargeMoment?

        /// Creates a price.
        public init(_ name: String, units: Int64 = 1, otherwise: Int64? = nil) {
            self.name = name
            self.units = units
            self.otherwise = otherwise
        }
    }

    /// No charge.
    public static let free = fixed(0)

    /// Creates a price of units of a daily quota, without tokens.
    ///
    /// - Parameters:
    ///   - name: The quota's name in the configuration.
    ///   - units: The number of units that a call uses. Default: 1.
    ///   - otherwise: The price of a call in the balance's unit if the quota is insufficient.
    ///     Default: `nil`, the call is refused.
    /// - Returns: The price.
    public static func quota(
        _ name: String,
        units: Int64 = 1,
        otherwise: Int64? = nil
    ) -> Price {
        var price = Price.free.taking(units, of: name)
        price.quota?.otherwise = otherwise
        return price
    }

    /// Returns the same price, with the flat amount and the units charged at the given moment.
    public func charged(_ moment: ChargeMoment) -> Price {
        var price = self
        if kind == .fixed, amount > 0 { price.charged = moment }
        price.quota?.charged = moment
        return price
    }

    /// Returns the same price, with units of a daily quota in addition.
    public func taking(_ units: Int64 = 1, of quota: String) -> Price {
        var price = self
        price.quota = QuotaPrice(quota, units: units)
        return price
    }

    /// Returns the same price, with another price for cached answers.
    public func cached(_ amount: Int64) -> Price {
        var price = self
        price.cached = amount
        return price
    }

    /// Creates a price that is the same for each call.
    public static func fixed(_ amount: Int64) -> Price {
        Price(kind: .fixed, amount: amount)
    }

    /// Creates a price by usage, rounded up.
    ///
    /// - Parameters:
    ///   - perMillionInput: The rate of input tokens.
    ///   - perMillionOutput: The rate of output tokens.
    ///   - perMillionCachedInput: The rate of input tokens from the upstream's cache. Default: the
    ///     rate of input tokens.
    ///   - perMillionReasoning: The rate of output tokens of reasoning. Default: the rate of output
    ///     tokens.
    ///   - amount: The minimum price of a call. Default: 1.
    /// - Returns: The price.
    public static func usage(
        perMillionInput: Int64,
        perMillionOutput: Int64,
        perMillionCachedInput: Int64? = nil,
        perMillionReasoning: Int64? = nil,
        atLeast amount: Int64 = 1
    ) -> Price {
        Price(
            kind: .usage,
            amount: amount,
            perMillionInput: perMillionInput,
            perMillionOutput: perMillionOutput,
            perMillionCachedInput: perMillionCachedInput,
            perMillionReasoning: perMillionReasoning
        )
    }
}

/// The moment at which a flat price, or a unit of a quota, is charged for a call.
///
/// A complete answer is always charged. A call that was never sent is not charged, and neither is a
/// call whose upstream fails before the first part of the answer.
public enum ChargeMoment: String, Hashable, Codable, Sendable, CaseIterable {
    /// The charge is made when the answer is complete, or when the caller ends the call after a
    /// part of it.
    ///
    /// A call that fails, times out, or is lost in a server crash costs nothing.
    case onCompletion
    /// The charge is made once the call was sent to its upstream, even if the caller ends it before
    /// the first part, if it fails after that part, or if the server crashes before the call ends.
    case onStart
}

/// A function as `GET /v1/functions` lists it.
public struct FunctionDescription: Hashable, Codable, Sendable {
    /// The name in the path.
    public var name: String
    /// The price of a call.
    public var price: Price
    /// The lifetime of cached answers: `none`, `duration`, `midnight`, `session`, `forever` or
    /// `facts`.
    public var cache: String
    /// The number of seconds, for the cache `duration`.
    public var cacheSeconds: Int64?
    /// The members of the account's settings that answers depend on, for the cache `facts`.
    public var cacheFacts: [String]?
    /// The readers of cached answers: `account` or `public`, or `nil` without a cache.
    public var audience: String?
    /// Whether the answer is streamed, as `delta` events before the `result`.
    public var stream: Bool
    /// The members of `input`: name and type, with `?` after the names of optional members.
    public var inputs: [String: String]
    /// The rules for attached files, or `nil` if none are accepted.
    public var attachments: AttachmentRules?

    /// Creates a description.
    public init(name: String, price: Price, cache: String, stream: Bool, inputs: [String: String]) {
        self.name = name
        self.price = price
        self.cache = cache
        self.stream = stream
        self.inputs = inputs
    }

    /// Creates the description of a function from its rules.
    public init(name: String, rules: FunctionRules, inputs: [String: String]) {
        self.init(
            name: name,
            price: rules.price,
            cache: rules.cache.name,
            stream: rules.streams,
            inputs: inputs
        )
        attachments = rules.attachments
        // Add the defaults, so that clients need not know them.
        if price.kind == .fixed, price.amount > 0, price.charged == nil { price.charged = .onStart }
        if let quota = price.quota, quota.charged == nil { price.quota?.charged = .onCompletion }
        switch rules.cache.lifetime {
        case .none: return
        case .duration(let duration): cacheSeconds = duration.components.seconds
        case .facts(let facts): cacheFacts = facts
        case .midnight, .session, .forever: break
        }
        audience = rules.cache.audience == .account ? "account" : "public"
    }
}

/// The body of a function call and of a quote.
public struct FunctionRequest<Input: Codable & Sendable>: Codable, Sendable {
    /// The input of the function.
    public var input: Input
    /// The thread that the call continues, see ``ChatThread``.
    ///
    /// The client creates the id; the first call in a thread begins it. Default: none. A function
    /// that keeps no history refuses it.
    public var thread: Identifier?
    /// The ids of the attached blobs.
    ///
    /// Default: none. A function that accepts none refuses them.
    public var attachments: [String]?

    /// Creates the body.
    public init(input: Input, thread: Identifier? = nil, attachments: [String]? = nil) {
        self.input = input
        self.thread = thread
        self.attachments = attachments
    }
}

extension FunctionRequest: Equatable where Input: Equatable {}
extension FunctionRequest: Hashable where Input: Hashable {}

/// The expected price of a call.
public struct Quote: Hashable, Codable, Sendable {
    /// The recent average charge of calls of this function, in the balance's unit.
    public var estimate: Int64
    /// The highest possible charge of this call, which is also held, in the balance's unit.
    public var hold: Int64
    /// The units of a daily quota, or `nil` if the call uses none or is paid in tokens instead.
    public var quota: Price.QuotaPrice?

    /// Creates a quote.
    public init(estimate: Int64, hold: Int64, quota: Price.QuotaPrice? = nil) {
        self.estimate = estimate
        self.hold = hold
        self.quota = quota
    }
}

/// The response to a function call.
public struct FunctionResult<Output: Codable & Sendable>: Codable, Sendable {
    /// The output of the function.
    public var output: Output
    /// The charge, in the balance's unit.
    public var charged: Int64
    /// The value of `available` after the charge, read in the same transaction.
    public var tokensRemaining: Int64
    /// The value of `held` after the charge.
    public var held: Int64
    /// The number in the account's feed that includes the charge.
    public var head: Int64
    /// Whether the answer came from a cache.
    public var cached: Bool
    /// The operation's id on the server.
    public var operation: Identifier
    /// The daily quota after the call, if the call used one.
    ///
    /// `nil` for a call that was paid in tokens because its quota was insufficient.
    public var quota: Quota?
    /// The model's own reason for stopping: `stop` after a complete answer, `length` if the token
    /// limit truncated it, `content_filter` if a filter did.
    ///
    /// `nil` for a cached answer, which is complete, and if the model gives no reason.
    public var finishReason: String?

    /// Creates a result.
    public init(
        output: Output,
        charged: Int64,
        tokensRemaining: Int64,
        held: Int64,
        head: Int64,
        cached: Bool,
        operation: Identifier,
        quota: Quota? = nil,
        finishReason: String? = nil
    ) {
        self.output = output
        self.charged = charged
        self.tokensRemaining = tokensRemaining
        self.held = held
        self.head = head
        self.cached = cached
        self.operation = operation
        self.quota = quota
        self.finishReason = finishReason
    }
}

extension FunctionResult: Equatable where Output: Equatable {}
extension FunctionResult: Hashable where Output: Hashable {}

/// A part of a streamed answer, the data of a `delta` event.
public struct FunctionDelta: Hashable, Codable, Sendable {
    /// The text after the previous parts.
    public var text: String

    /// Creates a part.
    public init(text: String) { self.text = text }
}

/// The result of a request to cancel a call: the response to `DELETE /v1/calls/{key}`.
public struct CallCancellation: Hashable, Codable, Sendable {
    /// The end of the call.
    public enum State: String, Codable, Sendable {
        /// It was cancelled, by this request or an earlier one.
        case cancelled
        /// It had already ended.
        case ended
    }

    /// The end of the call.
    public var state: State
    /// The charge, in the balance's unit.
    public var charged: Int64
    /// The balance afterwards.
    public var balance: Balance

    /// Creates the response.
    public init(state: State, charged: Int64, balance: Balance) {
        self.state = state
        self.charged = charged
        self.balance = balance
    }
}
