import NIOCore

/// The beginning of an answer's body, which distinguishes JSON from events.
///
/// The media type is not reliable: servers and proxies send events as `text/plain`,
/// `application/octet-stream` or `application/json`, send one object although a stream was
/// requested, and stream although one object was requested.
struct AnswerOpening: Sendable {
    /// The format of a body.
    enum Kind: Hashable, Sendable {
        /// One JSON object.
        case json
        /// Server-sent events.
        case events
        /// Something else, such as a proxy's error page.
        case other
    }

    /// The maximum number of bytes of leading white space.
    private static let mostBytes = 1_024

    /// The bytes that were read to determine the format.
    private(set) var bytes = ByteBuffer()
    /// The format; events if the body is empty.
    private(set) var kind = Kind.events

    /// Whether the body is empty.
    var isEmpty: Bool { bytes.readableBytes == 0 }

    /// Reads the beginning of a body.
    init(of body: inout BodyParts, _ progress: AttemptProgress) async throws {
        while bytes.readableBytes < Self.mostBytes, let part = try await body.next() {
            progress.heard()
            bytes.writeImmutableBuffer(part)
            guard let found = Kind(bytes.readableBytesView) else { continue }
            kind = found
            return
        }
        if bytes.readableBytes > 0 { kind = .other }
    }
}

extension AnswerOpening.Kind {
    /// Determines the format; `nil` while there is only white space and a byte order mark.
    init?(_ bytes: some Collection<UInt8>) {
        var rest = bytes[...]
        for byte in [0xEF, 0xBB, 0xBF] as [UInt8] where rest.first == byte { rest.removeFirst() }
        guard let first = rest.first(where: { ![0x20, 0x09, 0x0A, 0x0D].contains($0) }) else {
            return nil
        }
        switch first {
        case UInt8(ascii: "{"): self = .json
        // A comment, or a field name: data, event, id, retry.
        case UInt8(ascii: ":"), UInt8(ascii: "d"), UInt8(ascii: "e"), UInt8(ascii: "i"),
            UInt8(ascii: "r"):
            self = .events
        default: self = .other
        }
    }
}
