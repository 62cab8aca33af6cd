import Foundation
public import SanguineModel

/// Everything about a server that can be configured, with its default.
///
/// Each value that is set by name stands in ``Setting/all`` too, which is what the command reads
/// flags, environment and file by, and what the documentation is printed from.
///
/// ```swift
/// var settings = ServerSettings()
/// settings.http.port = 0
/// settings.quotas = [QuotaSetting(name: "readings", perDay: 5)]
/// try settings.validate()
/// ```
public struct ServerSettings: Hashable, Sendable {
    /// Where the server listens, and to whom.
    public struct HTTP: Hashable, Sendable {
        /// The address of the public port.
        ///
        /// Default: loopback only.
        public var host = "127.0.0.1"
        /// The public port; 0 picks a free one.
        ///
        /// Default: 8080.
        public var port = 8_080
        /// The address of the port for metrics and administration.
        ///
        /// Default: loopback only.
        public var adminHost = "127.0.0.1"
        /// The port for metrics and administration.
        ///
        /// Default: `nil`, see ``effectiveAdminPort``.
        public var adminPort: Int?
        /// Origins whose pages may call the API (CORS).
        ///
        /// Default: none.
        public var corsOrigins: [String] = []
        /// Names and addresses, beside loopback and ``adminHost``, under which the port for metrics
        /// and administration may be called.
        ///
        /// Default: none.
        public var adminHosts: [String] = []
        /// Addresses, and ranges such as `10.0.0.0/8`, of proxies whose `Forwarded` (RFC 7239) or
        /// `X-Forwarded-For` names the client, for the limits of addresses.
        ///
        /// Default: none, the peer is the client.
        public var trustedProxies: [String] = []
        /// The PEM file with the certificate chain of the public port, read again on SIGHUP.
        ///
        /// With ``tlsKey`` the port speaks TLS, and HTTP/2 with clients that ask for it. Default:
        /// `nil`, in the clear.
        public var tlsCertificate: String?
        /// The PEM file with the certificate's private key, which only its owner may read.
        ///
        /// Default: `nil`.
        public var tlsKey: String?

        /// The port for metrics and administration: ``adminPort``, or else the public port + 1, or
        /// 0 if that is 0.
        public var effectiveAdminPort: Int {
            adminPort ?? (port == 0 ? 0 : port + 1)
        }

        /// What the public port proves itself with, or `nil` without TLS.
        func tlsIdentity() throws(TLSFileError) -> TLSIdentity? {
            guard let tlsCertificate, let tlsKey else { return nil }
            return try TLSIdentity(certificate: tlsCertificate, key: tlsKey)
        }
    }

    /// How much of anything is taken at a time.
    public struct Limits: Hashable, Sendable {
        /// Bytes of a request's body.
        ///
        /// Default: 1 MiB.
        public var bodyBytes = WireLimits.bodyBytes
        /// Requests of an account in a minute.
        ///
        /// Default: 60,000.
        public var requestsPerMinute = 60_000
        /// Requests of an address in a minute, where no account is known.
        ///
        /// Default: 60,000.
        public var addressRequestsPerMinute = 60_000
        /// Processor time in ten seconds that is spent for an address on requests without a valid
        /// token; more are refused with 429.
        ///
        /// Default: 3 s.
        public var addressProcessorTime: Duration = .seconds(3)
        /// Connections at a time, the live ones among them; more wait to be accepted.
        ///
        /// One address gets half of them; more of it are closed. Where the process may open too few
        /// files, there are fewer. Default: 20,000.
        public var connections = 20_000
        /// The longest time that a request's body may take to arrive.
        ///
        /// Default: 30 s.
        public var requestTimeout: Duration = .seconds(30)
        /// After how long a connection without a request is closed.
        ///
        /// Default: 60 s.
        public var idleTimeout: Duration = .seconds(60)
        /// How long a peer may take nothing of an answer, or of a live connection's events, before
        /// its connection is closed.
        ///
        /// Default: 30 s.
        public var writeTimeout: Duration = .seconds(30)
        /// Bytes of all answers that wait to be read; past it those who ask are refused with 503.
        ///
        /// Default: 64 MiB.
        public var answerBytes = 64 << 20
        /// Bytes of all bodies whose requests have no answer yet; past it those who send are
        /// refused with 503.
        ///
        /// Default: 64 MiB.
        public var receivedBytes = 64 << 20
        /// Bytes of a file that is uploaded; a larger one is refused with 413.
        ///
        /// Default: 25 MiB.
        public var blobBytes = WireLimits.blobBytes
        /// Bytes that the records and files of an account may take; what would take more is refused
        /// with `storage_full`.
        ///
        /// Default: 64 MiB.
        public var accountBytes = 64 << 20
        /// Runs of functions at a time; more calls wait for their turn.
        ///
        /// One account gets a quarter of them. Default: 1,000.
        public var functionCalls = 1_000
        /// Calls of functions that wait for their turn, or share a run; more are refused with 503.
        ///
        /// Of these and those that run, one account gets a quarter and one address half. Default:
        /// 4,000.
        public var queuedCalls = 4_000
        /// How long a call waits for its turn before it is taken back and refused with 503.
        ///
        /// Default: 60 s.
        public var queueTime: Duration = .seconds(60)
        /// Bytes of memory for answers of functions that are kept; the storage keeps more.
        ///
        /// Default: 32 MiB.
        public var resultMemoryBytes = 32 << 20
        /// Live connections at a time; more are refused with 503.
        ///
        /// One address gets half of them. Default: 10,000.
        public var liveConnections = 10_000
        /// Live connections of an account at a time; more are refused with 429.
        ///
        /// Default: 32.
        public var liveConnectionsPerAccount = 32
        /// After how long without an event a live connection gets a comment.
        ///
        /// Default: 20 s.
        public var livePing: Duration = .seconds(20)
        /// Free bytes on the data's disk below which the log warns; 0 never.
        ///
        /// Default: 1 GiB.
        public var freeBytes = 1 << 30
        /// How long requests in flight may still take once the server is told to stop.
        ///
        /// Default: 30 s.
        public var shutdownGrace: Duration = .seconds(30)
    }

    /// What a new account gets.
    public struct Accounts: Hashable, Sendable {
        /// The name of what a balance counts.
        ///
        /// Default: `tokens`.
        public var unit = "tokens"
        /// What a new account is granted.
        ///
        /// Default: 100.
        public var grant = 100
        /// The IANA time zone of accounts that name none.
        ///
        /// Default: UTC.
        public var defaultTimeZone = "UTC"
        /// The BCP 47 language of accounts that name none.
        ///
        /// Default: `en`.
        public var defaultLanguage = "en"
    }

    /// The tokens that prove who is calling.
    public struct Tokens: Hashable, Sendable {
        /// How long an access token is valid.
        ///
        /// Default: 15 min.
        public var accessLifetime: Duration = .seconds(15 * 60)
        /// How long a refresh token is valid.
        ///
        /// Default: 60 days.
        public var refreshLifetime: Duration = .seconds(60 * 86_400)
        /// How long a rotated refresh token is still answered with its successor.
        ///
        /// Default: 60 s.
        public var rotationGrace: Duration = .seconds(60)
        /// The `iss` of access tokens.
        ///
        /// Default: `sanguine`.
        public var issuer = "sanguine"
        /// The `aud` of access tokens.
        ///
        /// Default: `sanguine`.
        public var audience = "sanguine"
    }

    /// The language model that functions call.
    public struct Upstream: Hashable, Sendable {
        /// The base URL of a server that speaks OpenAI's API.
        ///
        /// Default: `nil`, functions that need it answer 503 `upstream_missing`.
        public var url: String?
        /// The key sent as bearer token.
        ///
        /// Default: none.
        public var key: Secret?
        /// The model's name.
        ///
        /// Default: `stand-in`.
        public var model = "stand-in"
        /// The longest time that connecting may take.
        ///
        /// Default: 5 s.
        public var connectTimeout: Duration = .seconds(5)
        /// The longest time that an answer in one piece may take, and the longest pause of a
        /// streamed one.
        ///
        /// Default: 60 s.
        public var timeout: Duration = .seconds(60)
        /// The longest time that a streamed answer may take in all.
        ///
        /// Default: 30 min.
        public var streamTimeout: Duration = .seconds(1_800)
        /// The longest answer in bytes.
        ///
        /// Default: 1 MiB.
        public var answerBytes = UpstreamConfiguration.defaultAnswerBytes
        /// How the model is shown a video, by ``UpstreamConfiguration/Video``: `file` or `frames`.
        ///
        /// Default: `file`.
        public var video = UpstreamConfiguration.Video.file.rawValue
        /// The name of the member that limits the length of answers, by
        /// ``UpstreamConfiguration/OutputLimit``.
        ///
        /// Default: `auto`.
        public var outputLimit = UpstreamConfiguration.OutputLimit.auto.rawValue
        /// Whether it takes `stream_options`, by ``UpstreamConfiguration/StreamOptions``.
        ///
        /// Default: `auto`.
        public var streamOptions = UpstreamConfiguration.StreamOptions.auto.rawValue
        /// The names of ``ServerSettings/upstreams`` that are asked, in this order, while this one
        /// fails; functions that name their own do not ask them.
        ///
        /// Default: none.
        public var fallbacks: [String] = []

        /// The name of this one among all.
        public static let name = "default"

        /// The configuration of the client, or `nil` if no URL is set.
        ///
        /// - Throws: ``UpstreamConfigurationError`` for values that ``ServerSettings/validate()``
        ///   refuses.
        public func configuration() throws(UpstreamConfigurationError) -> UpstreamConfiguration? {
            guard let url else { return nil }
            return try UpstreamConfiguration(
                url: url,
                apiKey: key,
                model: model,
                connectTimeout: connectTimeout,
                timeout: timeout,
                answerBytes: answerBytes,
                video: UpstreamConfiguration.Video(rawValue: video) ?? .file,
                outputLimit: UpstreamConfiguration.OutputLimit(rawValue: outputLimit) ?? .auto,
                streamOptions: UpstreamConfiguration.StreamOptions(rawValue: streamOptions) ?? .auto
            )
        }
    }

    /// The door for programs that were written for OpenAI's API.
    public struct OpenAI: Hashable, Sendable {
        /// The function of kind `upstream` by whose price and limits they are metered; empty closes
        /// the door.
        ///
        /// Default: `ask`.
        public var function = "ask"
    }

    /// How pictures are made of videos, for upstreams that take pictures alone.
    public struct Video: Hashable, Sendable {
        /// FFmpeg: a path, or a name that is looked for in the folders of `PATH`; `ffprobe` stands
        /// beside it.
        ///
        /// Default: `ffmpeg`.
        public var ffmpeg = "ffmpeg"
        /// How many pictures are made of a video.
        ///
        /// Default: 8.
        public var frames = 8
    }

    /// What is logged.
    public struct Log: Hashable, Sendable {
        /// The least level that is written.
        ///
        /// Default: `info`.
        public var level = "info"
        /// Whether every request gets a line.
        ///
        /// Default: yes.
        public var access = true
    }

    /// Where the server listens, and to whom.
    public var http = HTTP()
    /// How much of anything is taken at a time.
    public var limits = Limits()
    /// What a new account gets.
    public var accounts = Accounts()
    /// The tokens that prove who is calling.
    public var tokens = Tokens()
    /// How long the answers of operations are replayed.
    ///
    /// Default: 48 h.
    public var idempotencyKeep: Duration = .seconds(48 * 3_600)
    /// How long a hold lasts that names no time.
    ///
    /// Default: 10 min.
    public var holdsDuration: Duration = .seconds(10 * 60)
    /// The language model that functions call.
    public var upstream = Upstream()
    /// How pictures are made of videos.
    public var video = Video()
    /// The door for programs that were written for OpenAI's API.
    public var openAI = OpenAI()
    /// What is logged.
    public var log = Log()
    /// What an account may do a day.
    ///
    /// Default: three readings.
    public var quotas = [QuotaSetting(name: "readings", perDay: 3)]
    /// The collections of records, of which there are none but these.
    ///
    /// Who may read a collection is settled by its first record. Default: those of
    /// `RecordSchema.standard`.
    public var collections = RecordSchema.standard.allCollections
    /// What can be called.
    ///
    /// Default: ``FunctionSetting/echo``, ``FunctionSetting/ask`` and ``FunctionSetting/daily``.
    public var functions = [FunctionSetting.echo, .ask, .daily]
    /// The language models that there are beside that of ``upstream``.
    ///
    /// Default: none.
    public var upstreams: [UpstreamSetting] = []

    /// Creates the settings that a server starts with when given none.
    public init() {}
}

/// How often a day an account may do something.
public struct QuotaSetting: Hashable, Sendable {
    /// The name in the path.
    public var name: String
    /// How often from one midnight of the account's zone to the next.
    public var perDay: Int

    /// Creates a quota.
    public init(name: String, perDay: Int) {
        self.name = name
        self.perDay = perDay
    }
}
