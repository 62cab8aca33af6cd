public import SanguineModel

/// A function that can be called, without code.
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
    /// What runs the function.
    public enum Kind: String, CaseIterable, Hashable, Sendable {
        /// The server itself: the text comes back.
        case echo
        /// A configured language model.
        case upstream
    }

    /// The name in the path.
    public var name: String
    /// What runs it.
    public var kind: Kind
    /// What a call costs, how long answers are kept, and the limits.
    public var rules: FunctionRules
    /// The members of the input, for a function of kind `upstream`.
    ///
    /// Default: a text `question`.
    public var inputs: [InputMember]
    /// What the model is asked, with places for members of the input: `{{question}}`.
    ///
    /// Default: the question.
    public var prompt: String
    /// What the model is told before; it may have places, too.
    ///
    /// Default: nothing.
    public var systemPrompt: String?
    /// The longest answer in the model's tokens; it bounds what a call by usage can cost.
    ///
    /// Default: 512.
    public var maxOutputTokens: Int
    /// The upstreams that are asked, in this order, by their names.
    ///
    /// Default: all that there are, in theirs.
    public var upstreams: [String]
    /// The model that is asked for.
    ///
    /// Default: that of the upstream.
    public var model: String?

    /// What a call costs.
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

    /// Creates a function that takes a question, keeps nothing, and streams its answer.
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

    /// `echo`: the text comes back, for one token.
    public static let echo = FunctionSetting(name: "echo", kind: .echo, price: .fixed(1))

    /// `ask`: a question to the model, priced by usage: a short question with an answer of 300 of
    /// the model's tokens costs 3.
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

/// A language model that functions can be answered by, beside ``ServerSettings/Upstream``.
public struct UpstreamSetting: Hashable, Sendable {
    /// The name by which functions and `upstream.fallbacks` choose it.
    public var name: String
    /// The base URL of a server that speaks OpenAI's API.
    public var url: String
    /// The key sent as bearer token.
    ///
    /// Default: none.
    public var key: Secret?
    /// The model's name.
    ///
    /// Default: `stand-in`.
    public var model: String
    /// How the model is shown a video.
    ///
    /// Default: as the file that it is.
    public var video: UpstreamConfiguration.Video
    /// The name of the member that limits the length of answers.
    ///
    /// Default: `auto`.
    public var outputLimit: UpstreamConfiguration.OutputLimit
    /// Whether it takes `stream_options`.
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
