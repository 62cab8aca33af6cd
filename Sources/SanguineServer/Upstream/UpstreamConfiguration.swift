public import AsyncHTTPClient
import Foundation
import NIOCore
import NIOHTTPCompression
import SanguineModel

/// The language model of an upstream, and the limits of calls.
public struct UpstreamConfiguration: Sendable {
    /// The default of the maximum size of an answer: 1 MiB.
    public static let defaultAnswerBytes = 1 << 20

    /// The URL for completions: the configured URL with `/chat/completions`.
    ///
    /// `/v1` is inserted if the URL has no path, so that `http://localhost:8081` and
    /// `https://api.example.com/v1` both work.
    public let endpoint: String
    /// The URL for embeddings: the configured URL with `/embeddings`.
    public let embeddings: String
    /// The key for `Authorization: Bearer`; `nil` for servers that need none.
    public let apiKey: Secret?
    /// The model's name, sent with every request.
    public let model: String
    /// The time limit for connecting.
    ///
    /// Default: 5 s.
    public let connectTimeout: Duration
    /// The time limit from the call to the end of the answer.
    ///
    /// Default: 60 s.
    public let timeout: Duration
    /// The maximum size of an answer in bytes.
    ///
    /// Default: 1 MiB.
    public let answerBytes: Int
    /// The form of videos that are sent to the model.
    ///
    /// Default: as files.
    public let video: Video
    /// The name of the member that limits the length of answers.
    ///
    /// Default: ``OutputLimit/auto``.
    public let outputLimit: OutputLimit
    /// Whether it accepts `stream_options`.
    ///
    /// Default: ``StreamOptions/auto``.
    public let streamOptions: StreamOptions

    /// The form of videos that are sent to a model.
    public enum Video: String, CaseIterable, Hashable, Sendable {
        /// As a file, for models that accept videos.
        case file
        /// As frames, for models that accept only images.
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

    /// The host in lowercase.
    var host: String? { URLComponents(string: endpoint)?.host?.lowercased() }

    /// Returns the URL for completions, or for another path; `nil` if the URL is unsuitable.
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

    /// Returns the configuration of an `HTTPClient` for this upstream.
    ///
    /// Connecting fails after ``connectTimeout`` without a retry, so that the caller can decide at
    /// once. Redirects are not followed, because they would send prompts to another host.
    ///
    /// - Parameter connections: The maximum number of concurrent calls. Default: 1,000.
    /// - Returns: A configuration for the client.
    public func httpClientConfiguration(
        connections: Int = 1_000
    ) -> HTTPClient.Configuration {
        var configuration = HTTPClient.Configuration.outgoing(
            connectTimeout: connectTimeout,
            connections: connections
        )
        // Some servers compress unasked. A model's text is never compressible to this extent.
        configuration.decompression = .enabled(limit: .ratio(256))
        return configuration
    }
}

/// An error in the configuration of an upstream.
///
/// It does not contain the given values, because they may be secret.
public enum UpstreamConfigurationError: Error, Hashable, CustomStringConvertible {
    /// The URL is not an http or https URL with a host, or contains a user name.
    case invalidURL
    /// The key contains characters that a header must not contain.
    case invalidKey

    /// What happened, and how to fix it.
    public var description: String {
        switch self {
        case .invalidURL:
            """
            The upstream's URL is not valid. Set 'upstream.url' to an http or https URL with a \
            host and without user name and password, such as https://api.example.com/v1.
            """
        case .invalidKey:
            """
            The upstream's key is not valid. Set 'upstream.key' to visible ASCII characters only; \
            a line feed at the end of a file is the usual reason.
            """
        }
    }
}
