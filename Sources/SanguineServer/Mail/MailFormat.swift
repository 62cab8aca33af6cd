import Foundation
import SanguineAuthority
import SanguineModel

/// Formats messages as RFC 5322 with MIME (RFC 2045), in ASCII with lines that end with CRLF.
struct MailFormat: Hashable, Sendable {
    /// The address of the sender.
    let from: EmailAddress
    /// The name of the sender.
    let name: String

    /// Returns the message.
    func text(of mail: OutgoingMail) -> String {
        let lines = Self.lines(of: mail.text)
        let isPlain = lines.allSatisfy { line in
            line.utf8.count <= 900 && line.utf8.allSatisfy { $0 == 9 || (0x20...0x7E).contains($0) }
        }
        let phrase = Self.phrase(name, after: "From: ")
        let header = [
            "Date: \(Self.date(mail.date))",
            // A line with encoded words is short (RFC 2047, section 2), without the address.
            "From: \(phrase)\(phrase.hasPrefix("\"") ? " " : "\r\n ")<\(from.text)>",
            "To: <\(mail.to.filter(Self.isVisible))>",
            "Subject: \(Self.unstructured(mail.subject, after: "Subject: "))",
            "Message-ID: <\(mail.id.filter(Self.isVisible))@\(from.domain)>",
            "Auto-Submitted: auto-generated",
            "MIME-Version: 1.0",
            "Content-Type: text/plain; charset=utf-8",
            "Content-Transfer-Encoding: \(isPlain ? "7bit" : "base64")",
        ]
        let body = isPlain ? lines : Self.base64Lines(lines.joined(separator: "\r\n"))
        return (header + [""] + body).joined(separator: "\r\n") + "\r\n"
    }

    /// Splits a text at CRLF, CR and LF, so that no bare CR or LF is sent.
    private static func lines(of text: String) -> [String] {
        var lines = text.replacing("\r\n", with: "\n").replacing("\r", with: "\n")
            .split(separator: "\n", omittingEmptySubsequences: false).map(String.init)
        if lines.last == "" { lines.removeLast() }
        return lines
    }

    private static func base64Lines(_ text: String) -> [String] {
        let encoded = Array(Data(text.utf8).base64EncodedString().utf8)
        return stride(from: 0, to: encoded.count, by: 76).map { start in
            String(decoding: encoded[start..<min(start + 76, encoded.count)], as: UTF8.self)
        }
    }

    private static func isVisible(_ character: Character) -> Bool {
        guard let byte = character.asciiValue else { return false }
        return (0x21...0x7E).contains(byte) && character != "<" && character != ">"
    }

    // MARK: - Header fields

    /// A display name (RFC 5322, section 3.4), quoted or encoded.
    private static func phrase(_ text: String, after field: String) -> String {
        let text = withoutControls(text)
        guard isPrintable(text) else { return encodedWords(text, after: field) }
        let escaped = text.replacing("\\", with: "\\\\").replacing("\"", with: "\\\"")
        return "\"\(escaped)\""
    }

    /// An unstructured field (RFC 5322, section 3.2.5), encoded if needed.
    private static func unstructured(_ text: String, after field: String) -> String {
        let text = withoutControls(text)
        let isPlain = isPrintable(text) && text.utf8.count <= 900
        return isPlain ? text : encodedWords(text, after: field)
    }

    /// Replaces control characters, which could begin another field, with blanks.
    private static func withoutControls(_ text: String) -> String {
        String(
            String.UnicodeScalarView(
                text.unicodeScalars.map { scalar in
                    let isControl =
                        scalar.value < 0x20 || (0x7F...0x9F).contains(scalar.value)
                        || scalar.value == 0x2028 || scalar.value == 0x2029
                    return isControl ? " " : scalar
                }
            )
        )
    }

    /// Whether the text is ASCII that cannot be mistaken for an encoded word.
    private static func isPrintable(_ text: String) -> Bool {
        text.utf8.allSatisfy { (0x20...0x7E).contains($0) } && !text.contains("=?")
    }

    /// Encodes a text as words on lines of their own, which have at most 76 characters with the
    /// name of the field (RFC 2047, section 2).
    private static func encodedWords(_ text: String, after field: String) -> String {
        var words: [String] = []
        var word: [UInt8] = []
        // 12 characters are the frame of a word, and 4 of base64 stand for 3 bytes.
        var limit: Int { (76 - 12 - (words.isEmpty ? field.utf8.count : 1)) / 4 * 3 }
        func endWord() {
            guard !word.isEmpty else { return }
            words.append("=?UTF-8?B?\(Data(word).base64EncodedString())?=")
            word = []
        }
        for scalar in text.unicodeScalars {
            let bytes = Array(String(scalar).utf8)
            if word.count + bytes.count > limit { endWord() }
            word += bytes
        }
        endWord()
        return words.joined(separator: "\r\n ")
    }

    /// A date and time (RFC 5322, section 3.3) in UTC.
    static func date(_ moment: Timestamp) -> String {
        var calendar = Calendar(identifier: .gregorian)
        calendar.timeZone = .gmt
        let date = Date(timeIntervalSince1970: Double(moment.millisecondsSince1970) / 1_000)
        let parts = calendar.dateComponents(
            [.year, .month, .day, .weekday, .hour, .minute, .second],
            from: date
        )
        func two(_ number: Int?) -> String {
            let text = String(number ?? 0)
            return text.utf8.count < 2 ? "0" + text : text
        }
        let day = days[((parts.weekday ?? 1) - 1) % 7]
        let month = months[((parts.month ?? 1) - 1) % 12]
        let time = [parts.hour, parts.minute, parts.second].map(two).joined(separator: ":")
        return "\(day), \(two(parts.day)) \(month) \(parts.year ?? 0) \(time) +0000"
    }

    private static let days = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"]
    private static let months = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ]
}
