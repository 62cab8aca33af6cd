import Foundation
import SanguineAuthority
import SanguineModel

/// What is asked of a language model.
public struct UpstreamPrompt: Hashable, Sendable {
    /// One turn of the conversation.
    public struct Message: Hashable, Codable, Sendable {
        /// Who speaks.
        public enum Role: String, Hashable, Codable, Sendable {
            /// Instructions of the app.
            case system
            /// The user.
            case user
        }

        /// Who speaks.
        public var role: Role
        /// What is said.
        public var content: String

        /// Creates a turn.
        public init(_ role: Role, _ content: String) {
            self.role = role
            self.content = content
        }
    }

    /// The conversation, oldest first.
    public var messages: [Message]
    /// The longest answer, in the model's tokens.
    ///
    /// It bounds what a call can cost.
    public var maxOutputTokens: Int

    /// Creates a prompt.
    public init(messages: [Message], maxOutputTokens: Int) {
        self.messages = messages
        self.maxOutputTokens = maxOutputTokens
    }
}

/// What a call has used, as the upstream reports it.
public struct UpstreamUsage: Hashable, Sendable {
    /// The most of either that is believed: a billion.
    ///
    /// It keeps a price within 64 bits.
    static let largestCount: Int64 = 1_000_000_000

    /// Tokens of the prompt.
    public let promptTokens: Int64
    /// Tokens of the answer.
    public let completionTokens: Int64

    /// Creates a usage.
    public init(promptTokens: Int64, completionTokens: Int64) {
        self.promptTokens = promptTokens
        self.completionTokens = completionTokens
    }

    /// Reads `usage`, or returns `nil` unless both counts are whole, not negative, and believable.
    init?(_ json: JSONValue?) {
        let range = 0...Self.largestCount
        guard let prompt = json?["prompt_tokens"]?.integer, range.contains(prompt),
            let completion = json?["completion_tokens"]?.integer, range.contains(completion)
        else { return nil }
        self.init(promptTokens: prompt, completionTokens: completion)
    }
}

/// What a language model answered.
public struct UpstreamAnswer: Hashable, Sendable {
    /// The text.
    public let text: String
    /// What the call has used; `nil` if the upstream does not say, or says nonsense.
    public let usage: UpstreamUsage?

    /// Creates an answer.
    public init(text: String, usage: UpstreamUsage?) {
        self.text = text
        self.usage = usage
    }

    /// Reads the body of a chat completion (OpenAI API reference), or returns `nil` if it is none.
    init?(body: Data) {
        // The bytes are bounded already, and what was paid for is not refused for its structure.
        let limits = JSONParser.Limits(values: .max)
        guard let json = try? JSONParser.parse(Array(body), limits: limits).value,
            case .array(let choices) = json["choices"],
            let text = choices.first?["message"]?["content"]?.string
        else { return nil }
        self.init(text: text, usage: UpstreamUsage(json["usage"]))
    }
}

/// The body of a request, in OpenAI's names.
///
/// Never streamed: `stream` is left out.
struct UpstreamRequestBody: Encodable {
    let model: String
    let messages: [UpstreamPrompt.Message]
    let maxTokens: Int

    enum CodingKeys: String, CodingKey {
        case model, messages
        case maxTokens = "max_tokens"
    }
}

/// Why an upstream gave no answer.
///
/// Holds nothing of the prompt, the key or the answer. Where `mayHaveBeenSent` is false, the
/// upstream has certainly done no work.
public enum UpstreamError: Error, Hashable, Sendable {
    /// It took longer than the configured time.
    case timeout(mayHaveBeenSent: Bool)
    /// It answered with a status other than 200, and perhaps with seconds to wait.
    case refused(status: Int, retryAfterSeconds: Int?)
    /// The connection could not be made, or broke.
    case failed(mayHaveBeenSent: Bool)
    /// It answered with 200, but with something that is no chat completion.
    case unreadable
    /// Its answer is longer than the limit, in bytes.
    case tooLarge(limit: Int)
    /// The caller gave up.
    case cancelled(mayHaveBeenSent: Bool)
}

extension UpstreamError: CustomStringConvertible {
    /// What happened, and what the operator can do about it.
    public var description: String {
        switch self {
        case .timeout:
            "The upstream did not answer in time. Try again, or raise 'upstream.timeout'."
        case .refused(let status, _) where status == 401 || status == 403:
            "The upstream refused the key (status \(status)). Check 'upstream.key'."
        case .refused(let status, _) where status == 404:
            """
            The upstream knows no such address or model. Check 'upstream.url' and \
            'upstream.model'.
            """
        case .refused(let status, _):
            "The upstream refused with status \(status). Try again later."
        case .failed(let sent):
            sent
                ? "The connection to the upstream broke. Try again later."
                : "The upstream cannot be reached. Check that it runs, and check 'upstream.url'."
        case .unreadable:
            "The upstream answered, but not with a chat completion. Check 'upstream.url'."
        case .tooLarge(let limit):
            """
            The upstream's answer is longer than \(limit) bytes. Lower the function's output \
            limit.
            """
        case .cancelled:
            "The call was given up before the upstream answered."
        }
    }
}
