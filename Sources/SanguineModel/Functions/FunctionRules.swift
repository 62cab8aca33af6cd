/// The price, the cache policy and the limits of a function.
///
/// ```swift
/// let rules = FunctionRules(price: .quota("readings"), cache: .untilMidnight, streams: true)
/// ```
public struct FunctionRules: Hashable, Sendable {
    /// The calls that pay when several identical calls share one run.
    public enum Payer: String, Hashable, Codable, Sendable, CaseIterable {
        /// The first call pays the price; the others pay the price of a cached answer.
        case first
        /// Every call pays the price.
        case each
    }

    /// The handling of a streamed call after its client disconnects.
    public enum Disconnect: String, Hashable, Codable, Sendable, CaseIterable {
        /// The call runs to its end, and its answer is cached and charged.
        ///
        /// At most ``FunctionLimits/drains`` calls of a function continue this way; further calls
        /// are stopped.
        case drain
        /// The upstream request is stopped, and the output so far is charged.
        case stop
    }

    /// The part of a cached answer's key that is added to the input.
    public enum Sameness: String, Hashable, Codable, Sendable, CaseIterable {
        /// The prompt that is built from the input, so that a changed prompt invalidates answers.
        case prompt
        /// Nothing, for prompts that differ each time, such as one that contains the time of day.
        ///
        /// After the prompt is changed, ``FunctionRules/version`` must change too.
        case input
    }

    /// The price of a call.
    ///
    /// Default: one token.
    public var price: Price
    /// The lifetime of cached answers, and the accounts that may receive them.
    ///
    /// Default: not at all.
    public var cache: ResultCache
    /// The calls that pay when identical calls share one run; this matters only with a cache.
    ///
    /// Default: the first.
    public var payer: Payer
    /// Whether the answer is streamed.
    ///
    /// Default: no, it is sent as one response.
    public var streams: Bool
    /// The handling of a streamed call after its client disconnects.
    ///
    /// Default: the call runs to its end.
    public var onDisconnect: Disconnect
    /// The rules for files that are attached to a call.
    ///
    /// Default: none.
    public var attachments: AttachmentRules?
    /// The limits of a call.
    public var limits: FunctionLimits
    /// Whether a call may name a thread, in which its question and its answer are stored.
    ///
    /// See ``ChatThread``. Default: no.
    public var keepsHistory: Bool
    /// The part of a thread that a call receives as its context.
    ///
    /// This matters only with ``keepsHistory``.
    public var history: HistoryRules
    /// The name of the function that makes a title for a new thread, or `nil` for none.
    ///
    /// The server calls it once after the first answer of a thread, for the account and at its own
    /// price; its input is `{"question", "answer"}`, both texts. A thread that the user named keeps
    /// its title. This matters only with ``keepsHistory``. Default: none.
    public var titles: String?
    /// The function's version.
    ///
    /// A new version invalidates the cached answers of earlier ones.
    ///
    /// Default: `1`.
    public var version: String
    /// The part of a cached answer's key that is added to the input.
    ///
    /// This matters only for functions that build their prompt in code. The model, the upstreams
    /// and the longest answer are always part of a cached answer's key. Default: the prompt.
    public var sameness: Sameness

    /// Creates rules.
    public init(
        price: Price = .fixed(1),
        cache: ResultCache = .none,
        payer: Payer = .first,
        streams: Bool = false,
        onDisconnect: Disconnect = .drain,
        attachments: AttachmentRules? = nil,
        limits: FunctionLimits = FunctionLimits(),
        keepsHistory: Bool = false,
        history: HistoryRules = HistoryRules(),
        titles: String? = nil,
        version: String = "1",
        sameness: Sameness = .prompt
    ) {
        self.price = price
        self.cache = cache
        self.payer = payer
        self.streams = streams
        self.onDisconnect = onDisconnect
        self.attachments = attachments
        self.limits = limits
        self.keepsHistory = keepsHistory
        self.history = history
        self.titles = titles
        self.version = version
        self.sameness = sameness
    }
}

extension FunctionRules {
    /// Whether a question that is repeated in a thread is never answered from the cache.
    ///
    /// The context of a call is a part of a cached answer's key, and the first answer changes it. A
    /// call outside of threads is answered from the cache all the same.
    package var missesCacheInThreads: Bool {
        keepsHistory && history.messages > 0 && history.tokens > 0 && cache.lifetime != .none
    }
}

/// The limits of a call of a function.
public struct FunctionLimits: Hashable, Sendable {
    /// The largest size of the input, in bytes of JSON.
    ///
    /// Default: 128 KiB.
    public var inputBytes: Int
    /// The number of calls of the function that run at a time; further calls wait.
    ///
    /// Default: `nil`, which leaves the limit to the server.
    public var running: Int?
    /// The number of calls of the function that one account may run at a time; further calls wait.
    ///
    /// Default: `nil`, which leaves the limit to the server.
    public var runningPerAccount: Int?
    /// The number of times that an account may repeat a call with the same input within a minute.
    ///
    /// Further calls are refused with status 429. Default: `nil`, no limit.
    public var repeatsPerMinute: Int?
    /// The number of streamed calls of the function that continue after their clients disconnect.
    ///
    /// Default: 100.
    public var drains: Int
    /// The longest time that a run with an unstreamed answer may take, and the longest pause within
    /// a streamed one.
    ///
    /// The server's `upstream.streamTimeout` bounds a streamed answer as a whole.
    ///
    /// Default: `nil`, the server's timeout for upstreams.
    public var timeout: Duration?

    /// Creates limits.
    public init(
        inputBytes: Int = 128 << 10,
        running: Int? = nil,
        runningPerAccount: Int? = nil,
        repeatsPerMinute: Int? = nil,
        drains: Int = 100,
        timeout: Duration? = nil
    ) {
        self.inputBytes = inputBytes
        self.running = running
        self.runningPerAccount = runningPerAccount
        self.repeatsPerMinute = repeatsPerMinute
        self.drains = drains
        self.timeout = timeout
    }
}

/// Rules for the files that a call may have attached.
public struct AttachmentRules: Hashable, Codable, Sendable {
    /// The maximum number of files.
    ///
    /// Default: 4.
    public var count: Int
    /// The smallest number of files.
    ///
    /// Default: 0.
    public var minimum: Int
    /// The total size of the files, in bytes.
    ///
    /// Default: 25 MiB.
    public var bytes: Int
    /// The allowed content types: `image/jpeg`, `image/png`, `image/webp`, `video/mp4`, ….
    ///
    /// Default: JPEG, PNG and WebP.
    public var types: [String]
    /// The maximum number of upstream tokens that one file counts as; it bounds the held amount.
    ///
    /// Default: 2,048.
    public var tokens: Int64

    /// Creates rules.
    public init(
        count: Int = 4,
        minimum: Int = 0,
        bytes: Int = 25 << 20,
        types: [String] = ["image/jpeg", "image/png", "image/webp"],
        tokens: Int64 = 2_048
    ) {
        self.count = count
        self.minimum = minimum
        self.bytes = bytes
        self.types = types
        self.tokens = tokens
    }
}

extension AttachmentRules {
    /// Decodes rules.
    ///
    /// Servers of earlier versions do not send the minimum.
    public init(from decoder: any Decoder) throws {
        let members = try decoder.container(keyedBy: CodingKeys.self)
        self.init(
            count: try members.decode(Int.self, forKey: .count),
            minimum: try members.decodeIfPresent(Int.self, forKey: .minimum) ?? 0,
            bytes: try members.decode(Int.self, forKey: .bytes),
            types: try members.decode([String].self, forKey: .types),
            tokens: try members.decode(Int64.self, forKey: .tokens)
        )
    }
}
