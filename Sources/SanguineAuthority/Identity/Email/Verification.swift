import SanguineModel

/// A request that waits for the code that was sent by e-mail.
struct Verification: StoredDocument, Hashable {
    static let kind = DocumentKind.verification
    /// The number of wrong codes after which the right one is void.
    static let wrongCodes = 5

    /// The reason for the code.
    enum Purpose: String, Codable, Sendable {
        case registration
        case emailChange
        case passwordReset
    }

    /// The id of the purpose for its account or address; a later request replaces an earlier one.
    let id: String
    let purpose: Purpose
    /// The account that sent the request; `nil` if no account did.
    let account: Identifier?
    /// The address that the code verifies; `nil` for a reset, whose caller repeats it.
    let email: String?
    /// The hash of the password to set.
    let passwordHash: String?
    /// The keyed hash of the code.
    let codeHash: String
    /// The number of wrong codes so far.
    var wrong = 0
    let expiresAt: Timestamp
    /// The state of the login whose password is reset, as ``EmailSecrets/state(of:)`` returns it.
    ///
    /// The code is void once the login changes.
    var loginState: String?

    var documentID: String { id }
    var documentAccount: Identifier? { account }
    var documentExpiry: Timestamp? { expiresAt }

    /// The id for an account or the hidden name of an address.
    static func id(_ purpose: Purpose, _ subject: String) -> String {
        "\(purpose.rawValue) \(subject)"
    }

    /// Whether the code has this hash; compares in constant time.
    func hasCode(hash: String) -> Bool {
        guard hash.utf8.count == codeHash.utf8.count else { return false }
        return zip(hash.utf8, codeHash.utf8).reduce(UInt8(0)) { $0 | ($1.0 ^ $1.1) } == 0
    }

    /// Returns whether both are the same request, regardless of wrong codes.
    func isSame(as other: Verification) -> Bool {
        var other = other
        other.wrong = wrong
        return self == other
    }
}

/// The codes that are sent by e-mail: 8 digits.
enum VerificationCode {
    static let digits = 8

    /// Returns a code from the system's generator.
    static func random() -> String {
        var random = SystemRandomNumberGenerator()
        let number = String(UInt32.random(in: 0..<100_000_000, using: &random))
        return String(repeating: "0", count: digits - number.count) + number
    }

    /// Returns the digits of a code that a person typed, or `nil` if it is none.
    ///
    /// Blanks and hyphens between the digits are ignored.
    static func digits(of text: String) -> String? {
        guard text.utf8.count <= 32 else { return nil }
        let digits = text.filter { $0 != " " && $0 != "-" }
        guard digits.utf8.count == Self.digits,
            digits.utf8.allSatisfy({ (0x30...0x39).contains($0) })
        else { return nil }
        return digits
    }
}
