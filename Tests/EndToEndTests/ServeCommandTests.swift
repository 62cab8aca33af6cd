import Foundation
import NIOHTTP1
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

extension EndToEnd {
    /// `sanguine serve` and `sanguine stand-in` as an operator sees them.
    @Suite("Server commands", .bounded(.seconds(120)))
    struct ServeCommandTests {
        @Test func `a stopped server finishes its running calls and exits with 0`()
            async throws
        {
            let gate = Gate()
            try await TemporaryFolder.with { data in
                try await ScriptedUpstream.with { _ in
                    await gate.wait()
                    return .answer("Sure.")
                } _: { upstream in
                    let arguments = ["--upstream", upstream.url, "--log-level", "debug"]
                    try await ServeProcess.with(data: data, arguments: arguments) { server in
                        let guest = try await server.api.guest()
                        async let answer = server.api.ask("Is it late?", key: "a", as: guest)
                        try await upstream.requests.when { $0.count == 1 }
                        server.tool.signal(SIGTERM)
                        try await server.tool.errors.when { $0.text.contains("Signal caught") }
                        gate.open()
                        let result = try await answer.decode(FunctionResult<String>.self)
                        #expect(result.output == "Sure.")
                        #expect(result.tokensRemaining == 97)
                        #expect(try await server.tool.ended().status == 0)
                    }
                }
                let shown = try await Tool.run(
                    "account",
                    "show",
                    "--json",
                    "--data",
                    data.path,
                    "--device",
                    "a-device-of-a-guest"
                )
                #expect(try shown.decode(JSONValue.self)["available"] == 97)
                #expect(try shown.decode(JSONValue.self)["held"] == 0)
            }
        }

        @Test func `standard output has only the address, and the log is elsewhere`()
            async throws
        {
            try await TemporaryFolder.with { data in
                let environment = ["SANGUINE_LOG_LEVEL": "info"]
                try await ServeProcess.with(data: data, environment: environment) { server in
                    _ = try await server.api.guest()
                    let ended = try await server.stop()
                    #expect(ended.status == 0)
                    #expect(ended.output == "listening on http://127.0.0.1:\(server.port)\n")
                    #expect(ended.errors.contains("/v1/accounts/guest"))
                    #expect(!ended.errors.contains("a-device-of-a-guest"))
                }
            }
        }

        @Test func `an unread log blocks neither requests nor the stop`() async throws {
            try await TemporaryFolder.with { data in
                let environment = ["SANGUINE_LOG_LEVEL": "debug"]
                try await ServeProcess.with(
                    data: data,
                    environment: environment,
                    errors: .stalled
                ) { server in
                    let guest = try await server.api.guest()
                    for _ in 1...150 {
                        #expect(try await server.api.balance(of: guest).available == 100)
                    }
                    let clock = ContinuousClock()
                    let start = clock.now
                    #expect(try await server.stop().status == 0)
                    // The log has a second, and the stop takes the rest.
                    #expect(start.duration(to: clock.now) < .seconds(10))
                }
            }
        }

        @Test func `unread log lines are dropped, counted and reported once the log is read`()
            async throws
        {
            try await TemporaryFolder.with { data in
                let environment = ["SANGUINE_LOG_LEVEL": "debug"]
                try await ServeProcess.with(
                    data: data,
                    environment: environment,
                    errors: .stalled
                ) { server in
                    // An entry counts as one KiB of the 7 MiB available to access entries.
                    for _ in 1...10 {
                        let answers = try await concurrently(1_000) { _ in
                            try await server.api.send(.GET, "/health/live").status
                        }
                        #expect(answers.allSatisfy { $0 == 200 })
                    }
                    #expect(try await server.metric("log_dropped_lines_total") ?? 0 > 0.0)
                    server.tool.readErrors()
                    try await server.tool.errors.when("the line about dropped lines") {
                        $0.text.contains("\"type\":\"linesDropped\",\"count\":")
                    }
                    #expect(try await server.stop().status == 0)
                }
            }
        }

        @Test func `a second server on the same data is refused with the reason`() async throws {
            try await TemporaryFolder.with { data in
                try await ServeProcess.with(data: data) { server in
                    let second = try await Tool.run("serve", "--data", data.path, "--port", "0")
                    #expect(second.status == 1)
                    #expect(second.output.isEmpty)
                    #expect(second.errors.contains("in use by process \(server.tool.process)"))
                    #expect(try await server.api.send(.GET, "/health/ready").status == 200)
                    #expect(try await server.stop().status == 0)
                }
            }
        }

        @Test func `the stand-in prints its address, answers consistently and exits with 0`()
            async throws
        {
            try await Tool.with(["stand-in", "--port", "0"]) { standIn in
                let api = API(port: try await standIn.listeningPort())
                let question: JSONValue = [
                    "model": "any",
                    "messages": .array([["role": "user", "content": "Is it late?"]]),
                ]
                let answers = try await concurrently(2) { _ in
                    try await api.send(.POST, "/v1/chat/completions", json: question)
                        .decode(JSONValue.self)
                }
                #expect(answers[0]["choices"] == answers[1]["choices"])
                #expect(answers[0]["usage"]?["completion_tokens"]?.integer ?? 0 > 0)
                standIn.signal(SIGTERM)
                #expect(try await standIn.ended().status == 0)
            }
        }

        @Test func `the configuration comes from flags, then environment, then file`()
            async throws
        {
            try await TemporaryFolder.with { folder in
                let file = folder.appending(path: "sanguine.yaml")
                let text = """
                    http:
                      port: 1111
                    accounts:
                      grant: 7
                      unit: coins
                    quotas:
                      walks: 2
                    """
                try Data(text.utf8).write(to: file)
                let environment = [
                    "SANGUINE_HTTP_PORT": "2222", "SANGUINE_ACCOUNTS_GRANT": "8",
                    "SANGUINE_UPSTREAM_KEY": "sk-do-not-tell",
                ]
                let printed = try await Tool.run(
                    "config",
                    "--json",
                    "--config",
                    file.path,
                    "--port",
                    "3333",
                    environment: environment
                )
                #expect(printed.status == 0)
                #expect(!printed.output.contains("sk-do-not-tell"))
                struct Line: Decodable { var key, value, source: String }
                let lines = try printed.decode([Line].self)
                func expect(_ key: String, _ value: String, _ source: String) {
                    let line = lines.first { $0.key == key }
                    #expect(line?.value == value)
                    #expect(line?.source == source)
                }
                expect("http.port", "3333", "flag --port")
                expect("accounts.grant", "8", "environment SANGUINE_ACCOUNTS_GRANT")
                expect("accounts.unit", "coins", "file \(file.path)")
                expect("quotas.walks", "2", "file \(file.path)")
                expect("log.level", "info", "default")

                try Data("accounts:\n  grnat: 7\n".utf8).write(to: file)
                let mistyped = try await Tool.run("config", "--config", file.path)
                #expect(mistyped.status == 1)
                #expect(mistyped.errors.contains("accounts.grant"))
            }
        }
    }
}
