import NIOCore

/// An HTTP/1.1 response with server-sent events, parsed for the presence of an event and for its
/// end.
///
/// The body is parsed by its chunks (RFC 9112, section 7.1). It ends with the last chunk, and no
/// bytes of an event are mistaken for that.
struct StreamedAnswer {
    private enum Part {
        case head
        case size
        case chunk(rest: Int)
        case afterChunk
        case trailer
        case end
    }

    /// Whether the data of an event has begun.
    private(set) var hasEvent = false
    private var part = Part.head
    private var unread = ByteBuffer()
    /// The beginning of the current line of the body.
    private var line: [UInt8] = []

    private static let data = Array("data:".utf8)

    /// Whether the response is complete.
    var isWhole: Bool { if case .end = part { true } else { false } }

    /// Parses received bytes.
    ///
    /// - Throws: ``BenchmarkError/refused(_:)`` for a status other than 200, or a body without
    ///   chunks.
    mutating func read(_ bytes: ByteBuffer) throws(BenchmarkError) {
        var bytes = bytes
        unread.writeBuffer(&bytes)
        while try readPart() {}
        unread.discardReadBytes()
    }

    /// Parses a line or a chunk, and returns whether there may be another.
    private mutating func readPart() throws(BenchmarkError) -> Bool {
        switch part {
        case .head:
            guard let head = readHead() else { return false }
            guard head.hasPrefix("HTTP/1.1 200"),
                head.lowercased().contains("transfer-encoding: chunked")
            else { throw .refused(1) }
            part = .size
        case .size:
            guard let line = readLine() else { return false }
            let digits = line.prefix { $0 != ";" && $0 != " " }
            guard let size = Int(digits, radix: 16) else { throw .refused(1) }
            part = size > 0 ? .chunk(rest: size) : .trailer
        case .chunk(let rest):
            let count = min(rest, unread.readableBytes)
            guard count > 0, let bytes = unread.readBytes(length: count) else { return false }
            look(at: bytes)
            part = count < rest ? .chunk(rest: rest - count) : .afterChunk
        case .afterChunk:
            guard readLine() != nil else { return false }
            part = .size
        case .trailer:
            guard let line = readLine() else { return false }
            if line.isEmpty { part = .end }
        case .end:
            return false
        }
        return true
    }

    private mutating func look(at bytes: [UInt8]) {
        guard !hasEvent else { return }
        for byte in bytes {
            if byte == UInt8(ascii: "\n") {
                line = []
            } else if line.count < Self.data.count {
                line.append(byte)
                if line == Self.data { hasEvent = true }
            }
        }
    }

    private mutating func readHead() -> String? {
        let view = unread.readableBytesView
        guard view.count >= 4,
            let end = view.indices.dropLast(3).first(where: {
                view[$0] == 13 && view[$0 + 1] == 10 && view[$0 + 2] == 13 && view[$0 + 3] == 10
            })
        else { return nil }
        return unread.readString(length: end + 4 - view.startIndex)
    }

    private mutating func readLine() -> String? {
        let view = unread.readableBytesView
        guard let end = view.firstIndex(of: 10) else { return nil }
        // A line's end is one character.
        return unread.readString(length: end + 1 - view.startIndex).map { String($0.dropLast()) }
    }
}
