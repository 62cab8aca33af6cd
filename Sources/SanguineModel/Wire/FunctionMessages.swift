/// What a function costs.
public struct Price: Hashable, Codable, Sendable {
    /// How the price is found.
    public enum Kind: String, Codable, Sendable {
        /// ``Price/amount`` for every call.
        case fixed
        /// By the usage that the upstream reports, at ``Price/perMillionInput`` and
        /// ``Price/perMillionOutput``, rounded up, at least ``Price/amount``.
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

    /// The same price for every call.
    public static func fixed(_ amount: Int64) -> Price {
        Price(kind: .fixed, amount: amount)
    }

    /// A price by usage, rounded up.
    public static func usage(
        perMillionInput: Int64,
        perMillionOutput: Int64,
        atLeast amount: Int64 = 1
    ) -> Price {
        Price(
            kind: .usage,
            amount: amount,
            perMillionInput: perMillionInput,
            perMillionOutput: perMillionOutput
        )
    }
}

/// A function as `GET /v1/functions` lists it.
public struct FunctionDescription: Hashable, Codable, Sendable {
    /// The name in the path.
    public var name: String
    /// What a call costs.
    public var price: Price
    /// How long answers are kept: `none`.
    public var cache: String
    /// Whether `Accept: text/event-stream` is served.
    public var stream: Bool
    /// The members of `input`: name and type, with `?` after optional ones.
    public var inputs: [String: String]

    /// Creates a description.
    public init(name: String, price: Price, cache: String, stream: Bool, inputs: [String: String]) {
        self.name = name
        self.price = price
        self.cache = cache
        self.stream = stream
        self.inputs = inputs
    }
}

/// The body of a function call and of a quote.
public struct FunctionRequest<Input: Codable & Sendable>: Codable, Sendable {
    /// What the function works on.
    public var input: Input
    /// The thread that the call continues.
    ///
    /// Default: none. No function keeps a history yet: a call with a thread is refused.
    public var thread: Identifier?
    /// The blobs that come with the call, by their ids.
    ///
    /// Default: none. No function takes any yet: a call with attachments is refused.
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

    /// Creates a quote.
    public init(estimate: Int64, hold: Int64) {
        self.estimate = estimate
        self.hold = hold
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

    /// Creates a result.
    public init(
        output: Output,
        charged: Int64,
        tokensRemaining: Int64,
        held: Int64,
        head: Int64,
        cached: Bool,
        operation: Identifier
    ) {
        self.output = output
        self.charged = charged
        self.tokensRemaining = tokensRemaining
        self.held = held
        self.head = head
        self.cached = cached
        self.operation = operation
    }
}

extension FunctionResult: Equatable where Output: Equatable {}
extension FunctionResult: Hashable where Output: Hashable {}
