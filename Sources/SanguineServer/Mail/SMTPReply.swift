import NIOCore

/// A reply of an SMTP server (RFC 5321, section 4.2).
struct SMTPReply: Hashable, Sendable {
    /// The code, 200 to 599.
    var code: Int
    /// The texts of the lines after the code.
    var lines: [String]

    var isPositive: Bool { code < 400 }
}

/// Reads replies from the bytes of a connection.
///
/// Lines and replies are limited, so that a server cannot use up the memory.
struct SMTPReplyParser {
    /// A reply that RFC 5321 does not permit.
    struct Malformed: Error {}

    static let lineBytes = 2_048
    static let replyLines = 128

    private var buffer: [UInt8] = []
    private var code: Int?
    private var lines: [String] = []

    /// Whether nothing of a later reply was received.
    var isEmpty: Bool { buffer.isEmpty && lines.isEmpty }

    /// Adds received bytes and returns the replies that are complete.
    mutating func receive(_ bytes: some Sequence<UInt8>) throws -> [SMTPReply] {
        var replies: [SMTPReply] = []
        for byte in bytes {
            guard byte == UInt8(ascii: "\n") else {
                guard buffer.count < Self.lineBytes else { throw Malformed() }
                buffer.append(byte)
                continue
            }
            if buffer.last == UInt8(ascii: "\r") { buffer.removeLast() }
            let line = buffer
            buffer = []
            if let reply = try end(line) { replies.append(reply) }
        }
        return replies
    }

    private mutating func end(_ line: [UInt8]) throws -> SMTPReply? {
        guard line.count >= 3, let number = Int(String(decoding: line[..<3], as: UTF8.self)),
            (200...599).contains(number), code == nil || code == number,
            lines.count < Self.replyLines
        else { throw Malformed() }
        let separator = line.count > 3 ? line[3] : UInt8(ascii: " ")
        code = number
        lines.append(String(decoding: line.dropFirst(4), as: UTF8.self))
        switch separator {
        case UInt8(ascii: "-"): return nil
        case UInt8(ascii: " "):
            defer { (code, lines) = (nil, []) }
            return SMTPReply(code: number, lines: lines)
        default: throw Malformed()
        }
    }
}
