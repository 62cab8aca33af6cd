import SanguineModel
import SwiftASN1
import X509

/// The app whose App Store purchases an authority accepts.
///
/// ```swift
/// var settings = AuthoritySettings()
/// settings.appStore = AppStoreSettings(
///     bundleID: "com.example.app",
///     appAppleID: 1_234_567_890,
///     roots: [try AppStoreRoot(bytes)],
///     products: ["com.example.tokens100": .tokens(100)]
/// )
/// ```
public struct AppStoreSettings: Hashable, Sendable {
    /// An environment of the App Store, by its name in signed data.
    public enum Environment: String, Hashable, Sendable, CaseIterable {
        /// Purchases with real money.
        case production = "Production"
        /// Purchases of testers, TestFlight and App Review.
        case sandbox = "Sandbox"
    }

    /// The bundle identifier of the app.
    public var bundleID: String
    /// The only accepted environment.
    ///
    /// Default: production.
    public var environment: Environment
    /// The app's numeric identifier in the App Store, which notifications and app transactions of
    /// the production environment must name, as Apple's own library demands.
    ///
    /// Default: `nil`, for the sandbox, whose data does not name it. In production, notifications
    /// and app transactions are then refused.
    public var appAppleID: Int64?
    /// The trusted root certificates: Apple Root CA - G3, except in tests.
    public var roots: [AppStoreRoot]
    /// The products by their identifiers; others are refused.
    public var products: [String: StoreProduct]
    /// Whether purchases that a family member shares count for this account too.
    ///
    /// Default: false; they are refused.
    public var countsFamilySharing: Bool

    /// Creates the settings.
    public init(
        bundleID: String,
        environment: Environment = .production,
        appAppleID: Int64? = nil,
        roots: [AppStoreRoot],
        products: [String: StoreProduct] = [:],
        countsFamilySharing: Bool = false
    ) {
        self.bundleID = bundleID
        self.environment = environment
        self.appAppleID = appAppleID
        self.roots = roots
        self.products = products
        self.countsFamilySharing = countsFamilySharing
    }
}

/// A trusted root certificate of the App Store's signatures.
public struct AppStoreRoot: Hashable, Sendable {
    let certificate: Certificate

    /// Reads a certificate in DER or PEM.
    ///
    /// - Throws: ``AppStoreRootError`` if the bytes are no X.509 certificate.
    public init(_ bytes: [UInt8]) throws(AppStoreRootError) {
        do {
            let isPEM = bytes.starts(with: "-----BEGIN".utf8)
            certificate =
                isPEM
                ? try Certificate(pemEncoded: String(decoding: bytes, as: UTF8.self))
                : try Certificate(derEncoded: bytes)
        } catch {
            throw AppStoreRootError()
        }
    }

    init(_ certificate: Certificate) { self.certificate = certificate }
}

/// The error for a file that contains no root certificate.
public struct AppStoreRootError: Error, Hashable, CustomStringConvertible {
    /// What happened, and how to fix it.
    public var description: String {
        "The file contains no X.509 certificate. Download Apple Root CA - G3 in DER or PEM."
    }
}

/// The effect of buying a product.
public enum StoreProduct: Hashable, Sendable {
    /// The largest number of tokens of one product.
    public static let tokensLimit: Int64 = 1_000_000_000

    /// Each unit of each transaction credits this number of tokens.
    case tokens(Int64)
    /// The account has the plan `premium`: until the transaction expires, or for a product that
    /// does not expire, for this number of days of each unit, or forever for `nil`.
    ///
    /// Days of several transactions add up: those of a later one begin when the earlier ones end.
    case premium(days: Int?)

    /// A description of the texts that ``init(text:)`` accepts.
    public static let allowed = "'tokens 100', 'plan premium', or 'plan premium 30d'"

    /// Reads the text of the settings; `nil` if it is not valid.
    public init?(text: String) {
        let words = text.split(separator: " ").map(String.init)
        switch (words.first, words.count) {
        case ("tokens", 2):
            guard let tokens = Int64(words[1]), (1...Self.tokensLimit).contains(tokens) else {
                return nil
            }
            self = .tokens(tokens)
        case ("plan", 2) where words[1] == Account.Plan.premium.rawValue:
            self = .premium(days: nil)
        case ("plan", 3) where words[1] == Account.Plan.premium.rawValue && words[2].last == "d":
            guard let days = Int(words[2].dropLast()), (1...36_600).contains(days) else {
                return nil
            }
            self = .premium(days: days)
        default:
            return nil
        }
    }

    /// The text that ``init(text:)`` reads.
    public var text: String {
        switch self {
        case .tokens(let tokens): "tokens \(tokens)"
        case .premium(nil): "plan premium"
        case .premium(let days?): "plan premium \(days)d"
        }
    }
}
