import SanguineModel
import Testing

@Suite("JSON edit")
struct JSONEditTests {
    private func edited(_ text: String, _ change: (inout JSONEdit) -> Void) -> String {
        var edit = JSONEdit(Array(text.utf8))
        change(&edit)
        return String(decoding: edit.bytes, as: UTF8.self)
    }

    @Test func `a member is replaced in its position, and all other bytes are kept`() {
        let text = "{\n  \"b\" : 1,\n  \"a\" : {\"z\":1, \"y\":1.0},\n  \"c\":3\n}\n"
        let changed = edited(text) { $0.set("b", to: Array("2".utf8)) }
        #expect(changed == text.replacing(#""b" : 1"#, with: #""b":2"#))
    }

    @Test func `a new member is added at the end`() {
        #expect(edited("{}") { $0.set("a", to: Array("1".utf8)) } == #"{"a":1}"#)
        #expect(edited(#"{"b":2 }"#) { $0.set("a", to: Array("1".utf8)) } == #"{"b":2 ,"a":1}"#)
        #expect(edited("no object") { $0.set("a", to: Array("1".utf8)) } == #"{"a":1}"#)
    }

    @Test(arguments: [
        (#"{"a":1,"b":2,"c":3}"#, "a", #"{"b":2,"c":3}"#),
        (#"{"a":1,"b":2,"c":3}"#, "b", #"{"a":1,"c":3}"#),
        (#"{"a":1,"b":2,"c":3}"#, "c", #"{"a":1,"b":2}"#), (#"{"a":1}"#, "a", "{}"),
        (#"{"a":1,"\u0061":2,"b":3}"#, "a", #"{"b":3}"#),
    ])
    func `all members with a name are removed`(text: String, name: String, left: String) {
        #expect(edited(text) { $0.remove(name) } == left)
    }

    @Test func `one member can replace several`() {
        let changed = edited(#"{"a":1,"x":0,"b":2}"#) {
            $0.set("c", to: Array("3".utf8), replacing: ["b", "a"])
        }
        #expect(changed == #"{"c":3,"x":0}"#)
    }

    @Test func `forwarded JSON may contain what RFC 8259 advises against`() throws {
        let text = #"{"a":1,"a":"\ud800x\udc00","n":-1e999,"ok":"\ud83d\ude00"}"#
        #expect(throws: JSONParser.Fault.self) { try JSONParser.parse(Array(text.utf8)) }
        let document = try JSONParser.parse(Array(text.utf8), limits: .tolerant)
        #expect(document.value["a"] == "\u{FFFD}x\u{FFFD}")
        #expect(document.value["n"] == .number(-Double.greatestFiniteMagnitude))
        #expect(document.value["ok"] == "😀")
        #expect(document.isApproximate)
        let plain = try JSONParser.parse(Array(#"{"a":1}"#.utf8), limits: .tolerant)
        #expect(!plain.isApproximate)
    }
}
