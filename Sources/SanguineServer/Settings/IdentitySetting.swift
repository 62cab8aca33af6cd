import SanguineAuthority

/// An OpenID provider whose identity tokens the server accepts.
///
/// `apple` and `google` have defaults for everything except the audiences.
///
/// ```swift
/// settings.identity = [IdentitySetting(name: "apple", audiences: ["com.example.app"])]
/// ```
public struct IdentitySetting: Hashable, Sendable {
    /// The form in which a token contains the nonce.
    public enum NonceForm: String, CaseIterable, Hashable, Sendable {
        /// As it was created, or as its SHA-256.
        case any
        /// As its SHA-256 only, so that a stolen token is useless without the nonce itself.
        case hashed
    }

    /// The name in requests, such as `apple`.
    public var name: String
    /// The issuer (`iss`) of the provider's tokens.
    ///
    /// Default: that of `apple` and `google`; others must set it.
    public var issuer: String?
    /// The permitted audiences (`aud`): the app's bundle id, or its client ids.
    public var audiences: [String]
    /// The URL of the provider's keys, a JWK set.
    ///
    /// Default: the one of `<issuer>/.well-known/openid-configuration`.
    public var keys: String?
    /// The form in which a token contains the nonce.
    ///
    /// Default: ``NonceForm/any``.
    public var nonce: NonceForm

    /// Creates a provider.
    public init(
        name: String,
        issuer: String? = nil,
        audiences: [String],
        keys: String? = nil,
        nonce: NonceForm = .any
    ) {
        self.name = name
        self.issuer = issuer
        self.audiences = audiences
        self.keys = keys
        self.nonce = nonce
    }

    /// The provider, or `nil` for one without an issuer.
    var provider: IdentityProvider? {
        var provider = IdentityProvider.known(name, audiences: audiences)
        if let issuer {
            provider = IdentityProvider(name: name, issuers: [issuer], audiences: audiences)
        }
        if let keys { provider?.keys = keys }
        provider?.nonce = nonce == .hashed ? .hashed : .any
        return provider
    }
}

extension IdentitySetting {
    /// The members of a provider in the file: `identity.<name>.<member>`.
    public enum Field: String, CaseIterable, Sendable {
        /// The issuer of the tokens. Default: that of `apple` or `google`.
        case issuer
        /// The permitted audiences; required.
        case audiences
        /// The URL of the keys. Default: discovered from the issuer.
        case keys
        /// The form of the nonce: `any` or `hashed`. Default: `any`.
        case nonce

        /// Whether the value is a list.
        public var isList: Bool { self == .audiences }

        /// A description of the permitted values.
        public var allowed: String {
            switch self {
            case .issuer:
                "an https URL, or http for this machine; required except for apple and google"
            case .audiences: "1 to 100 bundle ids or client ids, without spaces"
            case .keys: "an https URL, or http for this machine"
            case .nonce:
                NonceForm.allCases.map(\.rawValue).joined(separator: ", ")
            }
        }
    }

    /// Reads a provider from the file.
    ///
    /// - Parameters:
    ///   - name: Its name.
    ///   - members: Its members.
    ///   - source: The source for error messages.
    /// - Throws: `SettingsError` if a member has an invalid value.
    public init(
        name: String,
        members: [Field: String],
        source: String
    ) throws(SettingsError) {
        let form = members[.nonce].map { NonceForm(rawValue: $0) }
        self.init(
            name: name,
            issuer: members[.issuer],
            audiences: Setting.items(of: members[.audiences] ?? ""),
            keys: members[.keys],
            nonce: (form ?? .any) ?? .any
        )
        var faults = self.faults
        if form == .some(nil) { faults.append((.nonce, members[.nonce] ?? "")) }
        guard faults.isEmpty else {
            throw SettingsError(faults.map { Self.problem(name, $0.field, $0.value, source) })
        }
    }

    /// The members in the form of the file.
    public var texts: [(field: Field, text: String)] {
        [
            (.issuer, issuer ?? provider?.issuers.first ?? ""),
            (.audiences, audiences.joined(separator: ",")),
            (.keys, keys ?? provider?.keys ?? ""), (.nonce, nonce.rawValue),
        ]
    }

    /// The problems of the members.
    var problems: [SettingsError.Problem] {
        faults.map { Self.problem(name, $0.field, $0.value, "settings") }
    }

    private var faults: [(field: Field, value: String)] {
        var faults: [(Field, String)] = []
        let isIssuer = issuer.map(IdentityProvider.isKeyURL) ?? (provider != nil)
        if !isIssuer { faults.append((.issuer, issuer ?? "")) }
        let areAudiences = audiences.allSatisfy { audience in
            (1...255).contains(audience.utf8.count)
                && audience.utf8.allSatisfy { (0x21...0x7E).contains($0) }
        }
        if !areAudiences || !(1...100).contains(audiences.count) {
            faults.append((.audiences, audiences.joined(separator: ",")))
        }
        if let keys, !IdentityProvider.isKeyURL(keys) { faults.append((.keys, keys)) }
        return faults
    }

    private static func problem(
        _ name: String,
        _ field: Field,
        _ value: String,
        _ source: String
    ) -> SettingsError.Problem {
        .invalid(
            setting: "identity.\(name).\(field.rawValue)",
            value: value,
            allowed: field.allowed,
            source: source
        )
    }
}
