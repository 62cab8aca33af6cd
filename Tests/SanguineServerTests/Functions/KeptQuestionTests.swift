import SanguineAuthority
import SanguineModel
import Synchronization
import TestSupport
import Testing

@testable import SanguineServer

/// Cached answers are found by the question: another prompt, model or limit is another question.
@Suite("Cached answers and changed questions", .bounded)
struct KeptQuestionTests {
    private struct Verse: FunctionCall {
        struct Input: Codable, Sendable { var topic: String }
        typealias Output = String
        static let name = "verse"
        static let rules = FunctionRules(price: .fixed(1), cache: .forever)
        var input: Input
    }

    private struct Greeting: FunctionCall {
        struct Input: Codable, Sendable { var name: String }
        typealias Output = String
        static let name = "greeting"
        static let rules = FunctionRules(price: .fixed(1), cache: .forever, sameness: .input)
        var input: Input
    }

    private static let setting = FunctionSetting(
        name: "verse",
        kind: .upstream,
        rules: FunctionRules(price: .fixed(1), cache: .forever),
        inputs: [InputMember("topic")],
        prompt: "A verse about {{topic}}",
        systemPrompt: "Be short."
    )

    private func expect(
        _ setup: LiveServer.Setup,
        isCached: Bool,
        _ what: Comment? = nil,
        at location: SourceLocation = #_sourceLocation
    ) async throws {
        try await LiveServer.with(setup) { server in
            let guest = try await server.guest(device: "the-device-of-a-reader")
            let reply = try await guest.post("/v1/functions/verse", #"{"input":{"topic":"rain"}}"#)
            let result = try reply.decode(FunctionResult<String>.self)
            #expect(result.cached == isCached, what, sourceLocation: location)
        }
    }

    @Test func `a changed template, model, limit or upstream requires a new answer`() async throws {
        try await ScriptedUpstream.with { _ in
            .bytes(ScriptedUpstream.completion("It rains."))
        } _: { upstream in
            var setup = LiveServer.Setup()
            setup.settings.upstream.url = "http://127.0.0.1:\(upstream.port)"
            let changes: [(String, @Sendable (inout FunctionSetting) -> Void)] = [
                ("prompt", { $0.prompt = "Two verses about {{topic}}" }),
                ("system prompt", { $0.systemPrompt = "Be long." }),
                ("model", { $0.model = "another" }),
                ("limit", { $0.maxOutputTokens = 900 }),
            ]
            setup.settings.functions = [Self.setting]
            try await expect(setup, isCached: false)
            try await expect(setup, isCached: true)
            for (name, change) in changes {
                var changed = setup
                change(&changed.settings.functions[0])
                try await expect(changed, isCached: false, "another \(name)")
                try await expect(changed, isCached: true, "another \(name), once more")
            }
            var changed = setup
            changed.settings.upstream.model = "the-next-model"
            try await expect(changed, isCached: false, "another model of the upstream")
            try await expect(setup, isCached: true, "the first answer")
        }
    }

    @Test func `a changed prompt from code requires a new answer, unless only the input counts`()
        async throws
    {
        let hour = Mutex(0)
        let next: @Sendable () -> Int = {
            hour.withLock { hour in
                hour += 1
                return hour
            }
        }
        try await ScriptedUpstream.with { _ in
            .bytes(ScriptedUpstream.completion("It rains."))
        } _: { upstream in
            try await LiveServer.with {
                $0.settings.upstream.url = "http://127.0.0.1:\(upstream.port)"
                $0.functions = [
                    ServerFunction(asking: Verse.self) { "At \(next()), about \($0.topic)" },
                    ServerFunction(asking: Greeting.self) { "At \(next()), greet \($0.name)" },
                ]
            } _: { server in
                let guest = try await server.guest()
                for _ in 0..<2 {
                    let reply = try await guest.post(
                        "/v1/functions/verse",
                        #"{"input":{"topic":"rain"}}"#
                    )
                    #expect(try reply.decode(FunctionResult<String>.self).cached == false)
                }
                for isCached in [false, true] {
                    let reply = try await guest.post(
                        "/v1/functions/greeting",
                        #"{"input":{"name":"Ada"}}"#
                    )
                    #expect(try reply.decode(FunctionResult<String>.self).cached == isCached)
                }
            }
        }
    }
}
