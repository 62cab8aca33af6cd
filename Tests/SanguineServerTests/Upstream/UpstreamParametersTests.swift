import HostileUpstream
import NIOCore
import SanguineModel
import SanguineTesting
import Synchronization
import TestSupport
import Testing

@testable import SanguineServer

@Suite("Upstream parameters", .bounded)
struct UpstreamParametersTests {
    /// Runs the body with a pool of one provider and the parameters that it reports as learned.
    private func withPool(
        _ provider: Provider,
        outputLimit: UpstreamConfiguration.OutputLimit = .auto,
        streamOptions: UpstreamConfiguration.StreamOptions = .auto,
        _ body: @escaping @Sendable (Upstreams, ProviderServer, Learned) async throws -> Void
    ) async throws {
        try await ProviderServer.with(provider) { server in
            let configuration = try UpstreamConfiguration(
                url: server.url,
                model: "m",
                outputLimit: outputLimit,
                streamOptions: streamOptions
            )
            let learned = Learned()
            var reports = UpstreamReports()
            reports.learned = { name, words in
                learned.words.withLock { $0.append("\(name): \(words)") }
            }
            let reported = reports
            try await UpstreamClient.with(configuration) { client in
                let pool = Upstreams([NamedUpstream("u", client)], reports: reported)
                try await body(pool, server, learned)
            }
        }
    }

    private final class Learned: Sendable {
        let words = Mutex<[String]>([])
    }

    private func ask(_ pool: Upstreams, streamed: Bool) async throws -> UpstreamAnswer {
        let prompt = UpstreamPrompt(messages: [.init(.user, "hi")], maxOutputTokens: 9)
        return try await pool.answer(.prompt(prompt), within: .seconds(20), streamed: streamed)
    }

    /// Makes a call and checks that the provider's text arrives.
    private func check(_ pool: Upstreams, streamed: Bool) async throws {
        let answer = try await ask(pool, streamed: streamed)
        #expect(answer.text == Provider.text)
    }

    @Test func `a refused limit is sent under its other name, then and later`()
        async throws
    {
        try await withPool(.openAIReasoning) { pool, server, learned in
            try await check(pool, streamed: false)
            try await check(pool, streamed: true)
            let limits = server.requests.value.map {
                [$0.json["max_tokens"], $0.json["max_completion_tokens"]]
            }
            #expect(limits == [[9, nil], [nil, 9], [nil, 9]])
            #expect(learned.words.withLock { $0 } == ["u: m, outputLimit: max_completion_tokens"])
        }
    }

    @Test func `refused stream options are omitted, then and later`() async throws {
        try await withPool(.mistral) { pool, server, learned in
            try await check(pool, streamed: true)
            try await check(pool, streamed: true)
            let options = server.requests.value.map { $0.json["stream_options"] != nil }
            #expect(options == [true, false, false])
            #expect(learned.words.withLock { $0 } == ["u: m, streamOptions: false"])
        }
    }

    @Test func `configured parameters are sent without trying others`() async throws {
        try await withPool(.openAIReasoning, outputLimit: .maxTokens) { pool, server, _ in
            await #expect(throws: UpstreamError.self) { try await ask(pool, streamed: false) }
            #expect(server.requests.value.count == 1)
        }
        try await withPool(.mistral, outputLimit: .none, streamOptions: .never) {
            pool,
            server,
            learned in
            try await check(pool, streamed: true)
            let sent = try #require(server.requests.value.first).json
            #expect(sent["max_tokens"] == nil && sent["max_completion_tokens"] == nil)
            #expect(sent["stream_options"] == nil)
            #expect(learned.words.withLock { $0.isEmpty })
        }
    }

    @Test func `nothing is learned from a request that is refused either way`() async throws {
        let provider = Provider("refuses all") { _ in
            .init(status: 400, #"{"error":{"message":"Unsupported: max_tokens, stream_options"}}"#)
        }
        try await withPool(provider) { pool, server, learned in
            await #expect(throws: UpstreamError.self) { try await ask(pool, streamed: true) }
            #expect(server.requests.value.count <= 3)
            #expect(learned.words.withLock { $0.isEmpty })
            let first = try #require(server.requests.value.first).json
            await #expect(throws: UpstreamError.self) { try await ask(pool, streamed: true) }
            #expect(server.requests.value.contains { $0.json == first })
        }
    }

    @Test(arguments: [
        "max_tokens is too large: 5000. This model supports at most 4096 completion tokens.",
        "Unsupported value: 'temperature' does not support 0 with this model.",
        "Unsupported parameter: 'max_tokens_to_sample'", "",
    ])
    func `a refusal for another reason changes nothing`(words: String) throws {
        let configuration = try UpstreamConfiguration(url: "http://127.0.0.1:1", model: "m")
        let body = #"{"error":{"message":"\#(words)"}}"#.utf8
        #expect(UpstreamParameters().afterRefusal(body, configuration) == nil)
    }

    @Test func `the number of remembered models is limited`() {
        let learned = LearnedParameters(UpstreamParameters())
        var other = UpstreamParameters()
        other.hasStreamOptions = false
        for number in 0..<LearnedParameters.mostModels {
            #expect(learned.learn(other, of: "\(number)"))
        }
        #expect(!learned.learn(other, of: "another"))
        #expect(learned["another"] == UpstreamParameters() && learned["0"] == other)
    }

    private func body(_ json: String, _ limit: UpstreamConfiguration.OutputLimit) -> String {
        var parameters = UpstreamParameters()
        parameters.outputLimit = limit
        let request = UpstreamRequest.chat(Array(json.utf8), maxOutputTokens: 9)
        return String(
            decoding: request.body(model: "m", streamed: false, parameters: parameters),
            as: UTF8.self
        )
    }

    @Test func `a caller's request keeps its bytes except for what metering changes`() {
        let rest = #""z" : 18446744073709551616, "a":"\ud800", "a":{"b":1e999,"a":[ 1.0 ]}"#
        let sent = body(#"{ "model":"x", \#(rest) ,"stream":true}"#, .auto)
        #expect(sent == #"{ "model":"m", \#(rest) ,"max_tokens":9}"#)
    }

    @Test func `a caller's limit keeps its name, unless the upstream requires another`() {
        #expect(
            body(#"{"max_completion_tokens":5}"#, .auto)
                == #"{"max_completion_tokens":5,"model":"m"}"#
        )
        #expect(body(#"{"max_tokens":null}"#, .auto) == #"{"max_tokens":9,"model":"m"}"#)
        #expect(
            body(#"{"max_tokens":5,"a":1,"max_completion_tokens":5}"#, .maxCompletionTokens)
                == #"{"max_completion_tokens":9,"a":1,"model":"m"}"#
        )
        #expect(body(#"{"max_tokens":5}"#, .none) == #"{"model":"m"}"#)
    }
}
