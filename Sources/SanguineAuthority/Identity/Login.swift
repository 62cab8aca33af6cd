import SanguineModel

/// A way to sign in to a registered account.
struct Login: StoredDocument, Hashable {
    static let kind = DocumentKind.login

    /// The name of a login.
    enum Name: Hashable, Sendable {
        /// A verified e-mail address, in its canonical form.
        case email(String)
        /// The subject of an identity provider.
        case identity(provider: String, subject: String)

        /// Whether it is an e-mail address.
        var isEmail: Bool { if case .email = self { true } else { false } }

        /// The id of the document.
        var text: String {
            switch self {
            case .email(let address): "email \(Self.escaped(address))"
            case .identity(let provider, let subject):
                "identity \(Self.escaped(provider)) \(Self.escaped(subject))"
            }
        }

        /// Percent-encodes everything except visible ASCII, and the percent sign.
        private static func escaped(_ text: String) -> String {
            text.utf8.map { byte in
                let isPlain = (0x21...0x7E).contains(byte) && byte != UInt8(ascii: "%")
                let hex = String(byte, radix: 16, uppercase: true)
                return isPlain
                    ? String(UnicodeScalar(byte)) : "%" + (hex.count == 1 ? "0" : "") + hex
            }
            .joined()
        }
    }

    /// The text of ``Name``.
    var name: String
    /// The account.
    var account: Identifier
    /// The hash of the password, for an e-mail address.
    var passwordHash: String?
    /// The time at which the login was bound to the account.
    var createdAt: Timestamp

    var documentID: String { name }
    var documentAccount: Identifier? { account }
}
