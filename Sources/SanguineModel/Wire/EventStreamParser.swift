package import Foundation

/// Reads server-sent events out of bytes, as WHATWG HTML, section 9.2.6, says.
///
/// Bytes may be cut anywhere. Lines end with CR, LF or both; a byte order mark is skipped; an event
/// that is not ended by an empty line is none, unless ``end(_:)`` is asked for it.
///
/// Invariant: no more than the limit is kept, of a line and of an event's data.
package struct EventStreamParser: Sendable {
    /// What an empty line, or a line of its own kind, has completed.
    package enum Output: Hashable, Sendable {
        /// An event with its type, `message` if it names none.
        case event(type: String, data: Data, id: String)
        /// A new place to resume from, without an event.
        case place(String)
        /// After how long to connect again.
        case retry(Duration)
        /// Nothing, said to show that somebody is there.
        case comment
    }

    /// A line or an event is longer than allowed.
    package struct TooLong: Error, Hashable {}

    /// The longest time that `retry` may name: a day.
    private static let longestRetry = 86_400_000

    private let limit: Int
    private let remembersID: Bool
    private var line: [UInt8] = []
    private var isAfterReturn = false
    private var isFirstLine = true
    private var data = Data()
    private var hasData = false
    private var type = ""
    private var id = ""
    private var toldID = ""

    /// Creates a parser.
    ///
    /// - Parameters:
    ///   - limit: Bytes of a line, and of the data of one event, at most.
    ///   - remembersID: Whether an event that names no id has that of the event before it, as the
    ///     standard says. Without this it has an empty one. Default: `true`.
    package init(limit: Int, remembersID: Bool = true) {
        self.limit = limit
        self.remembersID = remembersID
    }

    /// Takes bytes in, and hands on what they complete.
    ///
    /// - Throws: ``TooLong``; the parser must not be used after that.
    package mutating func take(
        _ bytes: some Collection<UInt8>,
        _ receive: (Output) -> Void
    ) throws(TooLong) {
        var rest = bytes[...]
        while let first = rest.first {
            if isAfterReturn {
                isAfterReturn = false
                // The second half of an end of line.
                if first == Self.lineFeed { rest = rest.dropFirst() }
            }
            let end = rest.firstIndex { $0 == Self.lineFeed || $0 == Self.carriageReturn }
            let part = rest[..<(end ?? rest.endIndex)]
            guard line.count + part.count <= limit else { throw TooLong() }
            line.append(contentsOf: part)
            guard let end else { return }
            isAfterReturn = rest[end] == Self.carriageReturn
            rest = rest[rest.index(after: end)...]
            try endLine(receive)
        }
    }

    /// Hands on an event that the end of the stream has cut off from its empty line, if there is
    /// one.
    ///
    /// Servers exist that close right after the last line. Whether the data is whole is for the
    /// caller to see.
    ///
    /// - Throws: ``TooLong``.
    package mutating func end(_ receive: (Output) -> Void) throws(TooLong) {
        if !line.isEmpty { try endLine(receive) }
        if hasData { dispatch(receive) }
    }

    private mutating func endLine(_ receive: (Output) -> Void) throws(TooLong) {
        var line = self.line[...]
        if isFirstLine, line.starts(with: [0xEF, 0xBB, 0xBF]) { line = line.dropFirst(3) }
        isFirstLine = false
        defer { self.line.removeAll(keepingCapacity: self.line.count <= 1 << 16) }
        guard let first = line.first else { return dispatch(receive) }
        if first == UInt8(ascii: ":") { return receive(.comment) }
        let colon = line.firstIndex(of: UInt8(ascii: ":")) ?? line.endIndex
        var value = line[colon...].dropFirst()
        if value.first == UInt8(ascii: " ") { value = value.dropFirst() }
        switch String(decoding: line[..<colon], as: UTF8.self) {
        case "data":
            guard data.count + value.count + (hasData ? 1 : 0) <= limit else { throw TooLong() }
            if hasData { data.append(Self.lineFeed) }
            data.append(contentsOf: value)
            hasData = true
        case "event": type = String(decoding: value, as: UTF8.self)
        case "id" where !value.contains(0): id = String(decoding: value, as: UTF8.self)
        case "retry" where !value.isEmpty && value.allSatisfy(Self.isDigit):
            let milliseconds = Int(String(decoding: value, as: UTF8.self)) ?? .max
            receive(.retry(.milliseconds(min(milliseconds, Self.longestRetry))))
        default: break
        }
    }

    private mutating func dispatch(_ receive: (Output) -> Void) {
        defer {
            data = Data()
            hasData = false
            type = ""
            if !remembersID { id = "" }
            toldID = id
        }
        if hasData {
            receive(.event(type: type.isEmpty ? "message" : type, data: data, id: id))
        } else if id != toldID {
            receive(.place(id))
        }
    }

    private static let lineFeed = UInt8(ascii: "\n")
    private static let carriageReturn = UInt8(ascii: "\r")

    private static func isDigit(_ byte: UInt8) -> Bool {
        (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
    }
}
