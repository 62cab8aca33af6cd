import Crypto
import Foundation

/// Signs requests as Standard Webhooks 1.0 with a shared secret.
///
/// The signature covers the id, the time of the attempt and the body's bytes, so a receiver can
/// refuse replays and recognize repeated deliveries.
struct WebhookSignature: Sendable {
    private static let prefix = "whsec_"
    private static let secretBytes = 24...64

    private let key: SymmetricKey

    /// Creates a signer from `whsec_` and Base64; `nil` if the secret is malformed.
    init?(secret: String) {
        guard secret.hasPrefix(Self.prefix),
            let bytes = Data(base64Encoded: String(secret.dropFirst(Self.prefix.count))),
            Self.secretBytes.contains(bytes.count)
        else { return nil }
        key = SymmetricKey(data: bytes)
    }

    /// Returns the value of `webhook-signature`.
    ///
    /// - Parameters:
    ///   - id: The value of `webhook-id`, the same for every attempt.
    ///   - seconds: The value of `webhook-timestamp`, the time of this attempt.
    ///   - body: The bytes of the body.
    /// - Returns: The version and the signature in Base64.
    func text(id: String, seconds: Int64, body: [UInt8]) -> String {
        let content = Array("\(id).\(seconds).".utf8) + body
        let code = HMAC<SHA256>.authenticationCode(for: content, using: key)
        return "v1," + Data(code).base64EncodedString()
    }
}
