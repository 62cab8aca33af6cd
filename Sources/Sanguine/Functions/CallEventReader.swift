import Foundation
import SanguineModel

/// Assembles the events of a streamed answer, across connections.
///
/// Invariants:
///
/// 1. Each part is returned once, in the order of its index, and none after the end.
/// 2. Parts after a gap are rejected and requested again, starting after the last part received.
/// 3. A problem without an id is not the end of the answer, which is requested again: a server that
///    stops, or whose storage fails, does not know the end yet.
struct CallEventReader: Sendable {
    /// The end of an answer.
    enum End: Sendable {
        /// The body of the result.
        case result(Data)
        /// The reason why there is no result.
        case problem(Problem)
    }

    /// The events do not follow the known ones, or cannot be read.
    struct Broken: Error, Hashable {
        let reason: String
    }

    /// The index of the last part that was received; `nil` before the first.
    private(set) var last: Int64?
    /// The end of the answer, once it is known.
    private(set) var end: End?
    private var parts: [String] = []
    private var given = 0
    private var parser = Self.parser

    /// Prepares for another connection.
    mutating func reconnect() { parser = Self.parser }

    private static var parser: EventStreamParser {
        EventStreamParser(limit: FeedLimits.eventBytes, remembersID: false)
    }

    /// Returns the next part that was received but not yet returned.
    mutating func nextPart() -> String? {
        guard given < parts.count else { return nil }
        defer {
            given += 1
            if given == parts.count { (parts, given) = ([], 0) }
        }
        return parts[given]
    }

    /// Receives bytes of the connection.
    ///
    /// - Returns: Whether they contained new events, and not only a sign of life.
    mutating func receive(_ bytes: Data) throws(Broken) -> Bool {
        var outputs: [EventStreamParser.Output] = []
        do throws(EventStreamParser.TooLong) {
            try parser.parse(bytes) { outputs.append($0) }
        } catch {
            throw Broken(reason: "an event is too long")
        }
        var hasNews = false
        for output in outputs where end == nil {
            guard case .event(let type, let data, let id) = output else { continue }
            hasNews = try process(type, data, id) || hasNews
        }
        return hasNews
    }

    /// Receives an answer in one piece: it is one part, if its output is a string.
    mutating func receiveWhole(_ body: Data) {
        let whole = try? WireCoding.decode(Whole.self, from: body)
        if last == nil, let text = whole?.output.string {
            parts.append(text)
            last = 0
        }
        end = .result(body)
    }

    private mutating func process(
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

    /// Discards the end, because the answer is requested again.
    mutating func dropEnd() { end = nil }
}
