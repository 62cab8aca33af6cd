import Crypto
import Foundation
import SanguineModel

/// The keys for codes, names of attempts, and waiting mail, derived from the authority's secrets.
///
/// Without these secrets, a copy of the database reveals neither codes nor messages, nor the
/// addresses of failed attempts.
struct EmailSecrets: Sendable {
    private let codeKey: SymmetricKey
    private let nameKey: SymmetricKey
    private let mailKey: SymmetricKey

    init(keys: SigningKeys) {
        func derived(_ name: String) -> SymmetricKey {
            HKDF<SHA256>.deriveKey(
                inputKeyMaterial: keys.refreshKey,
                info: Data(name.utf8),
                outputByteCount: 32
            )
        }
        codeKey = derived("codes of e-mails")
        nameKey = derived("names of attempts")
        mailKey = derived("waiting e-mails")
    }

    /// Returns the hash of a code, which is bound to its verification.
    func hash(ofCode code: String, for verification: String) -> String {
        let content = Data("\(verification)\0\(code)".utf8)
        return Base64URL.encode(HMAC<SHA256>.authenticationCode(for: content, using: codeKey))
    }

    /// Returns a name that does not reveal the text.
    func name(of text: String) -> String {
        Base64URL.encode(HMAC<SHA256>.authenticationCode(for: Data(text.utf8), using: nameKey))
    }

    /// Returns a text that changes when the login gets another password or account.
    func state(of login: Login) -> String {
        name(of: "login \(login.account) \(login.name) \(login.passwordHash ?? "")")
    }

    /// Encrypts a message that waits to be sent.
    func seal(_ message: MailMessage, id: String) throws(Problem) -> String {
        let box = try? AES.GCM.seal(
            Data(ResponseEncoder.encode(message)),
            using: mailKey,
            authenticating: Data(id.utf8)
        )
        guard let bytes = box?.combined else {
            throw Problem(.internalFault, "Send the request again.")
        }
        return Base64URL.encode(bytes)
    }

    /// Decrypts a message; returns `nil` if the keys were replaced since it was stored.
    func open(_ sealed: String, id: String) -> MailMessage? {
        guard let bytes = Base64URL.decode(sealed),
            let box = try? AES.GCM.SealedBox(combined: bytes),
            let content = try? AES.GCM.open(
                box,
                using: mailKey,
                authenticating: Data(id.utf8)
            )
        else { return nil }
        return try? JSONDecoder().decode(MailMessage.self, from: content)
    }
}
