/// A call of a metered function: declared once, in code that both ends can see.
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
/// The server registers what computes it, by the same type; the client calls it.
public protocol FunctionCall: Sendable {
    /// What the function works on; the `input` of the body.
    associatedtype Input: Codable & Sendable
    /// What it makes; the `output` of the answer.
    associatedtype Output: Codable & Sendable

    /// The function's name in the path.
    static var name: String { get }

    /// What a call costs, how long its answers are kept, and its limits.
    ///
    /// A server that registers the function serves it by these rules. A client reads from them what
    /// a call will cost. Default: one token for a call, nothing kept.
    static var rules: FunctionRules { get }

    /// What a call is expected to cost, in the balance's unit, before any call has been made.
    ///
    /// The client shows this much as held until it has learned better from real charges. Default:
    /// ``Price/amount`` of the rules.
    static var expectedCost: Int64 { get }

    /// What becomes of a call that is made without a network.
    ///
    /// Default: it is refused at once.
    static var whenOffline: OfflineCall { get }

    /// This call's input.
    var input: Input { get }

    /// The files that come with this call, by the ids that their upload has given.
    ///
    /// A function takes those that ``FunctionRules/attachments`` of its rules allow. Default: none.
    var attachments: [String] { get }
}

extension FunctionCall {
    /// One token for a call, nothing kept.
    public static var rules: FunctionRules { FunctionRules() }

    /// The amount of the price.
    public static var expectedCost: Int64 { rules.price.amount }

    /// None.
    public var attachments: [String] { [] }

    /// The call is refused.
    public static var whenOffline: OfflineCall { .refuse }
}

/// What becomes of a call that is made without a network.
public enum OfflineCall: String, Hashable, Codable, Sendable {
    /// It is refused at once; nothing is held.
    case refuse
    /// It waits in the outbox and is sent when there is a network; its hold is shown meanwhile.
    case queue
}

/// Asks the configured language model a question; the `ask` of the default configuration.
public struct Ask: FunctionCall {
    /// The input of ``Ask``.
    public struct Input: Hashable, Codable, Sendable {
        /// What to ask.
        public var question: String

        /// Creates the input.
        public init(question: String) { self.question = question }
    }

    /// The answer's text.
    public typealias Output = String

    /// `ask`.
    public static let name = "ask"
    /// By usage; the answer streams.
    public static let rules = FunctionRules(
        price: .usage(perMillionInput: 2_000, perMillionOutput: 8_000),
        streams: true
    )
    /// Three tokens: a short question with an answer of a few hundred words.
    public static let expectedCost: Int64 = 3

    /// This call's input.
    public let input: Input

    /// Creates the call.
    public init(question: String) { input = Input(question: question) }
}

/// Returns its text; the `echo` of the default configuration, for trying things out.
public struct Echo: FunctionCall {
    /// The input of ``Echo``.
    public struct Input: Hashable, Codable, Sendable {
        /// What comes back.
        public var text: String
        /// Milliseconds to wait before it does.
        ///
        /// Default: none.
        public var delayMs: Int?

        /// Creates the input.
        public init(text: String, delayMs: Int? = nil) {
            self.text = text
            self.delayMs = delayMs
        }
    }

    /// The text.
    public typealias Output = String

    /// `echo`.
    public static let name = "echo"
    /// One token for a call; the text streams.
    public static let rules = FunctionRules(price: .fixed(1), streams: true)
    /// One token.
    public static let expectedCost: Int64 = 1

    /// This call's input.
    public let input: Input

    /// Creates the call.
    public init(text: String, delayMs: Int? = nil) {
        input = Input(text: text, delayMs: delayMs)
    }
}
