/// An e-mail address in its canonical form: ASCII in lower case.
///
/// Equal addresses belong to the same account, and messages are sent to the canonical form, so a
/// code always proves access to the address that is bound. Addresses beyond ASCII are refused:
/// letters that look alike, or that become ASCII in lower case, would name another person's
/// mailbox. Quoted local parts are refused too; an internationalized domain is written in its ASCII
/// form, `xn--…` (RFC 5890).
package struct EmailAddress: Hashable, Sendable {
    /// The maximum number of bytes (RFC 5321, section 4.5.3.1.3, without the angle brackets).
    package static let bytes = 254

    /// The address: `ana@example.org`.
    package let text: String

    /// Parses an address, or returns `nil` if it has another form.
    package init?(_ text: String) {
        guard text.utf8.count <= Self.bytes, text.utf8.allSatisfy({ $0 < 0x80 }) else {
            return nil
        }
        let parts = text.split(separator: "@", omittingEmptySubsequences: false)
        guard parts.count == 2, parts[0].utf8.count <= 64, Self.isLocalPart(parts[0]),
            Self.isDomain(parts[1])
        else { return nil }
        self.text = text.lowercased()
    }

    /// The domain.
    package var domain: Substring { text[text.index(after: at)...] }

    /// The address with one letter of its local part: `a•••@example.org`.
    package var masked: String { "\(text.prefix(1))•••@\(domain)" }

    private var at: String.Index { text.lastIndex(of: "@") ?? text.startIndex }

    /// Whether the text is a dot-atom (RFC 5322, section 3.2.3).
    private static func isLocalPart(_ text: Substring) -> Bool {
        text.split(separator: ".", omittingEmptySubsequences: false).allSatisfy { atom in
            !atom.isEmpty
                && atom.utf8.allSatisfy { isLetterOrDigit($0) || atomSymbols.contains($0) }
        }
    }

    private static let atomSymbols = Set("!#$%&'*+-/=?^_`{|}~".utf8)

    /// Whether the text has at least two labels (RFC 1035, section 2.3.1), and the last one is not
    /// a number.
    private static func isDomain(_ text: Substring) -> Bool {
        let labels = text.split(separator: ".", omittingEmptySubsequences: false)
        guard labels.count >= 2, let last = labels.last,
            !last.utf8.allSatisfy({ (0x30...0x39).contains($0) })
        else { return false }
        return labels.allSatisfy { label in
            (1...63).contains(label.utf8.count) && label.first != "-" && label.last != "-"
                && label.utf8.allSatisfy { isLetterOrDigit($0) || $0 == UInt8(ascii: "-") }
        }
    }

    private static func isLetterOrDigit(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"):
            true
        default: false
        }
    }
}
