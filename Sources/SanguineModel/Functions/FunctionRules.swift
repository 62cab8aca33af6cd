/// What a function costs, how long its answers are kept, and within which limits it runs.
///
/// ```swift
/// let rules = FunctionRules(price: .quota("readings"), cache: .untilMidnight, streams: true)
/// ```
public struct FunctionRules: Hashable, Sendable {
    /// Who pays when several identical calls are under way and share one run.
    public enum Payer: String, Hashable, Codable, Sendable, CaseIterable {
        /// The first one pays the price; each other one pays for a cached answer.
        case first
        /// Each pays the price.
        case each
    }

    /// What becomes of a streamed call when nobody reads it any more.
    public enum Disconnect: String, Hashable, Codable, Sendable, CaseIterable {
        /// It goes on to its end, which is kept and charged.
        ///
        /// At most ``FunctionLimits/drains`` calls of a function go on so; one more is stopped.
        case drain
        /// The upstream is stopped, and what it has made so far is charged.
        case stop
    }

    /// What distinguishes kept answers, in addition to the input.
    public enum Sameness: String, Hashable, Codable, Sendable, CaseIterable {
        /// The prompt that is made of the input: another prompt is another question.
        case prompt
        /// Nothing: for a prompt that differs each time, such as one with the time of day.
        ///
        /// A changed prompt needs another ``FunctionRules/version`` then.
        case input
    }

    /// What a call costs.
    ///
    /// Default: one token.
    public var price: Price
    /// How long answers are kept, and for whom.
    ///
    /// Default: not at all.
    public var cache: ResultCache
    /// Who pays when identical calls share one run; it matters for cached functions alone.
    ///
    /// Default: the first.
    public var payer: Payer
    /// Whether the answer comes in parts.
    ///
    /// Default: no, it comes at once.
    public var streams: Bool
    /// What becomes of a streamed call when nobody reads it any more.
    ///
    /// Default: it goes on.
    public var onDisconnect: Disconnect
    /// Which files a call may bring.
    ///
    /// Default: none.
    public var attachments: AttachmentRules?
    /// How much of anything a call may take.
    public var limits: FunctionLimits
    /// Whether calls belong to threads, whose history is kept.
    ///
    /// No server keeps threads yet: one refuses to start with a function that needs them. Default:
    /// no.
    public var keepsHistory: Bool
    /// What makes answers of an earlier version of the function count no more.
    ///
    /// Default: `1`.
    public var version: String
    /// What distinguishes kept answers, in addition to the input.
    ///
    /// It matters only for functions whose prompt is made in code. The model, the upstreams and the
    /// longest answer are part of a kept answer's key in either case. Default: the prompt.
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
        self.version = version
        self.sameness = sameness
    }
}

/// How much of anything a call of a function may take.
public struct FunctionLimits: Hashable, Sendable {
    /// Bytes of the input, as JSON.
    ///
    /// Default: 128 KiB.
    public var inputBytes: Int
    /// Calls of the function that run at a time; more wait.
    ///
    /// Default: `nil`, as many as the server runs.
    public var running: Int?
    /// Calls of the function that one account may have running at a time; more wait.
    ///
    /// Default: `nil`, as many as the server lets an account have.
    public var runningPerAccount: Int?
    /// How often an account may make the same call, by its input, within a minute.
    ///
    /// More are refused with 429. Default: `nil`, as often as it likes.
    public var repeatsPerMinute: Int?
    /// Streamed calls of the function that go on although nobody reads them.
    ///
    /// Default: 100.
    public var drains: Int
    /// How long a run may take whose answer comes in one piece, and how long one in parts may
    /// pause; the server's `upstream.streamTimeout` bounds that in all.
    ///
    /// Default: `nil`, what the server gives its upstreams.
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

/// Which files a call may bring.
public struct AttachmentRules: Hashable, Codable, Sendable {
    /// How many at most.
    ///
    /// Default: 4.
    public var count: Int
    /// How many at least.
    ///
    /// Default: 0.
    public var minimum: Int
    /// Bytes of all of them together.
    ///
    /// Default: 25 MiB.
    public var bytes: Int
    /// Which types, by their content: `image/jpeg`, `image/png`, `image/webp`, `video/mp4`, ….
    ///
    /// Default: JPEG, PNG and WebP.
    public var types: [String]
    /// Tokens of the upstream that one of them counts as, at most; it bounds what is held.
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
    /// Reads rules; a server of an earlier version says nothing of the minimum.
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
