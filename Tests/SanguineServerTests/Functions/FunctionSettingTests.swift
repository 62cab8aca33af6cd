import SanguineModel
import TestSupport
import Testing

@testable import SanguineServer

@Suite("Functions in the settings", .bounded)
struct FunctionSettingTests {
    private typealias Field = FunctionSetting.Field

    private func setting(
        _ members: [Field: String],
        inputs: [String: String] = [:]
    ) throws -> FunctionSetting {
        try FunctionSetting(name: "f", members: members, inputs: inputs, source: "file")
    }

    private func refused(
        _ members: [Field: String],
        inputs: [String: String] = [:]
    ) -> [String] {
        do {
            _ = try setting(members, inputs: inputs)
            return []
        } catch let error as SettingsError {
            return error.problems.compactMap { problem in
                if case .invalid(let setting, _, _, _) = problem { setting } else { nil }
            }
        } catch {
            return ["\(error)"]
        }
    }

    @Test func `every member of a function in the file is read`() throws {
        let setting = try setting(
            [
                .kind: "upstream", .price: "2", .cachedPrice: "1", .quota: "readings",
                .quotaUnits: "2", .cache: "10m", .audience: "public", .shares: "kind",
                .payer: "each", .streams: "true", .onDisconnect: "stop", .version: "3",
                .maxOutputTokens: "100", .systemPrompt: "Be brief.",
                .prompt: "Read {{kind}} {{at}}",
                .model: "small", .upstreams: "spare, default", .inputBytes: "1000",
                .running: "5", .runningPerAccount: "1", .repeatsPerMinute: "2", .drains: "3",
                .timeout: "20s",
            ],
            inputs: ["kind": "face,palm", "at?": "integer"]
        )
        var rules = FunctionRules(
            price: .fixed(2).cached(1).taking(2, of: "readings"),
            cache: .duration(.seconds(600)).public(sharing: "kind"),
            payer: .each,
            streams: true,
            onDisconnect: .stop,
            limits: FunctionLimits(
                inputBytes: 1_000,
                running: 5,
                runningPerAccount: 1,
                repeatsPerMinute: 2,
                drains: 3,
                timeout: .seconds(20)
            ),
            version: "3"
        )
        #expect(setting.rules == rules)
        rules.version = "4"
        #expect(setting.rules != rules)
        #expect(
            setting.inputs == [
                InputMember("at", .integer, isOptional: true),
                InputMember("kind", .choice(["face", "palm"])),
            ]
        )
        #expect((setting.model, setting.upstreams) == ("small", ["spare", "default"]))
    }

    @Test func `a function that is written and read again is the same`() throws {
        let members: [Field: String] = [
            .kind: "upstream", .perMillionInput: "1", .perMillionOutput: "2", .atLeast: "3",
            .perMillionCachedInput: "0", .perMillionReasoning: "4",
            .cacheFacts: "birth, place", .attachmentCount: "2", .attachmentTypes: "image/png",
            .prompt: "{{a}} {{settings.birth}}", .systemPrompt: "{{settings.place}}",
        ]
        let setting = try setting(members, inputs: ["a": "string"])
        var written: [Field: String] = [:]
        var inputs: [String: String] = [:]
        for (name, text) in setting.texts {
            if let field = Field(rawValue: name) {
                written[field] = text
            } else {
                inputs[String(name.dropFirst("inputs.".count))] = text
            }
        }
        #expect(try self.setting(written, inputs: inputs) == setting)
    }

    @Test func `a function that costs a quota needs no price`() throws {
        let setting = try setting([.kind: "upstream", .quota: "readings"])
        #expect(setting.price == .quota("readings"))
    }

    @Test(
        arguments: [
            ([.kind: "upstream"], "price"),
            ([.kind: "upstream", .price: "1", .quotaUnits: "2"], "quotaUnits"),
            ([.kind: "upstream", .price: "1", .cachedPrice: "1"], "cachedPrice"),
            (
                [.kind: "upstream", .price: "1", .perMillionCachedInput: "1"],
                "perMillionCachedInput"
            ),
            ([.kind: "upstream", .perMillionReasoning: "1"], "price"),
            ([.kind: "upstream", .price: "1", .payer: "each"], "payer"),
            ([.kind: "upstream", .price: "1", .version: "2"], "version"),
            ([.kind: "upstream", .price: "1", .cache: "0s"], "cache"),
            ([.kind: "upstream", .price: "1", .cache: "noon"], "cache"),
            ([.kind: "upstream", .price: "1", .audience: "public"], "audience"),
            ([.kind: "upstream", .price: "1", .cache: "session", .audience: "public"], "audience"),
            ([.kind: "upstream", .price: "1", .cache: "forever", .shares: "question"], "shares"),
            (
                [
                    .kind: "upstream", .price: "1", .cache: "forever", .audience: "public",
                    .shares: "other",
                ], "shares"
            ),
            ([.kind: "upstream", .price: "1", .cache: "1m", .cacheFacts: "birth"], "cacheFacts"),
            (
                [.kind: "upstream", .price: "1", .streams: "false", .onDisconnect: "stop"],
                "onDisconnect"
            ),
            ([.kind: "upstream", .price: "1", .attachmentBytes: "5"], "attachments.bytes"),
            ([.kind: "upstream", .price: "1", .attachmentCount: "33"], "attachments.count"),
            ([.kind: "upstream", .price: "1", .attachmentMinimum: "1"], "attachments.minimum"),
            (
                [
                    .kind: "upstream", .price: "1", .attachmentCount: "2", .attachmentMinimum: "3",
                ], "attachments.minimum"
            ),
            ([.kind: "upstream", .price: "1", .quotaOtherwise: "5"], "quotaOtherwise"),
            ([.kind: "upstream", .quota: "readings", .quotaOtherwise: "0"], "quotaOtherwise"),
            ([.kind: "upstream", .quota: "readings", .charged: "later"], "charged"),
            (
                [
                    .kind: "upstream", .perMillionInput: "1", .perMillionOutput: "1",
                    .charged: "onStart",
                ], "charged"
            ),
            ([.kind: "upstream", .price: "1", .timeout: "0s"], "limits.timeout"),
            ([.kind: "upstream", .price: "1", .drains: "0"], "limits.drains"),
            ([.kind: "upstream", .price: "1", .prompt: "{{nobody}}"], "prompt"),
            ([.kind: "upstream", .price: "1", .prompt: "Nothing is asked."], "prompt"),
            ([.kind: "echo", .price: "1", .prompt: "{{question}}"], "prompt"),
            ([.kind: "echo", .price: "1", .model: "small"], "model"),
            ([.kind: "echo", .price: "1", .timeout: "5s"], "limits.timeout"),
            ([.kind: "echo", .price: "1", .maxOutputTokens: "5"], "maxOutputTokens"),
            ([.kind: "upstream", .price: "1", .cacheFacts: "birth"], "prompt"),
            (
                [.kind: "upstream", .price: "1", .prompt: "{{question}} {{settings.birth}}"],
                "prompt"
            ),
        ] as [([FunctionSetting.Field: String], String)]
    )
    func `members that contradict each other are refused by name`(
        members: [FunctionSetting.Field: String],
        name: String
    ) {
        #expect(refused(members).contains("functions.f.\(name)"))
    }

    @Test func `an echo takes no timeout, in the file or in code`() throws {
        let error = #expect(throws: SettingsError.self) {
            try setting([.kind: "echo", .price: "1", .timeout: "5s"])
        }
        #expect("\(try #require(error))".contains("Allowed: none for kind echo."))
        let rules = FunctionRules(limits: FunctionLimits(timeout: .seconds(5)))
        #expect(FunctionSetting(name: "f", kind: .echo, rules: rules).problems.count == 1)
    }

    @Test(arguments: ["text", "string,", ""])
    func `an input of unknown type is refused`(type: String) {
        let members: [Field: String] = [.kind: "upstream", .price: "1", .prompt: "{{a}}"]
        #expect(
            refused(members, inputs: ["a": type]) == ["functions.f.inputs.a"]
        )
    }

    @Test func `unknown quotas and upstreams are refused`() {
        var settings = ServerSettings()
        settings.functions[1].rules.price = .quota("walks")
        settings.functions[1].upstreams = ["spare"]
        settings.upstream.fallbacks = ["other"]
        let error = #expect(throws: SettingsError.self) { try settings.validate() }
        let names = error?.problems.compactMap { problem in
            if case .invalid(let setting, _, _, _) = problem { setting } else { nil }
        }
        #expect(
            names == ["functions.ask.quota", "functions.ask.upstreams", "upstream.fallbacks"]
        )
    }
}
