public import AsyncHTTPClient
import Foundation
import NIOCore
import NIOHTTPCompression
import SanguineModel

/// Which language model is called, and how long it may take.
public struct UpstreamConfiguration: Sendable {
    /// The longest answer that is read, by default: 1 MiB.
    public static let defaultAnswerBytes = 1 << 20

    /// Where completions are asked for: the configured URL with `/chat/completions`.
    ///
    /// A URL without a path gets `/v1` first, so that `http://localhost:8081` and
    /// `https://api.example.com/v1` both work.
    public let endpoint: String
    /// Where embeddings are asked for: the configured URL with `/embeddings`.
    public let embeddings: String
    /// The key sent as `Authorization: Bearer`; `nil` for servers that need none.
    public let apiKey: Secret?
    /// The model's name, sent with every request.
    public let model: String
    /// The longest time that connecting may take.
    ///
    /// Default: 5 s.
    public let connectTimeout: Duration
    /// The longest time from the call to the end of the answer.
    ///
    /// Default: 60 s.
    public let timeout: Duration
    /// The longest answer, in bytes.
    ///
    /// Default: 1 MiB.
    public let answerBytes: Int
    /// How the model is shown a video.
    ///
    /// Default: as the file that it is.
    public let video: Video
    /// The name of the member that limits the length of answers.
    ///
    /// Default: ``OutputLimit/auto``.
    public let outputLimit: OutputLimit
    /// Whether it takes `stream_options`.
    ///
    /// Default: ``StreamOptions/auto``.
    public let streamOptions: StreamOptions

    /// How a model is shown a video.
    public enum Video: String, CaseIterable, Hashable, Sendable {
        /// As a file, for models that take videos.
        case file
        /// As pictures of it, for models that take pictures alone.
        case frames
    }

    /// Creates a configuration.
    ///
    /// - Throws: ``UpstreamConfigurationError`` unless the URL is `http` or `https`, with a host
    ///   and without user name and password, and the key can be sent in a header.
    public init(
        url: String,
        apiKey: Secret? = nil,
        model: String,
        connectTimeout: Duration = .seconds(5),
        timeout: Duration = .seconds(60),
        answerBytes: Int = UpstreamConfiguration.defaultAnswerBytes,
        video: Video = .file,
        outputLimit: OutputLimit = .auto,
        streamOptions: StreamOptions = .auto
    ) throws(UpstreamConfigurationError) {
        guard let endpoint = Self.endpoint(of: url),
            let embeddings = Self.endpoint("/embeddings", of: url)
        else { throw .invalidURL }
        let key = apiKey?.reveal() ?? ""
        guard key.utf8.allSatisfy({ (0x21...0x7E).contains($0) }) else { throw .invalidKey }
        self.endpoint = endpoint
        self.embeddings = embeddings
        self.apiKey = key.isEmpty ? nil : apiKey
        self.model = model
        self.connectTimeout = connectTimeout
        self.timeout = timeout
        self.answerBytes = answerBytes
        self.video = video
        self.outputLimit = outputLimit
        self.streamOptions = streamOptions
    }

    /// The host, in lower case.
    var host: String? { URLComponents(string: endpoint)?.host?.lowercased() }

    /// Where a configured URL asks for completions, or another path, or `nil` if it is no URL to
    /// use.
    static func endpoint(_ name: String = "/chat/completions", of url: String) -> String? {
        guard var parts = URLComponents(string: url), let scheme = parts.scheme?.lowercased(),
            scheme == "http" || scheme == "https",
            parts.host?.isEmpty == false, parts.user == nil, parts.password == nil
        else { return nil }
        var path = parts.percentEncodedPath
        while path.hasSuffix("/") { path.removeLast() }
        parts.percentEncodedPath = (path.isEmpty ? "/v1" : path) + name
        parts.fragment = nil
        return parts.string
    }

    /// Returns how the `HTTPClient` for this upstream must be set up.
    ///
    /// Connecting fails after ``connectTimeout`` and is not tried again: the caller hears at once,
    /// and decides. Redirects are not followed, because they would carry prompts to another host.
    ///
    /// - Parameter connections: How many calls may run at once. Default: 1,000.
    /// - Returns: A configuration to create the client with.
    public func httpClientConfiguration(
        connections: Int = 1_000
    ) -> HTTPClient.Configuration {
        var pool = HTTPClient.Configuration.ConnectionPool()
        pool.concurrentHTTP1ConnectionsPerHostSoftLimit = connections
        pool.retryConnectionEstablishment = false
        // Some servers compress unasked. No text of a model has so much of the same in it.
        return HTTPClient.Configuration(
            redirectConfiguration: .disallow,
            timeout: .init(connect: .nanoseconds(connectTimeout.wholeNanoseconds)),
            connectionPool: pool,
            decompression: .enabled(limit: .ratio(256))
        )
    }
}

/// Why an upstream cannot be configured so.
///
/// Neither case repeats what was given: it may be secret.
public enum UpstreamConfigurationError: Error, Hashable, CustomStringConvertible {
    /// The URL is none that can be called.
    case invalidURL
    /// The key holds something that no header may.
    case invalidKey

    /// What to do.
    public var description: String {
        switch self {
        case .invalidURL:
            """
            The upstream's URL is not usable. Give 'upstream.url' an http or https URL with a host \
            and without user name and password, such as https://api.example.com/v1.
            """
        case .invalidKey:
            """
            The upstream's key is not usable. Give 'upstream.key' visible ASCII characters only; a \
            line feed at the end of a file is the usual reason.
            """
        }
    }
}
