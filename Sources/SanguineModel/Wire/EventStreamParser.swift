package import Foundation

/// Parses server-sent events according to WHATWG HTML, section 9.2.6.
///
/// The bytes may be split anywhere. Lines end with CR, LF or both; a byte order mark is skipped; an
/// event without a terminating empty line is discarded, unless ``end(_:)`` is called.
///
/// Invariant: a line, and the data of an event, never occupy more than the limit.
package struct EventStreamParser: Sendable {
    /// The result of an empty line, or of a line with a field.
    package enum Output: Hashable, Sendable {
        /// An event with its type, `message` by default.
        case event(type: String, data: Data, id: String)
        /// A new id to resume from, without an event.
        case resumeID(String)
        /// The time to wait before reconnecting.
        case retry(Duration)
        /// A comment, usually sent to keep the connection alive.
        case comment
    }

    /// A line or an event exceeds the limit.
    package struct TooLong: Error, Hashable {}

    /// The longest accepted `retry`, in milliseconds: a day.
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
    private var reportedID = ""

    /// Creates a parser.
    ///
    /// - Parameters:
    ///   - limit: The maximum number of bytes in a line, and in the data of an event.
    ///   - remembersID: Whether an event without an id inherits the previous event's id, as the
    ///     standard requires. Otherwise its id is empty. Default: `true`.
    package init(limit: Int, remembersID: Bool = true) {
        self.limit = limit
        self.remembersID = remembersID
    }

    /// Parses bytes, and passes on the completed events.
    ///
    /// - Throws: ``TooLong``, after which the parser must not be used.
    package mutating func parse(
        _ bytes: some Collection<UInt8>,
        _ receive: (Output) -> Void
    ) throws(TooLong) {
        var rest = bytes[...]
        while let first = rest.first {
            if isAfterReturn {
                isAfterReturn = false
                // The second half of a line ending.
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

    /// Passes on the last event if the stream ended without an empty line after it.
    ///
    /// Some servers close the connection right after the last line. The caller must check that the
    /// data is complete.
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
            reportedID = id
        }
        if hasData {
            receive(.event(type: type.isEmpty ? "message" : type, data: data, id: id))
        } else if id != reportedID {
            receive(.resumeID(id))
        }
    }

    private static let lineFeed = UInt8(ascii: "\n")
    private static let carriageReturn = UInt8(ascii: "\r")

    private static func isDigit(_ byte: UInt8) -> Bool {
        (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
    }
}
