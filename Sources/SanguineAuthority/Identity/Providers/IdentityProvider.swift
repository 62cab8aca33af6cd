import Foundation

/// An OpenID provider whose identity tokens are accepted.
public struct IdentityProvider: Hashable, Sendable {
    /// The form in which a token contains the nonce.
    public enum NonceForm: String, CaseIterable, Hashable, Sendable {
        /// As it was created, or as its SHA-256.
        case any
        /// As its SHA-256 only, so that a stolen token is useless without the nonce itself.
        case hashed
    }

    /// The name in requests, such as `apple`.
    public var name: String
    /// The permitted values of `iss`; the first one is used for discovery.
    public var issuers: [String]
    /// The permitted values of `aud`: the app's bundle id or its client ids.
    public var audiences: [String]
    /// The URL of the provider's keys (RFC 7517); `nil` to discover it from the issuer.
    public var keys: String?
    /// The form in which a token contains the nonce.
    public var nonce: NonceForm

    /// Creates a provider.
    public init(
        name: String,
        issuers: [String],
        audiences: [String],
        keys: String? = nil,
        nonce: NonceForm = .any
    ) {
        self.name = name
        self.issuers = issuers
        self.audiences = audiences
        self.keys = keys
        self.nonce = nonce
    }

    /// Sign in with Apple.
    public static func apple(audiences: [String]) -> IdentityProvider {
        IdentityProvider(
            name: "apple",
            issuers: ["https://appleid.apple.com"],
            audiences: audiences,
            keys: "https://appleid.apple.com/auth/keys"
        )
    }

    /// Sign in with Google, which has used two forms of its issuer.
    public static func google(audiences: [String]) -> IdentityProvider {
        IdentityProvider(
            name: "google",
            issuers: ["https://accounts.google.com", "accounts.google.com"],
            audiences: audiences,
            keys: "https://www.googleapis.com/oauth2/v3/certs"
        )
    }

    /// Returns the provider that has defaults for everything except its audiences.
    public static func known(_ name: String, audiences: [String]) -> IdentityProvider? {
        switch name {
        case "apple": apple(audiences: audiences)
        case "google": google(audiences: audiences)
        default: nil
        }
    }

    /// The URL of the discovery document (OpenID Connect Discovery 1.0, section 4).
    var discovery: String {
        var issuer = issuers.first ?? ""
        while issuer.hasSuffix("/") { issuer.removeLast() }
        return issuer + "/.well-known/openid-configuration"
    }

    /// Returns whether keys may be fetched from the URL: with TLS, or from this machine.
    public static func isKeyURL(_ text: String) -> Bool {
        guard text.utf8.count <= 2_048, let parts = URLComponents(string: text),
            let host = parts.host?.lowercased(), !host.isEmpty,
            parts.user == nil, parts.password == nil, parts.fragment == nil
        else { return false }
        switch parts.scheme?.lowercased() {
        case "https": return true
        case "http": return ["127.0.0.1", "localhost", "::1", "[::1]"].contains(host)
        default: return false
        }
    }
}

/// Fetches the keys of identity providers.
public protocol KeyServer: Sendable {
    /// Returns the response to a `GET`, without following redirects.
    ///
    /// The caller cancels the task if the response takes too long.
    ///
    /// - Parameters:
    ///   - url: The URL.
    ///   - bytes: The maximum size of the body; a larger one is an error.
    /// - Returns: The response.
    /// - Throws: Any error if there is no complete response.
    func get(_ url: String, upTo bytes: Int) async throws -> KeyServerResponse

    /// Records that the keys of a provider could not be fetched.
    ///
    /// - Parameters:
    ///   - reason: The error.
    ///   - provider: The name of the provider.
    func report(_ reason: String, of provider: String)
}

extension KeyServer {
    /// Ignores the error.
    public func report(_ reason: String, of provider: String) {}
}

/// A key server for an authority that has none.
struct NoKeyServer: KeyServer {
    func get(_ url: String, upTo bytes: Int) async throws -> KeyServerResponse {
        throw KeyFetchError.noServer
    }
}

/// The response of a ``KeyServer``.
public struct KeyServerResponse: Hashable, Sendable {
    /// The HTTP status.
    public var status: Int
    /// The values of `Cache-Control`, joined by commas; `nil` for none.
    public var cacheControl: String?
    /// The value of `Age` in seconds; `nil` for none.
    public var age: Int64?
    /// The body.
    public var body: [UInt8]

    /// Creates a response.
    public init(status: Int, cacheControl: String? = nil, age: Int64? = nil, body: [UInt8]) {
        self.status = status
        self.cacheControl = cacheControl
        self.age = age
        self.body = body
    }

    /// The time for which the response may be cached (RFC 9111, section 5.2.2); `nil` if it does
    /// not say.
    var freshness: Duration? {
        guard let cacheControl else { return nil }
        let directives = cacheControl.lowercased().split(separator: ",").map { part in
            part.filter { !$0.isWhitespace && $0 != "\"" }
        }
        if directives.contains("no-store") || directives.contains("no-cache") { return .zero }
        for directive in directives where directive.hasPrefix("max-age=") {
            guard let seconds = Int64(directive.dropFirst(8)), seconds >= 0 else { return .zero }
            let rest = min(seconds, 10 * 366 * 86_400) - max(0, age ?? 0)
            return .seconds(max(0, rest))
        }
        return nil
    }
}
