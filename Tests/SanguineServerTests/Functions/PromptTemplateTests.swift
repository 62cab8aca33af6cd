import SanguineModel
import TestSupport
import Testing

@testable import SanguineServer

@Suite("Prompt templates", .bounded)
struct PromptTemplateTests {
    @Test func `a member stands in its place, as often as it is named`() {
        let template = PromptTemplate("{{a}} and {{ b }}, {{a}}")
        #expect(template.names == ["a", "b"])
        #expect(template.filled(with: ["a": "x", "b": 7]) == "x and 7, x")
    }

    @Test func `a member that is left out leaves its place empty`() {
        #expect(PromptTemplate("Hello {{name}}!").filled(with: [:]) == "Hello !")
    }

    @Test func `braces that a member brings are text`() {
        let template = PromptTemplate("{{a}}{{b}}")
        #expect(template.filled(with: ["a": "{{b}}", "b": "2"]) == "{{b}}2")
    }

    @Test(arguments: ["", "{", "{{", "a {{b", "}} a", "{ {a} }"])
    func `braces that close nowhere are text`(text: String) {
        #expect(PromptTemplate(text).names.isEmpty)
        #expect(PromptTemplate(text).filled(with: ["a": "x", "b": "y"]) == text)
    }
}
