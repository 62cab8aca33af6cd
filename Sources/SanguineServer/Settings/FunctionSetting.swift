public import SanguineModel

/// A function that is declared in the settings, without code.
///
/// ```swift
/// FunctionSetting(
///     name: "translate",
///     kind: .upstream,
///     rules: FunctionRules(price: .fixed(2), cache: .forever, streams: true),
///     inputs: [InputMember("text"), InputMember("to")],
///     prompt: "Translate into {{to}}: {{text}}"
/// )
/// ```
public struct FunctionSetting: Hashable, Sendable {
    /// The implementation of a function.
    public enum Kind: String, CaseIterable, Hashable, Sendable {
        /// The server itself, which returns the text.
        case echo
        /// A configured language model.
        case upstream
    }

    /// The name in the path.
    public var name: String
    /// The implementation.
    public var kind: Kind
    /// The price, the lifetime of cached answers, and the limits.
    public var rules: FunctionRules
    /// The members of the input, for a function of kind `upstream`.
    ///
    /// Default: a string `question`.
    public var inputs: [InputMember]
    /// The prompt, with placeholders for members of the input: `{{question}}`.
    ///
    /// Default: the question.
    public var prompt: String
    /// The system prompt, which may also contain placeholders.
    ///
    /// Default: none.
    public var systemPrompt: String?
    /// The maximum length of an answer in the model's tokens, which limits the cost of a call that
    /// is charged by usage.
    ///
    /// Default: 512.
    public var maxOutputTokens: Int
    /// The names of the upstreams to ask, in this order.
    ///
    /// Default: all, in the order of the settings.
    public var upstreams: [String]
    /// The requested model.
    ///
    /// Default: that of the upstream.
    public var model: String?

    /// The price of a call.
    public var price: Price { rules.price }

    /// Creates a function.
    public init(
        name: String,
        kind: Kind,
        rules: FunctionRules,
        inputs: [InputMember] = [InputMember("question")],
        prompt: String = "{{question}}",
        systemPrompt: String? = nil,
        maxOutputTokens: Int = 512,
        upstreams: [String] = [],
        model: String? = nil
    ) {
        self.name = name
        self.kind = kind
        self.rules = rules
        self.inputs = inputs
        self.prompt = prompt
        self.systemPrompt = systemPrompt
        self.maxOutputTokens = maxOutputTokens
        self.upstreams = upstreams
        self.model = model
    }

    /// Creates a function with a question as its input, without a cache, that streams its answer.
    public init(
        name: String,
        kind: Kind,
        price: Price,
        maxOutputTokens: Int = 512,
        systemPrompt: String? = nil
    ) {
        self.init(
            name: name,
            kind: kind,
            rules: FunctionRules(price: price, streams: true),
            systemPrompt: systemPrompt,
            maxOutputTokens: maxOutputTokens
        )
    }

    /// `echo`: returns the text, for one token.
    public static let echo = FunctionSetting(name: "echo", kind: .echo, price: .fixed(1))

    /// `ask`: asks the model a question, charged by usage; a short question with an answer of 300
    /// model tokens costs 3.
    public static let ask = FunctionSetting(
        name: "ask",
        kind: .upstream,
        price: .usage(perMillionInput: 2_000, perMillionOutput: 8_000)
    )

    /// `daily`: a thought for the day, for one token, the same until the account's midnight.
    public static let daily = FunctionSetting(
        name: "daily",
        kind: .upstream,
        rules: FunctionRules(price: .fixed(1), cache: .untilMidnight, streams: true),
        inputs: [InputMember("question", isOptional: true)],
        prompt: "Give me one thought for today. {{question}}",
        maxOutputTokens: 200
    )
}

/// A language model for functions, in addition to ``ServerSettings/Upstream``.
public struct UpstreamSetting: Hashable, Sendable {
    /// The name that functions and `upstream.fallbacks` refer to.
    public var name: String
    /// The base URL of a server that implements OpenAI's API.
    public var url: String
    /// The API key, sent as a bearer token.
    ///
    /// Default: none.
    public var key: Secret?
    /// The model's name.
    ///
    /// Default: `stand-in`.
    public var model: String
    /// The form of videos that are sent to the model.
    ///
    /// Default: as files.
    public var video: UpstreamConfiguration.Video
    /// The name of the member that limits the length of answers.
    ///
    /// Default: `auto`.
    public var outputLimit: UpstreamConfiguration.OutputLimit
    /// Whether it accepts `stream_options`.
    ///
    /// Default: `auto`.
    public var streamOptions: UpstreamConfiguration.StreamOptions

    /// Creates an upstream.
    public init(
        name: String,
        url: String,
        key: Secret? = nil,
        model: String = "stand-in",
        video: UpstreamConfiguration.Video = .file,
        outputLimit: UpstreamConfiguration.OutputLimit = .auto,
        streamOptions: UpstreamConfiguration.StreamOptions = .auto
    ) {
        self.name = name
        self.url = url
        self.key = key
        self.model = model
        self.video = video
        self.outputLimit = outputLimit
        self.streamOptions = streamOptions
    }
}
