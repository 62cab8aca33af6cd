import Crypto
import Foundation
import SanguineModel

/// Creates and reads cursors: encrypted positions in lists that clients cannot forge.
///
/// A cursor is bound to its list and its account. It is encrypted, not only signed, because the
/// position may be a number that counts other accounts' actions. Equal positions have equal
/// cursors, so that an unchanged response keeps its `ETag`: the nonce is derived from the content,
/// as in a synthetic initialization vector (RFC 5297), with AES-GCM.
struct CursorSeal: Sendable {
    private let key: SymmetricKey
    private let nonceKey: SymmetricKey

    /// The maximum number of characters in a cursor.
    private static let longest = 2_048

    init(keys: SigningKeys) {
        func derived(_ name: String) -> SymmetricKey {
            HKDF<SHA256>.deriveKey(
                inputKeyMaterial: keys.refreshKey,
                info: Data(name.utf8),
                outputByteCount: 32
            )
        }
        key = derived("cursors")
        nonceKey = derived("nonces of cursors")
    }

    /// Returns the cursor of a position.
    ///
    /// - Throws: `internal_fault` if the position cannot be encrypted.
    func text(
        _ position: String,
        list: String,
        account: Identifier
    ) throws(Problem) -> String {
        let (content, binding) = (Data(position.utf8), Self.binding(list, account))
        var code = HMAC<SHA256>(key: nonceKey)
        code.update(data: binding)
        code.update(data: content)
        let box = try? AES.GCM.seal(
            content,
            using: key,
            nonce: try AES.GCM.Nonce(data: Data(code.finalize()).prefix(12)),
            authenticating: binding
        )
        guard let bytes = box?.combined else {
            throw Problem(.internalFault, "Request the list again.")
        }
        return Base64URL.encode(bytes)
    }

    /// Returns the position of a cursor.
    ///
    /// - Throws: `malformed_request` for a cursor that is invalid or of another list or account.
    func position(
        _ text: String,
        list: String,
        account: Identifier
    ) throws(Problem) -> String {
        let bytes = try Self.bytes(text)
        guard let box = try? AES.GCM.SealedBox(combined: bytes),
            let content = try? AES.GCM.open(
                box,
                using: key,
                authenticating: Self.binding(list, account)
            )
        else { throw .cursorInvalid }
        return String(decoding: content, as: UTF8.self)
    }

    /// Throws `malformed_request` unless the text has the form of a cursor, regardless of its list
    /// and account.
    static func checkForm(_ text: String) throws(Problem) { _ = try bytes(text) }

    private static func bytes(_ text: String) throws(Problem) -> [UInt8] {
        // A nonce, a nonempty content, and a tag.
        guard text.utf8.count <= longest, let bytes = Base64URL.decode(text), bytes.count > 12 + 16
        else { throw .cursorInvalid }
        return bytes
    }

    // Neither the list nor the account contains a zero byte.
    private static func binding(_ list: String, _ account: Identifier) -> Data {
        Data("\(list)\0\(account)\0".utf8)
    }
}

extension CursorSeal {
    /// Returns the cursor of a number; all such cursors have the same length.
    func text(
        _ number: Int64,
        list: String,
        account: Identifier
    ) throws(Problem) -> String {
        let digits = String(UInt64(bitPattern: number), radix: 16)
        let zeros = String(repeating: "0", count: 16 - digits.count)
        return try text(zeros + digits, list: list, account: account)
    }

    /// Returns the number of a cursor.
    ///
    /// - Throws: see ``position(_:list:account:)``.
    func number(
        _ text: String,
        list: String,
        account: Identifier
    ) throws(Problem) -> Int64 {
        let position = try position(text, list: list, account: account)
        guard let number = UInt64(position, radix: 16) else { throw .cursorInvalid }
        return Int64(bitPattern: number)
    }
}
