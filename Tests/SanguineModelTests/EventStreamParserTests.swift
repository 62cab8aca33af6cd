import Foundation
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineModel

/// The examples of WHATWG HTML, section 9.2.6, and further cases.
@Suite("Event stream parser", .bounded)
struct EventStreamParserTests {
    private typealias Output = EventStreamParser.Output

    private func outputs(
        _ chunks: [Data],
        limit: Int = 1_000,
        ends: Bool = false
    ) throws -> [Output] {
        var parser = EventStreamParser(limit: limit)
        var outputs: [Output] = []
        for chunk in chunks { try parser.parse(chunk) { outputs.append($0) } }
        if ends { try parser.end { outputs.append($0) } }
        return outputs
    }

    private func outputs(
        _ text: String,
        limit: Int = 1_000,
        ends: Bool = false
    ) throws -> [Output] {
        try outputs([Data(text.utf8)], limit: limit, ends: ends)
    }

    private func event(_ data: String, type: String = "message", id: String = "") -> Output {
        .event(type: type, data: Data(data.utf8), id: id)
    }

    @Test(arguments: ["\n", "\r", "\r\n"])
    func `lines end with any of the three line endings`(end: String) throws {
        let text = ["event: change", "id: 7", "data: a", "data: b", "", ""].joined(separator: end)
        #expect(try outputs(text) == [event("a\nb", type: "change", id: "7")])
    }

    @Test func `lines of data are joined, and one leading space is removed`() throws {
        #expect(try outputs("data: YHOO\ndata: +2\ndata: 10\n\n") == [event("YHOO\n+2\n10")])
        #expect(try outputs("data:test\n\ndata: test\n\n") == [event("test"), event("test")])
        #expect(try outputs("data:  test\n\n") == [event(" test")])
    }

    @Test func `a data field without a value is an event, but no data is not`() throws {
        #expect(try outputs("data\n\ndata\ndata\n\n") == [event(""), event("\n")])
        #expect(try outputs("event: change\n\n").isEmpty)
    }

    @Test func `an event without a terminating empty line is discarded`() throws {
        #expect(try outputs("data: a\n").isEmpty)
    }

    @Test func `an id applies until the next one, and an empty id clears it`() throws {
        let text = ": test stream\n\ndata: 1\nid: 1\n\ndata:2\nid\n\ndata:  3\n\n"
        #expect(try outputs(text) == [.comment, event("1", id: "1"), event("2"), event(" 3")])
        #expect(try outputs("id: 4\ndata: a\n\ndata: b\n\n").last == event("b", id: "4"))
    }

    @Test func `an event without an id has none if ids are not remembered`() throws {
        var parser = EventStreamParser(limit: 1_000, remembersID: false)
        var outputs: [Output] = []
        try parser.parse(Data("id: 4\ndata: a\n\ndata: b\n\nid: 4\n\n".utf8)) {
            outputs.append($0)
        }
        #expect(outputs == [event("a", id: "4"), event("b"), .resumeID("4")])
    }

    @Test func `an id without data changes the position`() throws {
        #expect(try outputs("id: 4\n\nid: 4\n\n") == [.resumeID("4")])
        #expect(try outputs("id: 4\u{0}\n\n").isEmpty)
    }

    @Test func `a retry field accepts only digits`() throws {
        #expect(try outputs("retry: 2000\n\n") == [.retry(.seconds(2))])
        #expect(try outputs("retry: 2s\nretry: -1\nretry\n\n").isEmpty)
        #expect(try outputs("retry: 99999999999999999999\n") == [.retry(.seconds(86_400))])
    }

    @Test func `unknown fields are ignored`() throws {
        #expect(try outputs("colour: red\ndata: a\nData: b\n\n") == [event("a")])
    }

    @Test func `a byte order mark is skipped only at the beginning`() throws {
        #expect(try outputs("\u{FEFF}data: a\n\n") == [event("a")])
        #expect(try outputs("\n\u{FEFF}data: a\n\n").isEmpty)
    }

    @Test func `a line and an event have a size limit`() {
        let half = String(repeating: "a", count: 500)
        #expect(throws: EventStreamParser.TooLong.self) { try outputs("data: \(half)\(half)") }
        #expect(throws: EventStreamParser.TooLong.self) {
            try outputs("data: \(half)\ndata: \(half)\n")
        }
        #expect(throws: Never.self) { try outputs("data: \(half)\n\ndata: \(half)\n\n") }
    }

    @Test(arguments: ["data: a\n\ndata: b", "data: a\n\ndata: b\n", "data: a\n\ndata: b\r"])
    func `an event that is cut off by the stream's end can be requested`(text: String) throws {
        #expect(try outputs(text, ends: true) == [event("a"), event("b")])
        #expect(try outputs(text) == [event("a")])
        #expect(try outputs("data: a\n\n", ends: true) == [event("a")])
    }

    @Test func `an event arrives as soon as its empty line begins to end`() throws {
        #expect(try outputs("data: a\r\n\r") == [event("a")])
    }

    @Test(arguments: [1, 7, 101])
    func `a line without an end is refused at the limit for any split`(size: Int) {
        #expect(throws: EventStreamParser.TooLong.self) {
            try outputs(Array(repeating: Data(repeating: 120, count: size), count: 200), limit: 100)
        }
    }

    @Test func `a line at the limit is accepted, and one byte more is refused`() throws {
        let most = "data: " + String(repeating: "x", count: 94)
        #expect(try outputs(most + "\n\n", limit: 100).count == 1)
        #expect(throws: EventStreamParser.TooLong.self) {
            try outputs(most + "x\n\n", limit: 100)
        }
    }

    @Test func `many lines of data are refused at the limit`() {
        #expect(throws: EventStreamParser.TooLong.self) {
            try outputs(String(repeating: "data: 12345\n", count: 100), limit: 100)
        }
    }

    @Test func `a field whose name has a known prefix is unknown`() throws {
        #expect(try outputs("database: no\ndata: a\n\n") == [event("a")])
    }

    @Test(arguments: 1...200)
    func `bytes may be split anywhere`(seed: UInt64) throws {
        var random = SplitMix64(seed: seed)
        let pieces = [
            "data: a", "data", "data:ü€😀", ": comment", "id: 12", "id", "event: change",
            "retry: 2000", "retry: x", "other: y", "", "", "\u{FEFF}",
        ]
        let ends = ["\n", "\r", "\r\n"]
        var text = Bool.random(using: &random) ? "\u{FEFF}" : ""
        for _ in 0..<40 {
            text += pieces.randomElement(using: &random) ?? ""
            text += ends.randomElement(using: &random) ?? ""
        }
        // A lone CR before an LF would be a single line ending; the bytes of the text are the same.
        let bytes = Data(text.utf8)
        var chunks: [Data] = []
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = Int.random(in: 0...min(5, rest.count), using: &random)
            chunks.append(Data(rest.prefix(count)))
            rest = rest.dropFirst(count)
        }
        #expect(try outputs(chunks, ends: true) == outputs([bytes], ends: true))
        #expect(try outputs(chunks) == outputs([bytes]))
        #expect(try outputs(bytes.map { Data([$0]) }) == outputs([bytes]))
    }
}
