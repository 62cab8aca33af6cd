import Foundation
import SanguineModel
import TestSupport
import Testing

@testable import SanguineServer

@Suite("Typed inputs", .bounded)
struct TypedInputTests {
    private enum Kind: String, Codable, CaseIterable { case face, palm }

    private struct Nested: Codable { var name: String }

    private struct Everything: Codable, Sendable {
        var text: String
        var count: Int
        var share: Double
        var flag: Bool
        var kind: Kind
        var list: [Nested]
        var nested: Nested
        var id: Identifier
        var day: CalendarDay
        var at: Timestamp
        var any: JSONValue
        var note: String?
        var more: Int?
    }

    private struct Nothing: Codable, Sendable {}

    /// A type that accepts only one string, which the search for its members does not try.
    private struct Odd: Codable, Sendable {
        struct Word: Codable {
            init(from decoder: any Decoder) throws {
                let text = try decoder.singleValueContainer().decode(String.self)
                guard text == "xyzzy" else {
                    throw DecodingError.dataCorrupted(
                        .init(codingPath: decoder.codingPath, debugDescription: "Say xyzzy.")
                    )
                }
            }

            func encode(to encoder: any Encoder) throws {
                var container = encoder.singleValueContainer()
                try container.encode("xyzzy")
            }
        }

        var word: Word
    }

    private struct Question: Codable, Sendable {
        var text: String
        var count: Int?
    }

    @Test func `the members of a type are listed with their types`() {
        #expect(
            TypedInput<Everything>(nil).listed == [
                "text": "string", "count": "integer", "share": "number", "flag": "boolean",
                "kind": "string", "list": "array", "nested": "object", "id": "string",
                "day": "string", "at": "string", "any": "object", "note?": "string",
                "more?": "integer",
            ]
        )
        #expect(TypedInput<Nothing>(nil).listed == [:])
    }

    @Test func `a type that cannot be probed lists the members it is given`() {
        #expect(TypedInput<Odd>(nil).listed == nil)
        #expect(TypedInput<Odd>(["word": "string"]).listed == ["word": "string"])
    }

    @Test func `equivalent inputs are read as the same input`() throws {
        let inputs = TypedInput<Question>(nil)
        let (plain, heeded) = try inputs.read(["text": "a"])
        #expect(plain.text == "a")
        #expect(heeded == ["text": "a"])
        #expect(try inputs.read(["text": "a", "count": .null, "other": 1]).heeded == heeded)
        #expect(try inputs.read(["text": "a", "count": 1]).heeded != heeded)
    }

    @Test(
        arguments: [
            ([:], "input.text"), (["text": 1], "input.text"),
            (["text": "a", "count": "b"], "input.count"),
        ] as [(JSONValue, String)]
    )
    func `a missing member or one of another type is named`(
        input: JSONValue,
        name: String
    ) throws {
        let problem = #expect(throws: Problem.self) {
            _ = try TypedInput<Question>(nil).read(input)
        }
        #expect(problem?.code == .invalidContent)
        #expect(problem?.detail.contains("'\(name)'") == true)
    }
}
