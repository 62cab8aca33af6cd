/// A call of a metered function, declared once in code that both client and server can see.
///
/// ```swift
/// struct Translate: FunctionCall {
///     static let name = "translate"
///     static let rules = FunctionRules(price: .fixed(2), cache: .forever, streams: true)
///     typealias Output = String
///     struct Input: Codable, Sendable { var text: String, to: String }
///     var input: Input
/// }
///
/// let answer = try await client.call(Translate(input: .init(text: "Guten Tag", to: "en")))
/// ```
///
/// The server registers an implementation for this type; the client calls it.
public protocol FunctionCall: Sendable {
    /// The function's input, sent as `input` in the request body.
    associatedtype Input: Codable & Sendable
    /// The function's result, returned as `output` in the response.
    associatedtype Output: Codable & Sendable

    /// The function's name in the path.
    static var name: String { get }

    /// The function's price, cache policy and limits.
    ///
    /// A server that registers the function applies these rules. A client uses them to predict the
    /// cost of a call. Default: one token per call, no caching.
    static var rules: FunctionRules { get }

    /// The expected cost of a call, in the balance's unit, before any call has been made.
    ///
    /// The client shows this amount as held until real charges give a better estimate. Default:
    /// ``Price/amount`` of the rules.
    static var expectedCost: Int64 { get }

    /// The handling of calls without a network connection.
    ///
    /// Default: the call is refused at once.
    static var whenOffline: OfflineCall { get }

    /// The input of this call.
    var input: Input { get }

    /// The ids of the uploaded files that this call uses.
    ///
    /// The function accepts the files that ``FunctionRules/attachments`` of its rules allow.
    /// Default: none.
    var attachments: [String] { get }
}

extension FunctionCall {
    /// One token per call, no caching.
    public static var rules: FunctionRules { FunctionRules() }

    /// The amount of the price.
    public static var expectedCost: Int64 { rules.price.amount }

    /// No attachments.
    public var attachments: [String] { [] }

    /// The call is refused.
    public static var whenOffline: OfflineCall { .refuse }
}

/// The handling of calls without a network connection.
public enum OfflineCall: String, Hashable, Codable, Sendable {
    /// The call is refused at once, and nothing is held.
    case refuse
    /// The call waits in the outbox until the network is available. Its hold is shown until then.
    case queue
}

/// Asks the configured language model a question.
///
/// This is `ask` in the default configuration.
public struct Ask: FunctionCall {
    /// The input of ``Ask``.
    public struct Input: Hashable, Codable, Sendable {
        /// The question.
        public var question: String

        /// Creates the input.
        public init(question: String) { self.question = question }
    }

    /// The text of the answer.
    public typealias Output = String

    /// `ask`.
    public static let name = "ask"
    /// Priced by usage; the answer is streamed.
    public static let rules = FunctionRules(
        price: .usage(perMillionInput: 2_000, perMillionOutput: 8_000),
        streams: true
    )
    /// Three tokens, enough for a short question and an answer of a few hundred words.
    public static let expectedCost: Int64 = 3

    /// The input of this call.
    public let input: Input

    /// Creates the call.
    public init(question: String) { input = Input(question: question) }
}

/// Returns its input text.
///
/// This is `echo` in the default configuration, meant for experiments.
public struct Echo: FunctionCall {
    /// The input of ``Echo``.
    public struct Input: Hashable, Codable, Sendable {
        /// The text to return.
        public var text: String
        /// The number of milliseconds to wait before the text is returned.
        ///
        /// Default: no wait.
        public var delayMs: Int?

        /// Creates the input.
        public init(text: String, delayMs: Int? = nil) {
            self.text = text
            self.delayMs = delayMs
        }
    }

    /// The returned text.
    public typealias Output = String

    /// `echo`.
    public static let name = "echo"
    /// One token per call; the text is streamed.
    public static let rules = FunctionRules(price: .fixed(1), streams: true)
    /// One token.
    public static let expectedCost: Int64 = 1

    /// The input of this call.
    public let input: Input

    /// Creates the call.
    public init(text: String, delayMs: Int? = nil) {
        input = Input(text: text, delayMs: delayMs)
    }
}
