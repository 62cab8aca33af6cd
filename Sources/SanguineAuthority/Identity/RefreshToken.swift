import Crypto
import SanguineModel

/// A refresh token: the session's id, the token's generation, and a MAC over both.
///
/// A token can be computed from its session and generation, so a lost response can be repeated, and
/// the server stores no token, not even a hash: only the newest generation.
struct RefreshToken: Hashable {
    let session: Identifier
    let generation: Int64

    /// The token's text: the base64url encoding of 16 + 8 + 32 bytes.
    func text(key: SymmetricKey) -> String {
        Base64URL.encode(content + HMAC<SHA256>.authenticationCode(for: content, using: key))
    }

    init(session: Identifier, generation: Int64) {
        self.session = session
        self.generation = generation
    }

    /// Parses a token; returns `nil` unless this server made it.
    ///
    /// Compares in constant time.
    init?(_ text: String, key: SymmetricKey) {
        guard text.utf8.count == 75, let bytes = Base64URL.decode(text), bytes.count == 56,
            let session = Identifier(bytes: bytes[..<16])
        else { return nil }
        self.session = session
        generation = bytes[16..<24].reduce(0) { $0 << 8 | Int64($1) }
        let isValid = HMAC<SHA256>.isValidAuthenticationCode(
            bytes[24...],
            authenticating: content,
            using: key
        )
        guard isValid else { return nil }
    }

    private var content: [UInt8] {
        session.bytes + (0..<8).map { UInt8(truncatingIfNeeded: generation >> (56 - 8 * $0)) }
    }
}
