import Foundation
import HostileUpstream
import SanguineAuthority
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineServer

/// Answer, charge and finish reason with every provider, for functions and for OpenAI's clients.
@Suite("Providers", .bounded)
struct ProviderTests {
    private static let tools =
        #"""
        "tools":[{"type":"function","function":{"name":"weather","parameters":{"type":"object",\#
        "properties":{"zone":{"type":"string"},"city":{"type":"string"}}}}}]
        """#

    /// Seven input tokens cost 0.7 and three output tokens cost 3, which is rounded up to 4.
    private func withProvider(
        _ provider: Provider,
        _ body: @escaping @Sendable (Guest, ProviderServer) async throws -> Void
    ) async throws {
        try await ProviderServer.with(provider) { upstream in
            try await LiveServer.with {
                $0.settings.upstream.url = upstream.url
                $0.settings.functions[1].rules.price = .usage(
                    perMillionInput: 100_000,
                    perMillionOutput: 1_000_000
                )
                $0.settings.functions[1].maxOutputTokens = 20
            } _: { server in
                try await body(try await server.guest(), upstream)
            }
        }
    }

    /// The events of a stream for OpenAI's clients, as JSON, with `null` for the final `[DONE]`.
    private func events(_ reply: Reply) throws -> [JSONValue] {
        try reply.body.components(separatedBy: "\n\n").filter { $0.hasPrefix("data: ") }.map {
            let data = $0.dropFirst("data: ".count)
            guard data != "[DONE]" else { return .null }
            return try JSONParser.parse(Array(data.utf8), limits: .tolerant).value
        }
    }

    private func delta(_ event: JSONValue) -> JSONValue? {
        guard case .array(let choices) = event["choices"] else { return nil }
        return choices.first?["delta"]
    }

    @Test(arguments: Provider.all, [false, true])
    func `a function gets the words and costs what the provider reports`(
        provider: Provider,
        streamed: Bool
    ) async throws {
        try await withProvider(provider) { guest, _ in
            let reply = try await guest.post(
                "/v1/functions/ask",
                #"{"input":{"question":"hi"}}"#,
                headers: streamed ? ["Accept": "text/event-stream"] : [:]
            )
            #expect(reply.status == 200, "\(reply.body)")
            #expect(reply.body.contains(#""output":"Hello, world.""#), "\(reply.body)")
            #expect(reply.body.contains(#""finishReason":"stop""#), "\(reply.body)")
            #expect(try await guest.balance().available == 96)
        }
    }

    @Test(arguments: Provider.all, [false, true])
    func `an OpenAI client gets the words and is charged what the provider reports`(
        provider: Provider,
        streamed: Bool
    ) async throws {
        try await withProvider(provider) { guest, _ in
            let reply = try await guest.post(
                "/v1/chat/completions",
                #"{"stream":\#(streamed),"messages":[{"role":"user","content":"hi"}]}"#,
                key: nil
            )
            #expect(reply.status == 200, "\(reply.body)")
            if streamed {
                let events = try events(reply)
                #expect(events.last == .null, "\(reply.body)")
                let text = events.compactMap { UpstreamAnswer.text(of: delta($0)?["content"]) }
                #expect(text.joined() == Provider.text)
            } else {
                guard case .array(let choices) = try reply.json["choices"] else {
                    Issue.record("No choices: \(reply.body)")
                    return
                }
                let content = choices.first?["message"]?["content"]
                #expect(UpstreamAnswer.text(of: content) == Provider.text)
            }
            #expect(try await guest.balance().available == 96)
        }
    }

    @Test(arguments: Provider.all, [false, true])
    func `an OpenAI client gets its tool calls`(
        provider: Provider,
        streamed: Bool
    ) async throws {
        try await withProvider(provider) { guest, upstream in
            let body =
                #"""
                {"messages":[{"role":"user","content":"hi"}],\#(Self.tools),\#
                "stream":\#(streamed)}
                """#
            let reply = try await guest.post("/v1/chat/completions", body, key: nil)
            #expect(reply.status == 200, "\(reply.body)")
            var arguments = ""
            if streamed {
                for event in try events(reply) {
                    guard case .array(let calls) = delta(event)?["tool_calls"] else { continue }
                    arguments += calls.compactMap { $0["function"]?["arguments"]?.string }.joined()
                }
            } else if case .array(let choices) = try reply.json["choices"],
                case .array(let calls) = choices.first?["message"]?["tool_calls"]
            {
                arguments = calls.first?["function"]?["arguments"]?.string ?? ""
            }
            #expect(arguments == Provider.tool, "\(reply.body)")
            #expect(try await guest.balance().available == 96)
            // The model follows the order of a schema's members.
            let sent = try #require(upstream.requests.value.last)
            #expect(String(decoding: sent.bytes, as: UTF8.self).contains(Self.tools))
        }
    }

    @Test(arguments: Provider.all)
    func `a stream that fails midway ends with an error and releases its hold`(
        provider: Provider
    ) async throws {
        try await withProvider(provider) { guest, _ in
            let reply = try await guest.post(
                "/v1/chat/completions",
                #"{"stream":true,"messages":[{"role":"user","content":"please fail"}]}"#,
                key: nil
            )
            let last =
                reply.status == 200 ? try #require(try events(reply).last) : try reply.json
            #expect(last["error"]?["message"]?.string?.isEmpty == false, "\(reply.body)")
            let balance = try await guest.balance()
            #expect(balance.held == 0 && balance.available >= 95)
        }
    }

    @Test func `an error with status 200 and no answer costs nothing`() async throws {
        try await withProvider(.openRouter) { guest, _ in
            let reply = try await guest.post(
                "/v1/chat/completions",
                #"{"messages":[{"role":"user","content":"please fail"}]}"#,
                key: nil
            )
            #expect(reply.status >= 400, "\(reply.body)")
            #expect(try await guest.balance().available == 100)
        }
    }

    @Test(arguments: [Provider.openAI, .mistral])
    func `a client may use either name of the limit`(provider: Provider) async throws {
        for name in ["max_tokens", "max_completion_tokens"] {
            try await withProvider(provider) { guest, upstream in
                let reply = try await guest.post(
                    "/v1/chat/completions",
                    #"{"\#(name)":5,"messages":[{"role":"user","content":"hi"}]}"#,
                    key: nil
                )
                #expect(reply.status == 200, "\(reply.body)")
                let sent = try #require(upstream.requests.value.last)
                let limits = ["max_tokens", "max_completion_tokens"].compactMap { sent.json[$0] }
                #expect(limits == [5])
            }
        }
    }
}
