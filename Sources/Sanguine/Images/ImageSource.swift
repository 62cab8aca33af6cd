public import Foundation
import SanguineModel

/// The address of an image: a file of the Sanguine server, or a URL.
///
/// ```swift
/// let avatar = ImageSource.file(profile.avatar)  // an id from `upload`
/// let cover = ImageSource.url(article.cover)
/// ```
public struct ImageSource: Hashable, Sendable {
    enum Address: Hashable, Sendable {
        case file(String)
        case url(URL)
    }

    let address: Address

    /// Creates the address of a file that a user has uploaded.
    ///
    /// - Parameter id: Its id: that of the server, or that of a ``QueuedUpload``, whose image is
    ///   shown from the device.
    /// - Returns: The address. The image belongs to the current user, and is removed when they sign
    ///   out.
    public static func file(_ id: String) -> ImageSource {
        ImageSource(address: .file(id))
    }

    /// Creates the address of an image on any host.
    ///
    /// - Parameter url: The URL, with the scheme `https`. A URL of the configured `server` or
    ///   `baseURL` may also have the scheme `http`.
    /// - Returns: The address. All users of the device share the image, except in these cases, in
    ///   which it belongs to the current user: the request carries the user's credentials, because
    ///   the host is that of `server` or `baseURL`; or the URL is signed, see
    ///   ``SignedURLRules``.
    public static func url(_ url: URL) -> ImageSource { ImageSource(address: .url(url)) }
}

/// Rules that remove signatures from URLs, so that an image has the same key whenever its URL is
/// signed again.
///
/// A URL with a signature is private: other users of the device do not see the image, because they
/// may not be able to get such a URL.
public struct SignedURLRules: Hashable, Sendable {
    /// The names of query parameters that are part of a signature, in lower case; a name that ends
    /// with `*` matches every name with that beginning.
    public var parameters: Set<String>
    /// The names of query parameters that are part of a signature only if the URL has a parameter
    /// `sig`, in lower case.
    public var sharedAccessParameters: Set<String>

    /// The rules for S3, CloudFront, Google Cloud Storage and Azure.
    public static let standard = SignedURLRules(
        parameters: [
            "x-amz-*", "x-goog-*", "awsaccesskeyid", "googleaccessid", "signature", "expires",
            "key-pair-id", "policy",
        ],
        sharedAccessParameters: [
            "sig", "sv", "st", "se", "sr", "sp", "spr", "sip", "ske", "skt", "sks", "skv", "skoid",
            "sktid", "si",
        ]
    )

    /// Creates rules.
    ///
    /// - Parameters:
    ///   - parameters: Names of query parameters; see ``parameters``.
    ///   - sharedAccessParameters: Names that count only next to `sig`. Default: none.
    public init(parameters: Set<String>, sharedAccessParameters: Set<String> = []) {
        self.parameters = Set(parameters.map { $0.lowercased() })
        self.sharedAccessParameters = Set(sharedAccessParameters.map { $0.lowercased() })
    }

    /// Returns the text that identifies the resource of a URL, and whether the URL is signed.
    ///
    /// Scheme and host are in lower case, and the fragment is dropped. The order of the remaining
    /// parameters is kept.
    func identity(of url: URL) -> (text: String, isSigned: Bool) {
        guard var parts = URLComponents(url: url, resolvingAgainstBaseURL: true) else {
            return (url.absoluteString, false)
        }
        parts.scheme = parts.scheme?.lowercased()
        parts.percentEncodedHost = parts.percentEncodedHost?.lowercased()
        parts.fragment = nil
        guard let items = parts.percentEncodedQueryItems else {
            return (parts.string ?? url.absoluteString, false)
        }
        let hasSig = items.contains { $0.name.lowercased() == "sig" }
        let rest = items.filter { !isPart($0.name.lowercased(), hasSig: hasSig) }
        let isSigned = rest.count < items.count
        parts.percentEncodedQueryItems = rest.isEmpty ? nil : rest
        return (parts.string ?? url.absoluteString, isSigned)
    }

    private func isPart(_ name: String, hasSig: Bool) -> Bool {
        if parameters.contains(name) || hasSig && sharedAccessParameters.contains(name) {
            return true
        }
        return parameters.contains { rule in rule.hasSuffix("*") && name.hasPrefix(rule.dropLast())
        }
    }
}

/// The size at which an image is shown, in pixels: points times the scale of the display.
public struct ImageSize: Hashable, Sendable {
    /// The width in pixels.
    public var width: Int
    /// The height in pixels.
    public var height: Int

    /// Creates a size in pixels.
    public init(width: Int, height: Int) { (self.width, self.height) = (width, height) }

    /// The longest side at which the image is requested and decoded.
    ///
    /// The smallest of ``ImageLimits/sides`` that is at least as long as the longer side, or else
    /// the largest one.
    public var side: Int {
        let longest = max(width, height)
        return ImageLimits.sides.first { $0 >= longest } ?? ImageLimits.sides.last ?? longest
    }
}

/// The user whose images these are: a number that is used once, or 0 for images that all users
/// share.
typealias ImageScope = UInt64

/// The key of an image file: the resource and the size in which the server sends it.
struct ImageFileKey: Hashable, Sendable {
    let scope: ImageScope
    /// The id of a file, or a URL without its signature.
    let resource: String
    /// The longest side that is requested from the server; 0 for the original.
    let side: Int

    /// The key of the original.
    var original: ImageFileKey { ImageFileKey(scope: scope, resource: resource, side: 0) }

    /// The text by which the file is found on disk.
    var text: String { "\(side) \(resource)" }
}

/// The key of a decoded image.
struct ImageKey: Hashable, Sendable {
    let scope: ImageScope
    let resource: String
    /// The longest side at which it is decoded.
    let side: Int
}
