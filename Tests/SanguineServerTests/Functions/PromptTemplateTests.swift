import SanguineModel
import TestSupport
import Testing

@testable import SanguineServer

@Suite("Prompt templates", .bounded)
struct PromptTemplateTests {
    @Test func `each placeholder is replaced by its member`() {
        let template = PromptTemplate("{{a}} and {{ b }}, {{a}}")
        #expect(template.names == ["a", "b"])
        #expect(template.filled(with: ["a": "x", "b": 7]) == "x and 7, x")
    }

    @Test func `a missing member leaves its placeholder empty`() {
        #expect(PromptTemplate("Hello {{name}}!").filled(with: [:]) == "Hello !")
    }

    @Test func `braces in a member's value are plain text`() {
        let template = PromptTemplate("{{a}}{{b}}")
        #expect(template.filled(with: ["a": "{{b}}", "b": "2"]) == "{{b}}2")
    }

    @Test(arguments: ["", "{", "{{", "a {{b", "}} a", "{ {a} }"])
    func `unclosed braces are plain text`(text: String) {
        #expect(PromptTemplate(text).names.isEmpty)
        #expect(PromptTemplate(text).filled(with: ["a": "x", "b": "y"]) == text)
    }
}
