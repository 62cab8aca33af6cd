import NIOCore

/// The beginning of an answer's body, which tells JSON from events.
///
/// The media type does not: servers and proxies send events as `text/plain`,
/// `application/octet-stream` or `application/json`, answer a stream with one object, and stream to
/// a caller who asked for one.
struct AnswerOpening: Sendable {
    /// What a body is.
    enum Kind: Hashable, Sendable {
        /// One JSON object.
        case json
        /// Server-sent events.
        case events
        /// Something else, such as the page of a proxy.
        case other
    }

    /// Bytes of white space that may come first.
    private static let mostBytes = 1_024

    /// What was read to know.
    private(set) var bytes = ByteBuffer()
    /// What it is; events, if nothing came.
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
    /// Returns `nil` as long as nothing has come but white space and a byte order mark.
    init?(_ bytes: some Collection<UInt8>) {
        var rest = bytes[...]
        for byte in [0xEF, 0xBB, 0xBF] as [UInt8] where rest.first == byte { rest.removeFirst() }
        guard let first = rest.first(where: { ![0x20, 0x09, 0x0A, 0x0D].contains($0) }) else {
            return nil
        }
        switch first {
        case UInt8(ascii: "{"): self = .json
        // A comment, or the name of a field: data, event, id, retry.
        case UInt8(ascii: ":"), UInt8(ascii: "d"), UInt8(ascii: "e"), UInt8(ascii: "i"),
            UInt8(ascii: "r"):
            self = .events
        default: self = .other
        }
    }
}
