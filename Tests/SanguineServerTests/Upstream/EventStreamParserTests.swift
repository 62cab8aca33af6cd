import SanguineTesting
import TestSupport
import Testing

@testable import SanguineServer

@Suite("Event stream parser", .bounded)
struct EventStreamParserTests {
    /// The data of all events of a body that comes in these pieces.
    private static func events(_ pieces: [[UInt8]], limit: Int = 1_000) throws -> [String] {
        var parser = EventStreamParser(limit: limit)
        var found: [String] = []
        for piece in pieces {
            parser.append(piece)
            while let data = try parser.next() {
                found.append(String(decoding: data, as: UTF8.self))
            }
        }
        if let data = try parser.end() { found.append(String(decoding: data, as: UTF8.self)) }
        return found
    }

    private static func events(_ text: String, limit: Int = 1_000) throws -> [String] {
        try events([Array(text.utf8)], limit: limit)
    }

    @Test(arguments: ["\n", "\r", "\r\n"])
    func `lines end with LF, CR or both`(end: String) throws {
        let text = "data: a\(end)\(end)data: b\(end)\(end)"
        #expect(try Self.events(text) == ["a", "b"])
    }

    @Test func `comments and other fields are passed over`() throws {
        let text = ": ping\n\nevent: delta\nid: 7\nretry: 10\ndata: a\n: more\ndatabase: no\n\n"
        #expect(try Self.events(text) == ["a"])
    }

    @Test func `several lines of data are joined by a line feed`() throws {
        #expect(try Self.events("data: {\ndata\ndata:}\n\n") == ["{\n\n}"])
    }

    @Test func `only the first space after the colon is dropped`() throws {
        #expect(try Self.events("data:a\n\ndata: b\n\ndata:  c\n\n") == ["a", "b", " c"])
    }

    @Test func `an event without data is none`() throws {
        #expect(try Self.events("\n\nevent: a\n\ndata:\n\ndata: b\n\n") == ["b"])
    }

    @Test func `a byte order mark before the first line is dropped`() throws {
        #expect(try Self.events("\u{FEFF}data: a\n\n") == ["a"])
    }

    @Test(arguments: ["data: a\n\ndata: b", "data: a\n\ndata: b\n", "data: a\n\ndata: b\r"])
    func `the end of the body ends an event`(text: String) throws {
        #expect(try Self.events(text) == ["a", "b"])
    }

    @Test func `an event comes as soon as its empty line has begun to end`() throws {
        var parser = EventStreamParser(limit: 100)
        parser.append(Array("data: a\r\n\r".utf8))
        #expect(try parser.next() == Array("a".utf8))
    }

    @Test func `a line without end is refused at the limit, however it is cut`() throws {
        for size in [1, 7, 101] {
            var parser = EventStreamParser(limit: 100)
            #expect(throws: EventStreamParser.Overflow.self) {
                for _ in 0..<200 {
                    parser.append([UInt8](repeating: UInt8(ascii: "x"), count: size))
                    _ = try parser.next()
                }
            }
        }
    }

    @Test func `a line of the limit is taken, and one byte more is not`() throws {
        let most = "data: " + String(repeating: "x", count: 94)
        #expect(try Self.events(most + "\n\n", limit: 100).count == 1)
        #expect(throws: EventStreamParser.Overflow.self) {
            try Self.events(most + "x\n\n", limit: 100)
        }
    }

    @Test func `many lines of data are refused at the limit`() throws {
        #expect(throws: EventStreamParser.Overflow.self) {
            try Self.events(String(repeating: "data: 12345\n", count: 100), limit: 100)
        }
    }

    @Test(arguments: 1...200 as ClosedRange<UInt64>)
    func `any split of the bytes gives the same events`(seed: UInt64) throws {
        var random = SplitMix64(seed: seed)
        let fragments = [
            "data: ", "data:", "data", "a", "äöü", "{\"b\":1}", "\n", "\r", "\r\n", "\n\n",
            "\r\n\r\n",
            ": c", "event: d", " ", "[DONE]", "\r\r", "\u{FEFF}",
        ]
        var text = ""
        for _ in 0..<60 { text += fragments.randomElement(using: &random) ?? "" }
        let bytes = Array(text.utf8)
        let whole = try Self.events([bytes])
        let single = try Self.events(bytes.map { [$0] })
        #expect(single == whole)
        var pieces: [[UInt8]] = []
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = Int.random(in: 0...9, using: &random)
            pieces.append(Array(rest.prefix(count)))
            rest = rest.dropFirst(count)
        }
        #expect(try Self.events(pieces) == whole)
    }
}
