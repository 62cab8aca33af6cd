import Foundation
import SanguineModel

/// Puts the events of a streamed answer together, whatever connections they come by.
///
/// Invariants:
///
/// 1. Each part is given once, in the order of its index, and none after the end.
/// 2. What follows a gap is not taken: it is asked for again, from the last part on.
/// 3. A problem without an id is not the answer's end, which is asked for again: a server that
///    stops, or whose storage fails, does not know the end yet.
struct CallEventReader: Sendable {
    /// How the answer ends.
    enum End: Sendable {
        /// The body of the result.
        case result(Data)
        /// Why there is none.
        case problem(Problem)
    }

    /// The events do not follow those that are known, or cannot be read.
    struct Broken: Error, Hashable {
        let reason: String
    }

    /// The index of the last part that was taken; `nil` before the first.
    private(set) var last: Int64?
    /// How the answer ends, once that is known.
    private(set) var end: End?
    private var parts: [String] = []
    private var given = 0
    private var parser = Self.parser

    /// Another connection begins.
    mutating func reconnect() { parser = Self.parser }

    private static var parser: EventStreamParser {
        EventStreamParser(limit: FeedLimits.eventBytes, remembersID: false)
    }

    /// The next part that was taken and not given.
    mutating func nextPart() -> String? {
        guard given < parts.count else { return nil }
        defer {
            given += 1
            if given == parts.count { (parts, given) = ([], 0) }
        }
        return parts[given]
    }

    /// Takes bytes of the connection in.
    ///
    /// - Returns: Whether they had news, and not only said that the server is there.
    mutating func take(_ bytes: Data) throws(Broken) -> Bool {
        var outputs: [EventStreamParser.Output] = []
        do throws(EventStreamParser.TooLong) {
            try parser.take(bytes) { outputs.append($0) }
        } catch {
            throw Broken(reason: "an event is too long")
        }
        var hasNews = false
        for output in outputs where end == nil {
            guard case .event(let type, let data, let id) = output else { continue }
            hasNews = try take(type, data, id) || hasNews
        }
        return hasNews
    }

    /// Takes an answer that came in one piece: one part, if its output is a text.
    mutating func takeWhole(_ body: Data) {
        let whole = try? WireCoding.decode(Whole.self, from: body)
        if last == nil, let text = whole?.output.string {
            parts.append(text)
            last = 0
        }
        end = .result(body)
    }

    private mutating func take(
        _ type: String,
        _ data: Data,
        _ id: String
    ) throws(Broken) -> Bool {
        switch type {
        case "delta":
            let next = (last ?? -1) + 1
            guard let index = Int64(id), index <= next else {
                throw Broken(reason: "part \(next) of the answer is missing")
            }
            guard index == next else { return false }
            guard let delta = try? WireCoding.decode(FunctionDelta.self, from: data) else {
                throw Broken(reason: "part \(next) of the answer cannot be read")
            }
            parts.append(delta.text)
            last = index
        case "result":
            end = .result(data)
        case "problem":
            guard let problem = try? WireCoding.decode(Problem.self, from: data) else {
                throw Broken(reason: "the end of the answer cannot be read")
            }
            guard !id.isEmpty else {
                throw Broken(reason: "the server does not know the end yet: \(problem.code)")
            }
            end = .problem(problem)
        default: return false
        }
        return true
    }

    private struct Whole: Decodable {
        let output: JSONValue
    }

    /// The end was none: the answer is asked for again.
    mutating func dropEnd() { end = nil }
}
