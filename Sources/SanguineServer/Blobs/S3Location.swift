import Foundation

/// The place of the files in an S3 storage: an endpoint, a bucket and a prefix of the keys.
struct S3Location: Hashable, Sendable {
    /// The place of the bucket's name in URLs.
    enum Addressing: String, CaseIterable, Sendable {
        /// In the path: `https://s3.example.com/photos/key`.
        case path
        /// In the host: `https://photos.s3.example.com/key`.
        case host
    }

    /// The address of an object, or of the bucket.
    struct Address: Hashable, Sendable {
        /// The scheme and the host: `https://s3.example.com`.
        var origin: String
        /// The value of the header `Host`.
        var host: String
        /// The path, escaped.
        var path: String
    }

    /// The bucket.
    let bucket: String
    /// The beginning of all keys; empty, or with a slash at the end.
    let prefix: String
    private let scheme: String
    private let host: String
    private let base: String
    private let addressing: Addressing

    /// Creates a location; returns `nil` unless the endpoint is an http or https URL with a host
    /// and without user name, query and fragment.
    ///
    /// - Parameters:
    ///   - endpoint: The URL of the storage; it may have a path.
    ///   - bucket: The name of the bucket.
    ///   - prefix: The beginning of all keys; a slash is added to it unless it is empty.
    ///   - addressing: The place of the bucket's name.
    init?(endpoint: String, bucket: String, prefix: String, addressing: Addressing) {
        guard let parts = URLComponents(string: endpoint), let scheme = parts.scheme?.lowercased(),
            scheme == "http" || scheme == "https",
            var host = parts.encodedHost, !host.isEmpty,
            parts.user == nil, parts.password == nil, parts.query == nil, parts.fragment == nil
        else { return nil }
        if addressing == .host { host = "\(bucket).\(host)" }
        // A port that the scheme implies is not part of the header, and so of the signature.
        if let port = parts.port, port != (scheme == "http" ? 80 : 443) { host += ":\(port)" }
        var base = parts.percentEncodedPath
        while base.hasSuffix("/") { base.removeLast() }
        self.scheme = scheme
        self.host = host
        self.base = base
        self.bucket = bucket
        self.prefix = prefix.isEmpty || prefix.hasSuffix("/") ? prefix : prefix + "/"
        self.addressing = addressing
    }

    /// The endpoint of Amazon in a region.
    static func amazon(_ region: String) -> String { "https://s3.\(region).amazonaws.com" }

    /// The address of the bucket.
    var address: Address {
        let path = addressing == .path ? "\(base)/\(S3Signature.escaped(bucket))" : "\(base)/"
        return Address(origin: "\(scheme)://\(host)", host: host, path: path)
    }

    /// Returns the address of an object.
    func address(of key: String) -> Address {
        var address = address
        if !address.path.hasSuffix("/") { address.path += "/" }
        address.path += S3Signature.escaped(key, keepsSlashes: true)
        return address
    }
}

extension S3Location: CustomStringConvertible {
    /// The URL of the bucket, for messages.
    var description: String { address.origin + address.path }
}

extension S3Location {
    /// Returns whether a bucket may have the name: one that a path and a host need not escape.
    static func isBucket(_ name: String) -> Bool {
        (3...63).contains(name.utf8.count) && !name.contains("..")
            && name.first?.isLetterOrDigit == true && name.last?.isLetterOrDigit == true
            && name.allSatisfy { $0.isLetterOrDigit || "-._".contains($0) }
    }

    /// Returns whether keys may begin with the text.
    static func isPrefix(_ text: String) -> Bool {
        let parts = text.split(separator: "/", omittingEmptySubsequences: false)
        return text.utf8.count <= 512 && !text.hasPrefix("/")
            && text.unicodeScalars.allSatisfy { $0.value >= 0x20 && $0.value != 0x7F }
            // Programs between here and the storage remove these from a path.
            && !parts.contains(".") && !parts.contains("..")
    }
}

extension Character {
    fileprivate var isLetterOrDigit: Bool { isASCII && (isLetter || isNumber) }
}
