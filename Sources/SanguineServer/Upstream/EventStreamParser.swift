/// Splits a stream of bytes into the data of server-sent events (WHATWG HTML, section 9.2.6).
///
/// Incremental: however the bytes are cut, the events are the same. Lines end with LF, CR or CRLF;
/// comments and fields other than `data` are passed over; several `data` lines of an event are
/// joined by LF. Events without data are none.
///
/// ```swift
/// parser.append(bytes)
/// while let data = try parser.next() { … }
/// ```
///
/// Invariants:
/// 1. `start <= scanned <= buffer.count`; what is before `start` was taken.
/// 2. No line end is between `start` and `scanned`.
/// 3. Neither a line nor the data of an event is longer than the limit, so memory is bounded by
///    twice the limit and the last bytes appended.
struct EventStreamParser: Sendable {
    /// A line, or the data of an event, is longer than the limit.
    struct Overflow: Error, Hashable {}

    private let limit: Int
    private var buffer: [UInt8] = []
    private var start = 0
    private var scanned = 0
    /// The last line ended with CR, and an LF that follows belongs to it.
    private var endedWithCR = false
    private var isFirstLine = true
    private var data: [UInt8]?

    /// Creates a parser.
    ///
    /// - Parameter limit: Bytes of a line, and of the data of one event, at most.
    init(limit: Int) { self.limit = limit }

    /// Adds what has come.
    mutating func append(_ bytes: some Collection<UInt8>) {
        if start == buffer.count {
            buffer.removeAll(keepingCapacity: true)
            (start, scanned) = (0, 0)
        } else if start > buffer.count / 2 {
            buffer.removeFirst(start)
            scanned -= start
            start = 0
        }
        buffer.append(contentsOf: bytes)
    }

    /// Takes the data of the next event that is whole, or returns `nil` until more has come.
    mutating func next() throws(Overflow) -> [UInt8]? {
        while let line = try nextLine() {
            if line.isEmpty {
                guard let data = data.take(), !data.isEmpty else { continue }
                return data
            }
            try take(buffer[line])
        }
        return nil
    }

    /// Takes the data of an event that the end of the stream has cut off from its empty line, if
    /// there is any.
    ///
    /// Servers exist that close right after the last line. Whether the data is whole is for the
    /// caller to see.
    mutating func end() throws(Overflow) -> [UInt8]? {
        if start < buffer.count {
            let rest = start..<buffer.count
            (start, scanned) = (buffer.count, buffer.count)
            try take(buffer[rest])
        }
        guard let data = data.take(), !data.isEmpty else { return nil }
        return data
    }

    /// The next line without its end.
    private mutating func nextLine() throws(Overflow) -> Range<Int>? {
        if endedWithCR, start < buffer.count {
            if buffer[start] == .lineFeed { start += 1 }
            scanned = start
            endedWithCR = false
        }
        while scanned < buffer.count {
            let byte = buffer[scanned]
            guard byte == .lineFeed || byte == .carriageReturn else {
                scanned += 1
                continue
            }
            let line = start..<scanned
            guard line.count <= limit else { throw Overflow() }
            endedWithCR = byte == .carriageReturn
            scanned += 1
            start = scanned
            return line
        }
        guard scanned - start <= limit else { throw Overflow() }
        return nil
    }

    private mutating func take(_ line: ArraySlice<UInt8>) throws(Overflow) {
        var line = line
        if isFirstLine {
            isFirstLine = false
            if line.starts(with: Self.byteOrderMark) { line = line.dropFirst(3) }
        }
        guard line.starts(with: Self.field) else { return }
        line = line.dropFirst(Self.field.count)
        if line.isEmpty {
            // `data` alone is a field without value.
        } else if line.first == UInt8(ascii: ":") {
            line = line.dropFirst()
            if line.first == UInt8(ascii: " ") { line = line.dropFirst() }
        } else {
            return  // Another field, whose name begins alike.
        }
        if data == nil {
            data = Array(line)
        } else {
            data?.append(.lineFeed)
            data?.append(contentsOf: line)
        }
        guard data?.count ?? 0 <= limit else { throw Overflow() }
    }

    private static let field = Array("data".utf8)
    private static let byteOrderMark: [UInt8] = [0xEF, 0xBB, 0xBF]
}

extension UInt8 {
    fileprivate static let lineFeed = UInt8(ascii: "\n")
    fileprivate static let carriageReturn = UInt8(ascii: "\r")
}
