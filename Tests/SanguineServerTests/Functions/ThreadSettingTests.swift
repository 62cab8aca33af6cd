import SanguineAuthority
import SanguineModel
import TestSupport
import Testing

@testable import SanguineServer

@Suite("Settings of threads", .bounded)
struct ThreadSettingTests {
    private typealias Field = FunctionSetting.Field

    private static let base: [Field: String] = [.kind: "upstream", .price: "1"]

    private func setting(_ members: [Field: String]) throws -> FunctionSetting {
        try FunctionSetting(
            name: "f",
            members: Self.base.merging(members) { $1 },
            source: "a test"
        )
    }

    @Test func `a function keeps no history unless it declares it`() throws {
        let plain = try setting([:])
        #expect(!plain.rules.keepsHistory && plain.rules.titles == nil)
        let kept = try setting([.keepsHistory: "true"])
        #expect(kept.rules.keepsHistory)
        #expect(kept.rules.history == HistoryRules(tokens: 4_000, messages: 40))
    }

    @Test func `the budget and the function of titles are read, and written as they were`() throws {
        let members: [Field: String] = [
            .keepsHistory: "true", .historyTokens: "100", .historyMessages: "0", .titles: "title",
        ]
        let rules = try setting(members).rules
        #expect(rules.history == HistoryRules(tokens: 100, messages: 0))
        #expect(rules.titles == "title")
        let texts = Dictionary(uniqueKeysWithValues: try setting(members).texts.map { ($0, $1) })
        for (field, text) in members { #expect(texts[field.rawValue] == text) }
    }

    @Test func `a session's cache that threads never hit is a warning that says what to do`()
        throws
    {
        func warnings(_ members: [Field: String]) throws -> [String] {
            var settings = ServerSettings()
            settings.functions = [try setting(members)]
            return settings.warnings()
        }
        let kept: [Field: String] = [.keepsHistory: "true", .cache: "session"]
        let warning = try #require(try warnings(kept).first)
        #expect(warning.contains("'f'") && warning.contains("'history.messages' to 0"))
        #expect(try warnings(kept.merging([.historyMessages: "0"]) { $1 }).isEmpty)
        #expect(try warnings([.keepsHistory: "true"]).isEmpty)
        #expect(try warnings([.cache: "session"]).isEmpty)
    }

    @Test(
        arguments: [
            ([.historyTokens: "5"], "history.tokens"),
            ([.historyMessages: "5"], "history.messages"),
            ([.titles: "title"], "titles"),
            ([.keepsHistory: "yes"], "keepsHistory"),
            ([.keepsHistory: "true", .historyMessages: "101"], "history.messages"),
            (
                [.keepsHistory: "true", .cache: "forever", .audience: "public"], "keepsHistory"
            ),
        ] as [([FunctionSetting.Field: String], String)]
    )
    func `rules of threads that contradict each other are refused by name`(
        members: [FunctionSetting.Field: String],
        name: String
    ) {
        let error = #expect(throws: SettingsError.self) { try setting(members) }
        #expect(error?.description.contains("functions.f.\(name)") == true)
    }

    private func faults(
        _ inputs: [InputMember],
        titles: String = "title",
        of other: String? = nil
    ) -> [String] {
        let functions = [
            FunctionSetting(
                name: "chat",
                kind: .upstream,
                rules: FunctionRules(keepsHistory: true, titles: titles)
            ),
            FunctionSetting(
                name: "title",
                kind: .upstream,
                rules: FunctionRules(keepsHistory: other != nil, titles: other),
                inputs: inputs
            ),
        ]
        return TitleFunctions(functions, []).faults(isComplete: true)
    }

    @Test func `a function of titles exists and takes the question and the answer`() {
        #expect(faults([InputMember("question"), InputMember("answer")]).isEmpty)
        #expect(faults([InputMember("text")]).count == 1)
        #expect(faults([InputMember("answer")], titles: "other").count == 1)
        #expect(faults([InputMember("answer")], titles: "chat").count == 1)
        #expect(faults([InputMember("answer")], of: "chat").count == 2)
    }

    @Test func `the messages of a thread stand between the system prompt and the prompt`() {
        func message(
            _ role: ChatMessage.Role,
            _ text: String,
            _ content: JSONValue? = nil
        )
            -> ChatMessage
        {
            var message = ChatMessage.defaults
            (message.role, message.text, message.content) = (role, text, content)
            return message
        }
        let prompt = Prompt(system: "Be brief.", "And tomorrow?").continuing([
            message(.user, "Today?", ["question": "Today?"]), message(.assistant, "Rain."),
        ])
        #expect(prompt.messages.map(\.role) == [.system, .user, .assistant, .user])
        #expect(
            prompt.messages.map(\.content) == [
                [.text("Be brief.")], [.text("Today?")], [.text("Rain.")],
                [.text("And tomorrow?")],
            ]
        )
        let structured = message(.assistant, "Rain", ["sky": "Rain"])
        #expect(structured.promptText == #"{"sky":"Rain"}"#)
    }
}
