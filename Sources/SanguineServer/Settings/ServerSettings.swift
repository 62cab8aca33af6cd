import Foundation
public import SanguineAuthority
public import SanguineModel

/// All settings of a server, with their defaults.
///
/// Each setting with a key is also declared in ``Setting/all``, from which the command reads flags,
/// environment and file, and from which the documentation is generated.
///
/// ```swift
/// var settings = ServerSettings()
/// settings.http.port = 0
/// settings.quotas = [QuotaSetting(name: "readings", perDay: 5)]
/// try settings.validate()
/// ```
public struct ServerSettings: Hashable, Sendable {
    /// The addresses and ports of the server, and its permitted clients.
    public struct HTTP: Hashable, Sendable {
        /// The address of the public port.
        ///
        /// Default: loopback only.
        public var host = "127.0.0.1"
        /// The public port; 0 chooses a free one.
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
        /// Names and addresses, in addition to loopback and ``adminHost``, that requests to the
        /// admin port may use.
        ///
        /// Default: none.
        public var adminHosts: [String] = []
        /// Addresses and ranges such as `10.0.0.0/8` of proxies whose `Forwarded` (RFC 7239) or
        /// `X-Forwarded-For` contains the client, for the limits of addresses.
        ///
        /// Default: none; the peer is the client.
        public var trustedProxies: [String] = []
        /// The PEM file with the certificate chain of the public port, which is reloaded on SIGHUP.
        ///
        /// With ``tlsKey``, the port uses TLS, and HTTP/2 if the client supports it. Default:
        /// `nil`, without TLS.
        public var tlsCertificate: String?
        /// The PEM file with the certificate's private key, which only its owner may read.
        ///
        /// Default: `nil`.
        public var tlsKey: String?

        /// The port for metrics and administration: ``adminPort``, or else the public port + 1, or
        /// 0 if the public port is 0.
        public var effectiveAdminPort: Int {
            adminPort ?? (port == 0 ? 0 : port + 1)
        }

        /// Returns the certificate and key of the public port, or `nil` without TLS.
        func tlsIdentity() throws(TLSFileError) -> TLSIdentity? {
            guard let tlsCertificate, let tlsKey else { return nil }
            return try TLSIdentity(certificate: tlsCertificate, key: tlsKey)
        }
    }

    /// The limits of requests, connections, memory and time.
    public struct Limits: Hashable, Sendable {
        /// The maximum size of a request's body in bytes.
        ///
        /// Default: 1 MiB.
        public var bodyBytes = WireLimits.bodyBytes
        /// The maximum number of requests of an account in a minute.
        ///
        /// Default: 60,000.
        public var requestsPerMinute = 60_000
        /// The maximum number of requests of an address in a minute, without a known account.
        ///
        /// Default: 60,000.
        public var addressRequestsPerMinute = 60_000
        /// The processor time in ten seconds for an address's requests without a valid token;
        /// further requests are refused with 429.
        ///
        /// Default: 3 s.
        public var addressProcessorTime: Duration = .seconds(3)
        /// The number of guests that an address may create in an hour; 0 for any.
        ///
        /// An IPv6 address counts with its /64. Known devices are not counted. Default: 1,000.
        public var guestsPerHour = 1_000
        /// The codes by e-mail that can be requested from an address in an hour; more get 429.
        ///
        /// Each e-mail address and each account has its own limit of 5. Default: 30.
        public var codesPerHour = 30
        /// The number of connections, including live ones; further ones wait to be accepted.
        ///
        /// One address gets half of them; further ones from it are closed. If the process may open
        /// too few files, the number is lower. Default: 20,000.
        public var connections = 20_000
        /// The time limit for a request's body to arrive.
        ///
        /// Default: 30 s.
        public var requestTimeout: Duration = .seconds(30)
        /// The time after which a connection without a request is closed.
        ///
        /// Default: 60 s.
        public var idleTimeout: Duration = .seconds(60)
        /// The time after which a connection is closed if its peer reads nothing of a response or a
        /// live connection's events.
        ///
        /// Default: 30 s.
        public var writeTimeout: Duration = .seconds(30)
        /// The size in bytes of all responses that wait to be read; beyond this, requests are
        /// refused with 503.
        ///
        /// Default: 64 MiB.
        public var answerBytes = 64 << 20
        /// The size in bytes of all bodies whose requests have no response yet; further ones are
        /// refused with 503.
        ///
        /// Default: 64 MiB.
        public var receivedBytes = 64 << 20
        /// The maximum size of an uploaded file in bytes; a larger one is refused with 413.
        ///
        /// Default: 25 MiB.
        public var blobBytes = WireLimits.blobBytes
        /// The maximum size of an account's records and files in bytes; changes that would exceed
        /// it are refused with `storage_full`.
        ///
        /// Default: 64 MiB.
        public var accountBytes = 64 << 20
        /// The number of days after which a file is removed that no record of its owner names; 0
        /// for never.
        ///
        /// Only members that a collection declares as `RecordCollection.blobs` name files. An app
        /// that stores ids of files elsewhere must leave this at 0. Default: 0.
        public var unnamedFileDays = 0
        /// The hours for which a resumable upload is kept after its last byte.
        ///
        /// Default: 24.
        public var uploadHours = 24
        /// The number of concurrent runs of functions; further calls wait for their turn.
        ///
        /// One account gets a quarter of them. Default: 1,000.
        public var functionCalls = 1_000
        /// The number of function calls that wait for their turn or share a run; further ones are
        /// refused with 503.
        ///
        /// One account gets a quarter, and one address half, of these and the running calls.
        /// Default: 4,000.
        public var queuedCalls = 4_000
        /// The time that a call waits for its turn before it is withdrawn and refused with 503.
        ///
        /// Default: 60 s.
        public var queueTime: Duration = .seconds(60)
        /// Bytes of memory for cached answers of functions; the storage caches more.
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
        /// The time without an event after which a comment is sent to a live connection.
        ///
        /// Default: 20 s.
        public var livePing: Duration = .seconds(20)
        /// The free bytes on the data's disk below which a warning is logged; 0 to never warn.
        ///
        /// Default: 1 GiB.
        public var freeBytes = 1 << 30
        /// The time that current requests have to finish when the server shuts down.
        ///
        /// Default: 30 s.
        public var shutdownGrace: Duration = .seconds(30)
    }

    /// The defaults of a new account.
    public struct Accounts: Hashable, Sendable {
        /// The unit of balances.
        ///
        /// Default: `tokens`.
        public var unit = "tokens"
        /// The initial balance of an account.
        ///
        /// Default: 100.
        public var grant = 100
        /// The IANA time zone of accounts that specify none.
        ///
        /// Default: UTC.
        public var defaultTimeZone = "UTC"
        /// The BCP 47 language of accounts that specify none.
        ///
        /// Default: `en`.
        public var defaultLanguage = "en"
        /// The number of logins of an account: its e-mail address, and its identities at
        /// providers.
        ///
        /// Default: 20.
        public var logins = 20
        /// Whether the registration and the merge of a guest need a proof that its own device asks:
        /// `optional` or `required`.
        ///
        /// With `required`, a stolen access token of a guest cannot give the guest to another
        /// person. Apps with a version of Sanguine that does not send the proof are then refused,
        /// unless they signed in within ten minutes. Default: `optional`.
        public var guestProof = "optional"
    }

    /// The access of administrators.
    public struct Admin: Hashable, Sendable {
        /// Admin tokens in addition to that of the owner, each as a name and a role:
        /// `anna:support`.
        ///
        /// A name consists of lower-case letters, digits and hyphens. For the roles, see
        /// ``AdminRole``. Default: none.
        public var tokens: [String] = []
    }

    /// The amounts that accounts may spend.
    public struct Spending: Hashable, Sendable {
        /// The amount that an account may spend per day of its calendar; `nil` for any.
        ///
        /// Default: `nil`.
        public var perDay: Int?
    }

    /// The delivery of events for analytics; none without a file and a webhook.
    public struct Events: Hashable, Sendable {
        /// The file that receives the events as JSON Lines; `nil` for none.
        ///
        /// Default: `nil`.
        public var file: String?
        /// The maximum size of the file in bytes, after which a new one begins.
        ///
        /// Default: 64 MiB.
        public var fileBytes = 64 << 20
        /// The number of full files that are kept in addition to the current one.
        ///
        /// Default: 4.
        public var filesKept = 4
        /// The URL to which the events are posted; `nil` for none.
        ///
        /// Default: `nil`.
        public var webhook: String?
        /// The secret that signs the posts, `whsec_` and 24 to 64 bytes in Base64.
        ///
        /// Default: `nil`.
        public var webhookSecret: Secret?
        /// The maximum number of events that wait to be delivered; beyond it, the oldest are
        /// dropped.
        ///
        /// Default: 100,000.
        public var waiting = 100_000

        /// Whether events are delivered anywhere.
        var areDelivered: Bool { file != nil || webhook != nil }
    }

    /// The tokens that authenticate requests.
    public struct Tokens: Hashable, Sendable {
        /// The lifetime of an access token.
        ///
        /// Default: 15 min.
        public var accessLifetime: Duration = .seconds(15 * 60)
        /// The lifetime of a refresh token.
        ///
        /// Default: 60 days.
        public var refreshLifetime: Duration = .seconds(60 * 86_400)
        /// The time for which a rotated refresh token still returns its successor.
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
        /// The base URL of a server that implements OpenAI's API.
        ///
        /// Default: `nil`; functions that need it respond with 503 `upstream_missing`.
        public var url: String?
        /// The API key, sent as a bearer token.
        ///
        /// Default: none.
        public var key: Secret?
        /// The model's name.
        ///
        /// Default: `stand-in`.
        public var model = "stand-in"
        /// The time limit for connecting.
        ///
        /// Default: 5 s.
        public var connectTimeout: Duration = .seconds(5)
        /// The time limit of an answer that is not streamed, and of a pause in a streamed one.
        ///
        /// Default: 60 s.
        public var timeout: Duration = .seconds(60)
        /// The time limit of a complete streamed answer.
        ///
        /// Default: 30 min.
        public var streamTimeout: Duration = .seconds(1_800)
        /// The maximum size of an answer in bytes.
        ///
        /// Default: 1 MiB.
        public var answerBytes = UpstreamConfiguration.defaultAnswerBytes
        /// The form of videos for the model, from ``UpstreamConfiguration/Video``: `file` or
        /// `frames`.
        ///
        /// Default: `file`.
        public var video = UpstreamConfiguration.Video.file.rawValue
        /// The name of the member that limits the length of answers, from
        /// ``UpstreamConfiguration/OutputLimit``.
        ///
        /// Default: `auto`.
        public var outputLimit = UpstreamConfiguration.OutputLimit.auto.rawValue
        /// Whether it accepts `stream_options`, from ``UpstreamConfiguration/StreamOptions``.
        ///
        /// Default: `auto`.
        public var streamOptions = UpstreamConfiguration.StreamOptions.auto.rawValue
        /// The names of ``ServerSettings/upstreams`` to ask, in this order, while this one fails.
        ///
        /// Functions with their own upstreams do not ask them. Default: none.
        public var fallbacks: [String] = []

        /// The name of this upstream.
        public static let name = "default"

        /// Returns the configuration of the client, or `nil` if no URL is set.
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

    /// The endpoints for programs that use OpenAI's API.
    public struct OpenAI: Hashable, Sendable {
        /// The `upstream` function whose price and limits apply; empty to disable the endpoints.
        ///
        /// Default: `ask`.
        public var function = "ask"
    }

    /// The extraction of frames from videos, for upstreams that accept only images.
    public struct Video: Hashable, Sendable {
        /// FFmpeg: a path, or a name to search for in `PATH`; `ffprobe` must be in the same folder.
        ///
        /// Default: `ffmpeg`.
        public var ffmpeg = "ffmpeg"
        /// The number of frames per video.
        ///
        /// Default: 8.
        public var frames = 8
    }

    /// The contents of the log.
    public struct Log: Hashable, Sendable {
        /// The lowest level that is logged.
        ///
        /// Default: `info`.
        public var level = "info"
        /// Whether every request is logged.
        ///
        /// Default: true.
        public var access = true
    }

    /// The e-mails of the server.
    public var mail = Mail()
    /// The cost of hashing passwords, which benchmarks lower to measure what else a request costs.
    package var passwordCost = PasswordCost()
    /// The addresses and ports of the server, and its permitted clients.
    public var http = HTTP()
    /// The limits of requests, connections, memory and time.
    public var limits = Limits()
    /// The access of administrators.
    public var admin = Admin()
    /// The defaults of a new account.
    public var accounts = Accounts()
    /// The amounts that accounts may spend.
    public var spending = Spending()
    /// The delivery of events for analytics.
    public var events = Events()
    /// The tokens that authenticate requests.
    public var tokens = Tokens()
    /// The time for which responses to operations are replayed.
    ///
    /// Default: 48 h.
    public var idempotencyKeep: Duration = .seconds(48 * 3_600)
    /// The duration of a hold that specifies none.
    ///
    /// Default: 10 min.
    public var holdsDuration: Duration = .seconds(10 * 60)
    /// The app whose App Store purchases the server accepts.
    public var appStore = AppStoreSetting()
    /// The attestation of devices.
    public var attestation = AttestationSetting()
    /// The key for Apple's DeviceCheck.
    public var deviceCheck = DeviceCheckSetting()
    /// The place of the bytes of files.
    public var blobs = BlobSetting()
    /// The language model that functions call.
    public var upstream = Upstream()
    /// The extraction of frames from videos.
    public var video = Video()
    /// The endpoints for programs that use OpenAI's API.
    public var openAI = OpenAI()
    /// The contents of the log.
    public var log = Log()
    /// The quotas of an account.
    ///
    /// Default: three readings per day.
    public var quotas = [QuotaSetting(name: "readings", perDay: 3)]
    /// The collections of records; others do not exist.
    ///
    /// The first record of a collection fixes its access. Default: those of
    /// `RecordSchema.standard`.
    public var collections = RecordSchema.standard.declaredCollections
    /// The functions that can be called.
    ///
    /// Default: ``FunctionSetting/echo``, ``FunctionSetting/ask`` and ``FunctionSetting/daily``.
    public var functions = [FunctionSetting.echo, .ask, .daily]
    /// Language models in addition to ``upstream``.
    ///
    /// Default: none.
    public var upstreams: [UpstreamSetting] = []
    /// The OpenID providers whose identity tokens are accepted.
    ///
    /// Default: none.
    public var identity: [IdentitySetting] = []

    /// Creates the default settings.
    public init() {}
}

/// The number of times that an account may do something in a period.
public struct QuotaSetting: Hashable, Sendable {
    /// The name in the path.
    public var name: String
    /// The number from the beginning of a period to the next, in the account's time zone.
    public var perPeriod: Int
    /// The period.
    ///
    /// Default: a day.
    public var period = QuotaRule.Period.day
    /// Whether the plan `premium` has no limit.
    ///
    /// Default: true.
    public var isLifted = true
    /// The number for the plan `premium`, if it has a limit of its own.
    ///
    /// Default: `nil`.
    public var premium: Int?

    /// Creates a quota per day without a limit for `premium`.
    public init(name: String, perDay: Int) {
        self.name = name
        perPeriod = perDay
    }

    /// Creates a quota.
    ///
    /// - Parameters:
    ///   - name: The name in the path.
    ///   - limit: The number in a period.
    ///   - period: The period.
    ///   - isLifted: Whether the plan `premium` has no limit. Default: true.
    ///   - premium: The number for the plan `premium`, if it has a limit of its own. Default: none.
    public init(
        name: String,
        limit: Int,
        period: QuotaRule.Period,
        isLifted: Bool = true,
        premium: Int? = nil
    ) {
        self.name = name
        perPeriod = limit
        self.period = period
        self.isLifted = isLifted
        self.premium = premium
    }
}
