import Crypto
import SanguineModel

/// The keys of an account at an S3 storage.
struct S3Credentials: Hashable, Sendable {
    var accessKey: Secret
    var secretKey: Secret
    /// The token of temporary keys; `nil` for lasting ones.
    var sessionToken: Secret?
}

/// Signs requests with AWS Signature Version 4, in the header `Authorization`.
///
/// Source: "Signature Calculations for the Authorization Header" in the reference of Amazon S3.
/// Unlike for other services of AWS, a path is escaped once and its segments stay as they are: `//`
/// and `..` are parts of a key.
struct S3Signature {
    /// The parts of a request that are signed.
    struct Request {
        var method: String
        /// The path, escaped by ``S3Signature/escaped(_:keepsSlashes:)``.
        var path: String
        /// The names and values of the query, not escaped.
        var query: [(name: String, value: String)] = []
        /// All headers that are signed, with `host` among them.
        var headers: [(name: String, value: String)]
        /// The SHA-256 of the body, in hexadecimal digits.
        var contentHash: String
    }

    /// The SHA-256 of an empty body.
    static let emptyHash = hash("")

    let credentials: S3Credentials
    let region: String
    /// The time of the request, which may differ from the server's by 15 minutes.
    let moment: Timestamp
    var service = "s3"

    /// The time in the form of the header `x-amz-date`: `20130524T000000Z`.
    var date: String {
        let seconds = moment.description.prefix(19).filter { $0 != "-" && $0 != ":" }
        return "\(seconds)Z"
    }

    /// Returns the value of the header `Authorization`.
    func authorization(of request: Request) -> String {
        let key = credentials.accessKey.reveal()
        let names = Self.headers(of: request).map(\.name).joined(separator: ";")
        return "AWS4-HMAC-SHA256 Credential=\(key)/\(scope), SignedHeaders=\(names), "
            + "Signature=\(signature(of: request))"
    }

    /// Returns the signature, in hexadecimal digits.
    func signature(of request: Request) -> String {
        var key = SymmetricKey(data: Array("AWS4\(credentials.secretKey.reveal())".utf8))
        for part in [String(date.prefix(8)), region, service, "aws4_request"] {
            key = SymmetricKey(data: Self.code(part, key))
        }
        return Self.digits(Self.code(stringToSign(of: request), key))
    }

    /// Returns the text whose code is the signature.
    func stringToSign(of request: Request) -> String {
        let hash = Self.hash(Self.canonicalRequest(request))
        return "AWS4-HMAC-SHA256\n\(date)\n\(scope)\n\(hash)"
    }

    private var scope: String { "\(date.prefix(8))/\(region)/\(service)/aws4_request" }

    /// Returns the form of a request on which both sides agree.
    static func canonicalRequest(_ request: Request) -> String {
        let headers = headers(of: request)
        return [
            request.method,
            request.path,
            query(of: request.query),
            headers.map { "\($0.name):\($0.value)\n" }.joined(),
            headers.map(\.name).joined(separator: ";"),
            request.contentHash,
        ].joined(separator: "\n")
    }

    /// Returns the query in the order in which it is signed, escaped.
    static func query(of items: [(name: String, value: String)]) -> String {
        items.map { (escaped($0.name), escaped($0.value)) }
            .sorted { $0 < $1 }
            .map { "\($0)=\($1)" }
            .joined(separator: "&")
    }

    /// Escapes a text for a path or a query: only letters, digits, `-`, `.`, `_` and `~` stay.
    ///
    /// - Parameters:
    ///   - text: The text.
    ///   - keepsSlashes: Whether `/` stays, as in a path. Default: no.
    /// - Returns: The escaped text.
    static func escaped(_ text: String, keepsSlashes: Bool = false) -> String {
        var bytes: [UInt8] = []
        for byte in text.utf8 {
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."),
                UInt8(ascii: "_"), UInt8(ascii: "~"):
                bytes.append(byte)
            case UInt8(ascii: "/") where keepsSlashes: bytes.append(byte)
            default:
                let digits = Array("0123456789ABCDEF".utf8)
                bytes += [UInt8(ascii: "%"), digits[Int(byte >> 4)], digits[Int(byte & 15)]]
            }
        }
        return String(decoding: bytes, as: UTF8.self)
    }

    /// Returns the headers in lowercase and in order; the values of equal names are joined.
    private static func headers(of request: Request) -> [(name: String, value: String)] {
        var values: [String: [String]] = [:]
        for (name, value) in request.headers {
            let words = value.split(separator: " ", omittingEmptySubsequences: true)
            values[name.lowercased(), default: []].append(words.joined(separator: " "))
        }
        return values.sorted { $0.key < $1.key }
            .map { ($0.key, $0.value.joined(separator: ",")) }
    }

    private static func code(_ text: String, _ key: SymmetricKey) -> [UInt8] {
        Array(HMAC<SHA256>.authenticationCode(for: Array(text.utf8), using: key))
    }

    /// Returns the SHA-256 of a text, in hexadecimal digits.
    static func hash(_ text: String) -> String {
        digits(Array(SHA256.hash(data: Array(text.utf8))))
    }

    private static func digits(_ bytes: [UInt8]) -> String {
        let digits = Array("0123456789abcdef".utf8)
        let text = bytes.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }
        return String(decoding: text, as: UTF8.self)
    }
}
