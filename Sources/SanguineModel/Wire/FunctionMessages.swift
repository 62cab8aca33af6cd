/// What a function costs.
public struct Price: Hashable, Codable, Sendable {
    /// How the price is found.
    public enum Kind: String, Codable, Sendable {
        /// ``Price/amount`` for every call.
        case fixed
        /// By the usage that the upstream reports, at ``Price/perMillionInput`` and
        /// ``Price/perMillionOutput``, rounded up, at least ``Price/amount``. Tokens of the
        /// upstream's cache and of reasoning may have rates of their own.
        case usage
    }

    /// How the price is found.
    public var kind: Kind
    /// The price of a call, or the least that a call costs, in the balance's unit.
    public var amount: Int64
    /// The balance's units for a million input tokens of the upstream.
    public var perMillionInput: Int64?
    /// The balance's units for a million output tokens of the upstream.
    public var perMillionOutput: Int64?
    /// The balance's units for a million input tokens that the upstream has found in its cache.
    ///
    /// Default: the same as for other input.
    public var perMillionCachedInput: Int64?
    /// The balance's units for a million output tokens with which the upstream has reasoned.
    ///
    /// Default: the same as for other output.
    public var perMillionReasoning: Int64?
    /// What a cached answer costs, in the balance's unit.
    ///
    /// Default: nothing.
    public var cached: Int64?
    /// The daily quota of which a call takes some, beside the amount.
    ///
    /// A cached answer takes none. Default: none.
    public var quota: QuotaPrice?
    /// When the amount of a ``Kind/fixed`` price is charged.
    ///
    /// A price by usage charges what was made. Default: `nil`, which is ``ChargeMoment/onStart``.
    public var charged: ChargeMoment?

    /// What a call takes of a daily quota.
    public struct QuotaPrice: Hashable, Codable, Sendable {
        /// The quota's name in the configuration.
        public var name: String
        /// How much of it a call takes, 1 and more.
        public var units: Int64
        /// What a call costs instead when too little of the quota is left, in the balance's unit.
        ///
        /// Default: `nil`, the call is refused then.
        public var otherwise: Int64?
        /// When the units are charged, or what is charged instead of them.
        ///
        /// Default: `nil`, which is ``ChargeMoment/onCompletion``.
        public var charged: ChargeMoment?

        /// Creates a price.
        public init(_ name: String, units: Int64 = 1, otherwise: Int64? = nil) {
            self.name = name
            self.units = units
            self.otherwise = otherwise
        }
    }

    /// Nothing.
    public static let free = fixed(0)

    /// So many units of a daily quota, and no tokens.
    ///
    /// - Parameters:
    ///   - name: The quota's name in the configuration.
    ///   - units: How much of it a call takes. Default: 1.
    ///   - otherwise: What a call costs in the balance's unit when too little of the quota is left.
    ///     Default: `nil`, the call is refused then.
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

    /// The same price, with its flat amount and its units charged at that moment.
    public func charged(_ moment: ChargeMoment) -> Price {
        var price = self
        if kind == .fixed, amount > 0 { price.charged = moment }
        price.quota?.charged = moment
        return price
    }

    /// The same price, and so many units of a daily quota beside it.
    public func taking(_ units: Int64 = 1, of quota: String) -> Price {
        var price = self
        price.quota = QuotaPrice(quota, units: units)
        return price
    }

    /// The same price, with another one for cached answers.
    public func cached(_ amount: Int64) -> Price {
        var price = self
        price.cached = amount
        return price
    }

    /// The same price for every call.
    public static func fixed(_ amount: Int64) -> Price {
        Price(kind: .fixed, amount: amount)
    }

    /// A price by usage, rounded up.
    ///
    /// - Parameters:
    ///   - perMillionInput: The rate of input tokens.
    ///   - perMillionOutput: The rate of output tokens.
    ///   - perMillionCachedInput: The rate of input tokens from the upstream's cache. Default:
    ///     that of input tokens.
    ///   - perMillionReasoning: The rate of output tokens of reasoning. Default: that of output
    ///     tokens.
    ///   - amount: The least that a call costs. Default: 1.
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

/// When a flat price, or a unit of a quota, is charged for a call that has left for its upstream.
///
/// A whole answer is charged either way. A call that never left is not, and neither is one whose
/// upstream fails before the first part of the answer.
public enum ChargeMoment: String, Hashable, Codable, Sendable, CaseIterable {
    /// With the whole answer, or with a part of it if the caller ends the call after that part.
    ///
    /// A call that fails, runs out of time, or is lost with the server costs nothing.
    case onCompletion
    /// Once the call has left for its upstream: also when the caller ends it before the first part,
    /// when it fails after that, and when the server dies before the end is known.
    case onStart
}

/// A function as `GET /v1/functions` lists it.
public struct FunctionDescription: Hashable, Codable, Sendable {
    /// The name in the path.
    public var name: String
    /// What a call costs.
    public var price: Price
    /// How long answers are kept: `none`, `duration`, `midnight`, `session`, `forever` or `facts`.
    public var cache: String
    /// With the cache `duration`: for how many seconds.
    public var cacheSeconds: Int64?
    /// With the cache `facts`: the members of the account's settings that it depends on.
    public var cacheFacts: [String]?
    /// Who is given kept answers: `account` or `public`; `nil` where none are kept.
    public var audience: String?
    /// Whether the answer comes in parts: events `delta` before the `result`.
    public var stream: Bool
    /// The members of `input`: name and type, with `?` after the name of optional ones.
    public var inputs: [String: String]
    /// Which files a call may bring; `nil` for none.
    public var attachments: AttachmentRules?

    /// Creates a description.
    public init(name: String, price: Price, cache: String, stream: Bool, inputs: [String: String]) {
        self.name = name
        self.price = price
        self.cache = cache
        self.stream = stream
        self.inputs = inputs
    }

    /// Describes a function by its rules.
    public init(name: String, rules: FunctionRules, inputs: [String: String]) {
        self.init(
            name: name,
            price: rules.price,
            cache: rules.cache.name,
            stream: rules.streams,
            inputs: inputs
        )
        attachments = rules.attachments
        // Readers of the list need not know the defaults.
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
    /// What the function works on.
    public var input: Input
    /// The thread that the call continues.
    ///
    /// Default: none. No function keeps threads yet: a call with one is refused.
    public var thread: Identifier?
    /// The blobs that come with the call, by their ids.
    ///
    /// Default: none. A function that takes none refuses them.
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

/// What a call would cost.
public struct Quote: Hashable, Codable, Sendable {
    /// What calls of this function cost on average lately, in the balance's unit.
    public var estimate: Int64
    /// What this call can cost at most, and what is held for it.
    public var hold: Int64
    /// What this call takes of a daily quota; `nil` if it takes none, or costs tokens instead.
    public var quota: Price.QuotaPrice?

    /// Creates a quote.
    public init(estimate: Int64, hold: Int64, quota: Price.QuotaPrice? = nil) {
        self.estimate = estimate
        self.hold = hold
        self.quota = quota
    }
}

/// The answer to a function call.
public struct FunctionResult<Output: Codable & Sendable>: Codable, Sendable {
    /// What the function made.
    public var output: Output
    /// What the call cost, in the balance's unit.
    public var charged: Int64
    /// `available` after the charge, read in the transaction that charged.
    public var tokensRemaining: Int64
    /// `held` after the charge.
    public var held: Int64
    /// The number in the account's feed at which the charge is contained.
    public var head: Int64
    /// Whether the answer came from a cache.
    public var cached: Bool
    /// The operation's id on the server.
    public var operation: Identifier
    /// The daily quota after the call, where the call has taken some of one.
    ///
    /// `nil` for a call that was paid in tokens because too little of its quota was left.
    public var quota: Quota?
    /// Why the language model stopped, in its own word: `stop` after a whole answer, `length` if
    /// the limit of tokens cut it, `content_filter` if a filter did.
    ///
    /// `nil` for an answer of a cache, which is whole, and where the model does not say.
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

/// A part of a streamed answer: the data of an event `delta`.
public struct FunctionDelta: Hashable, Codable, Sendable {
    /// What follows the parts before it.
    public var text: String

    /// Creates a part.
    public init(text: String) { self.text = text }
}

/// What became of a call that its owner wanted to end: the answer to `DELETE /v1/calls/{key}`.
public struct CallEnding: Hashable, Codable, Sendable {
    /// How it ended.
    public enum State: String, Codable, Sendable {
        /// By this request, or by one like it.
        case cancelled
        /// Before, by itself.
        case ended
    }

    /// How it ended.
    public var state: State
    /// What it was charged, in the balance's unit.
    public var charged: Int64
    /// The balance after it.
    public var balance: Balance

    /// Creates the answer.
    public init(state: State, charged: Int64, balance: Balance) {
        self.state = state
        self.charged = charged
        self.balance = balance
    }
}
