import Foundation
import NIOCore
import NIOPosix
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineServer

/// Calls of a language model, with a server that misbehaves as scripted.
@Suite("Upstream client", .bounded)
struct UpstreamClientTests {
    private static let prompt = UpstreamPrompt(
        messages: [.init(.system, "Be kind."), .init(.user, "Is it late?")],
        maxOutputTokens: 64
    )

    private static let key = "sk-do-not-tell"

    /// Runs the body with a client of a server that follows the script.
    private func withClient(
        answerBytes: Int = UpstreamConfiguration.defaultAnswerBytes,
        clock: any Clock<Duration> = ContinuousClock(),
        script: @escaping ScriptedUpstream.Script,
        _ body: @escaping @Sendable (UpstreamClient, ScriptedUpstream) async throws -> Void
    ) async throws {
        try await ScriptedUpstream.with(script) { upstream in
            let configuration = try UpstreamConfiguration(
                url: "http://127.0.0.1:\(upstream.port)",
                apiKey: Secret(Self.key),
                model: "m-1",
                // The tests do not measure how long a busy machine takes to connect.
                connectTimeout: .seconds(60),
                answerBytes: answerBytes
            )
            try await UpstreamClient.with(configuration, clock: clock) { client in
                try await body(client, upstream)
            }
        }
    }

    /// Returns the error of one call to a server that follows the script.
    private func failure(
        answerBytes: Int = UpstreamConfiguration.defaultAnswerBytes,
        script: @escaping ScriptedUpstream.Script
    ) async throws -> UpstreamError? {
        let found = AsyncStream.makeStream(of: UpstreamError.self)
        try await withClient(answerBytes: answerBytes, script: script) { client, _ in
            do throws(UpstreamError) {
                _ = try await client.complete(Self.prompt)
            } catch {
                found.continuation.yield(error)
            }
        }
        found.continuation.finish()
        return await found.stream.first { _ in true }
    }

    @Test func `an answer has its text and usage`() async throws {
        let usage = #"{"prompt_tokens":12,"completion_tokens":3,"total_tokens":15}"#
        try await withClient {
            _ in
            .bytes(ScriptedUpstream.completion("Not yet.", usage: usage))
        } _: { client, upstream in
            let answer = try await client.complete(Self.prompt)
            #expect(answer.text == "Not yet.")
            #expect(answer.usage == UpstreamUsage(promptTokens: 12, completionTokens: 3))

            let request = try await upstream.arrivals.first("a request")
            #expect(request.head.hasPrefix("POST /v1/chat/completions HTTP/1.1"))
            #expect(request.head.contains("Bearer \(Self.key)"))
            let body = try JSONDecoder().decode(JSONValue.self, from: Data(request.body.utf8))
            #expect(body["model"] == "m-1")
            #expect(body["max_tokens"] == 64)
            #expect(body["stream"] == nil)
            let messages = JSONValue.array([
                ["role": "system", "content": "Be kind."],
                ["role": "user", "content": "Is it late?"],
            ])
            #expect(body["messages"] == messages)
        }
    }

    @Test(arguments: [
        #"{"prompt_tokens":-1,"completion_tokens":3}"#, #"{"prompt_tokens":1}"#,
        #"{"prompt_tokens":1.5,"completion_tokens":3}"#, #""many""#, "null",
        #"{"prompt_tokens":"1","completion_tokens":"3"}"#,
        #"{"prompt_tokens":1,"completion_tokens":9223372036854775807}"#,
    ])
    func `invalid usage is ignored`(usage: String) async throws {
        try await withClient {
            _ in
            .bytes(ScriptedUpstream.completion("Yes.", usage: usage))
        } _: { client, _ in
            let answer = try await client.complete(Self.prompt)
            #expect(answer.text == "Yes.")
            #expect(answer.usage == nil)
        }
    }

    @Test func `an upstream that never responds times out`() async throws {
        let clock = ManualClock()
        try await withClient(clock: clock) {
            _ in
            .bytesThenSilence("")
        } _: { client, upstream in
            let call = Task { try await client.complete(Self.prompt) }
            try await clock.waitForSleepers(1)
            try await upstream.arrivals.first("a request")
            clock.advance(by: .seconds(60))
            await #expect(throws: UpstreamError.timeout(mayHaveBeenSent: true)) {
                try await call.finished()
            }
        }
    }

    @Test func `an answer that stops midway times out`() async throws {
        let clock = ManualClock()
        try await withClient(clock: clock) { request in
            request.number == 1
                ? .bytesThenSilence("HTTP/1.1 200 OK\r\nContent-Length: 90\r\n\r\n{\"choices\"")
                : .bytes(ScriptedUpstream.completion("My own."))
        } _: { client, upstream in
            let call = Task { try await client.complete(Self.prompt) }
            try await clock.waitForSleepers(1)
            try await upstream.arrivals.first("a request")
            clock.advance(by: .seconds(60))
            await #expect(throws: UpstreamError.timeout(mayHaveBeenSent: true)) {
                try await call.finished()
            }
            let answer = try await client.complete(Self.prompt)
            #expect(answer.text == "My own.")
            #expect(upstream.connections == 2)
        }
    }

    @Test(arguments: [
        ("500 Internal Server Error", 500), ("429 Too Many Requests", 429), ("201 Created", 201),
        ("307 Temporary Redirect", 307), ("401 Unauthorized", 401),
    ])
    func `any status but 200 is a refusal`(line: String, status: Int) async throws {
        let refusal = try await failure { _ in
            let headers = "Retry-After: 7\r\nLocation: http://127.0.0.1:1/\r\n"
            let text = "You said: Is it late?"
            return .bytes(ScriptedUpstream.json(text, status: line, headers: headers))
        }
        #expect(refusal?.withoutWords == .refused(status: status, retryAfterSeconds: 7))
    }

    @Test(arguments: [
        "", "HTTP/1.1 200 OK\r\nContent-Length: 90\r\n\r\n{\"choices\"", "garbage\r\n\r\n",
    ])
    func `an upstream that hangs up has failed and may have done the work`(
        bytes: String
    ) async throws {
        let error = try await failure { _ in .bytesThenHangUp(bytes) }
        #expect(error == .failed(mayHaveBeenSent: true))
    }

    @Test(arguments: [
        "<html>", "{}", "[]", #"{"choices":[]}"#, #"{"choices":[{"message":{"content":null}}]}"#,
        "",
    ])
    func `a body that is not a chat completion is unreadable`(body: String) async throws {
        let error = try await failure { _ in .bytes(ScriptedUpstream.json(body)) }
        #expect(error == .unreadable)
    }

    @Test func `an answer with a declared length above the limit is not read`() async throws {
        let error = try await failure { _ in
            let head = "HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n"
            return .bytesThenSilence(head + String(repeating: "x", count: (1 << 20) + 1))
        }
        #expect(error == .tooLarge(limit: 1 << 20))
    }

    @Test func `an answer of undeclared length is cut off at the limit`() async throws {
        let error = try await failure(answerBytes: 4_096) { _ in
            let chunk = "400\r\n" + String(repeating: "x", count: 0x400) + "\r\n"
            let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
            return .bytesThenSilence(head + String(repeating: chunk, count: 8))
        }
        #expect(error == .tooLarge(limit: 4_096))
    }

    @Test func `an unreachable server has certainly not received the request`() async throws {
        let channel = try await ServerBootstrap(group: .singletonMultiThreadedEventLoopGroup)
            .bind(host: "127.0.0.1", port: 0).get()
        let port = try #require(channel.localAddress?.port)
        try await channel.close()
        let configuration = try UpstreamConfiguration(url: "http://127.0.0.1:\(port)", model: "m")
        try await UpstreamClient.with(configuration) { client in
            await #expect(throws: UpstreamError.failed(mayHaveBeenSent: false)) {
                try await client.complete(Self.prompt)
            }
        }
    }

    @Test func `a call after a cancelled one gets its own answer`() async throws {
        try await withClient { request in
            request.number == 1
                ? .bytesThenSilence("HTTP/1.1 200 OK\r\nContent-Length: 90\r\n\r\n{\"choices\"")
                : .bytes(ScriptedUpstream.completion("Answer \(request.number)."))
        } _: { client, upstream in
            let first = Task { try await client.complete(Self.prompt) }
            try await upstream.arrivals.first("a request")
            first.cancel()
            await #expect(throws: UpstreamError.cancelled(mayHaveBeenSent: true)) {
                try await first.finished()
            }
            for number in 2...5 {
                let answer = try await client.complete(Self.prompt)
                #expect(answer.text == "Answer \(number).")
            }
            // The pool may have opened another connection to replace the cancelled one.
            #expect((2...3).contains(upstream.connections))
        }
    }

    @Test func `a connection is reused after a complete answer`() async throws {
        try await withClient {
            .bytes(ScriptedUpstream.completion("Answer \($0.number)."))
        } _: { client, upstream in
            for number in 1...5 {
                let answer = try await client.complete(Self.prompt)
                #expect(answer.text == "Answer \(number).")
            }
            #expect(upstream.connections == 1)
        }
    }

    @Test(arguments: [
        ("http://localhost:8081", "http://localhost:8081/v1/chat/completions"),
        ("http://localhost:8081/", "http://localhost:8081/v1/chat/completions"),
        ("https://a.example/v1", "https://a.example/v1/chat/completions"),
        ("https://a.example/api/v3/", "https://a.example/api/v3/chat/completions"),
        ("https://a.example/o?v=2#x", "https://a.example/o/chat/completions?v=2"),
    ])
    func `the endpoint of completions follows from the URL`(url: String, endpoint: String) throws {
        #expect(try UpstreamConfiguration(url: url, model: "m").endpoint == endpoint)
    }

    @Test(arguments: ["", "localhost:8081", "ftp://a.example", "http://", "http://u:p@a.example"])
    func `an invalid URL is refused`(url: String) {
        #expect(throws: UpstreamConfigurationError.invalidURL) {
            try UpstreamConfiguration(url: url, model: "m")
        }
    }

    @Test func `neither configuration nor errors contain the key`() throws {
        let configuration = try UpstreamConfiguration(
            url: "http://localhost",
            apiKey: Secret(Self.key),
            model: "m"
        )
        var text = ""
        dump(configuration, to: &text)
        text += "\(configuration) \(String(reflecting: configuration))"
        #expect(!text.contains(Self.key))
        #expect(text.contains(Secret.mask))
        #expect(throws: UpstreamConfigurationError.invalidKey) {
            try UpstreamConfiguration(url: "http://a.b", apiKey: Secret("k\r\nX: y"), model: "m")
        }
    }
}
