import Foundation
import SanguineModel
import TestSupport
import Testing

@Suite("Messages of threads", .bounded)
struct ChatMessageTests {
    private func message(_ value: JSONValue) -> ChatMessage {
        var message = ChatMessage.defaults
        message.set(MessageContent(value))
        return message
    }

    @Test func `a string is stored once, as the text`() {
        let message = message(.string("Venus rises."))
        #expect(message.text == "Venus rises.")
        #expect(message.content == nil && !message.isCut)
        #expect(message.value == .string("Venus rises."))
    }

    @Test func `the text of an object consists of its strings and numbers`() {
        let value = JSONValue.object([
            "question": .string("When?"), "day": .integer(3), "isNew": .bool(true),
            "names": .array([.string("A"), .string("B")]),
        ])
        let message = message(value)
        #expect(message.text == "3\nA\nB\nWhen?")
        #expect(message.value == value)
    }

    @Test func `the text of a question is the member question of the input`() {
        let input = JSONValue.object(["question": .string("When?"), "day": .integer(3)])
        let question = MessageContent(question: input)
        #expect(question.text == "When?" && question.value == input && !question.isCut)
        for value in [JSONValue.string("When?"), .object(["q": .string("When?")])] {
            #expect(MessageContent(question: value) == MessageContent(value))
        }
        let empty = JSONValue.object(["question": .string(""), "day": .integer(3)])
        #expect(MessageContent(question: empty).text == "3\n")
    }

    @Test(arguments: [
        ("love", "love"), ("", nil), ("a\nb", nil), (String(repeating: "a", count: 65), nil),
    ])
    func `an input names the area of a new thread`(area: String, expected: String?) {
        #expect(ChatThread.area(in: .object(["area": .string(area)])) == expected)
        #expect(ChatThread.area(in: .string(area)) == nil)
    }

    @Test func `a long answer is cut at a whole character`() {
        let message = message(.string(String(repeating: "👩🏽‍🚀", count: 10_000)))
        #expect(message.isCut && message.value == nil)
        #expect(message.text.allSatisfy { $0 == "👩🏽‍🚀" })
        #expect(message.text.utf8.count <= ThreadLimits.textBytes)
    }

    @Test func `a text of one endless character takes no more time than another text`() {
        let marks = String(repeating: "\u{301}", count: 12_000)
        let clock = ContinuousClock()
        var kept = ""
        let time = clock.measure { kept = message(.string("a" + marks)).text }
        #expect(kept.unicodeScalars.count == 12_001)
        // It took a minute when it was quadratic, and takes about a millisecond.
        #expect(time < .seconds(5))
        let long = message(.string("a" + marks + marks))
        #expect(long.isCut && long.text.isEmpty)
    }

    @Test(arguments: ["a", "\"", "\u{1}", "\n", "é"])
    func `the longest message fits in a record`(_ character: String) throws {
        let text = String(repeating: character, count: 70_000)
        let texts = JSONValue.array((0..<20).map { _ in .string(String(text.prefix(3_000))) })
        for value in [.string(text), texts] {
            let bytes = try RecordValue(message(value)).json()
            #expect(bytes.count <= WireLimits.recordBytes)
        }
    }

    @Test func `content that is too large is not stored`() {
        let text = String(repeating: "a", count: ThreadLimits.contentBytes)
        let message = message(.object(["a": .string(text)]))
        #expect(message.content == nil && message.isCut && message.value == nil)
        #expect(message.text == text)
    }

    @Test func `content that is nested too deeply is not stored`() {
        func nested(_ depth: Int) -> JSONValue {
            (0..<depth).reduce(.string("deep")) { value, _ in .array([value]) }
        }
        let kept = nested(WireLimits.jsonNesting)
        #expect(message(kept).value == kept)
        let message = message(nested(WireLimits.jsonNesting + 1))
        #expect(message.content == nil && message.isCut && message.text == "deep")
    }

    @Test func `an unknown state of a newer server is read as the default`() throws {
        var fields = try RecordValue(ChatMessage.defaults).fields()
        fields["state"] = .string("thinking")
        fields["later"] = .bool(true)
        let read = try RecordValue(fields).record(ChatMessage.self, id: ChatMessage.defaults.id)
        #expect(read.state == .complete)
    }

    @Test func `the order of messages is that of their positions`() {
        let (thread, other) = (RecordID.new(), RecordID.new())
        let positions = [0, 1, 2, 9, 10, 100_000, Int.max]
        let orders = positions.map { ChatMessage.order(of: thread, at: $0) }
        #expect(orders == orders.sorted())
        #expect(orders.allSatisfy { !$0.hasPrefix(other.text) })
    }

    @Test func `the ids of messages derive from the key of the call`() {
        let key = "0199f3c8-2f6b-7c1e-9a54-3d2b8e07f6aa"
        #expect(ChatMessage.question(of: key)?.text == key + ":1")
        #expect(ChatMessage.answer(of: key)?.text == key + ":2")
        #expect(ChatMessage.question(of: "a:1") != ChatMessage.question(of: "a"))
        #expect(ChatMessage.question(of: String(repeating: "k", count: 127)) == nil)
    }

    @Test func `a thread is sent as JSON with times in RFC 3339`() throws {
        let id = RecordID.new()
        let at = Timestamp(millisecondsSince1970: 1_763_752_719_250)
        let json = try RecordValue(ChatThread(id: id, function: "ask", createdAt: at)).json()
        let time = "2025-11-21T19:18:39.250Z"
        #expect(
            String(decoding: json, as: UTF8.self) == """
                {"createdAt":"\(time)","function":"ask","lastMessageAt":"\(time)",\
                "lastPosition":0,"messages":0,"settings":{},"updatedAt":"\(time)"}
                """
        )
    }
}
