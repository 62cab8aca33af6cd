import AsyncHTTPClient
import Foundation
import NIOHTTP1
import SanguineAuthority
import SanguineModel
import SanguineServer
import SanguineTesting
import TestSupport
import Testing

extension EndToEnd {
    /// A thousand concurrent calls over a thousand connections (traps 25, 27).
    @Suite("A thousand calls at once", .bounded(.seconds(120)))
    struct CrowdTests {
        private static let crowd = 1_000

        /// A function whose answers are cached per account.
        ///
        /// Each call pays one token.
        private static let function = FunctionSetting(
            name: "once",
            kind: .upstream,
            rules: FunctionRules(price: .fixed(1), cache: .forever, payer: .each, streams: false),
            inputs: [InputMember("question")],
            prompt: "{{question}}"
        )

        private static func ask(
            _ number: Int,
            _ api: API,
            _ guest: API.Guest
        ) async throws -> API.Answer {
            try await api.send(
                .POST,
                "/v1/functions/once",
                token: guest.token,
                key: "call-\(number)",
                json: FunctionRequest(input: ["question": "Is it late?"])
            )
        }

        @Test func `a balance for a hundred calls pays exactly a hundred of a thousand`()
            async throws
        {
            try await LocalServer.with { server in
                try await API.withClient(connections: Self.crowd + 10) { http in
                    let api = API(port: server.port, http: http)
                    let guest = try await api.guest()
                    let answers = try await concurrently(Self.crowd) { number in
                        try await api.echo("\(number)", key: "call-\(number)", as: guest)
                    }
                    #expect(answers.count { $0.status == 200 } == 100)
                    #expect(answers.count { $0.code == .insufficientTokens } == 900)
                    let balance = try await api.balance(of: guest)
                    #expect((balance.available, balance.held) == (0, 0))
                    #expect(try await server.audit().differences.isEmpty)
                }
            }
        }

        @Test func `identical calls share one upstream call, even if the first client disconnects`()
            async throws
        {
            let gate = Gate()
            try await ScriptedUpstream.with { _ in
                await gate.wait()
                return .answer("Sure.")
            } _: { upstream in
                var settings = ServerSettings()
                settings.accounts.grant = 10_000
                settings.upstream.url = upstream.url
                settings.functions.append(Self.function)
                try await LocalServer.with(settings: settings) { server in
                    try await API.withClient(connections: Self.crowd + 10) { http in
                        let api = API(port: server.port, http: http)
                        let guest = try await api.guest()
                        let first = Task { try await Self.ask(0, api, guest) }
                        try await upstream.requests.when("the first call at the upstream") {
                            $0.count == 1
                        }
                        let others = Task {
                            try await concurrently(Self.crowd - 1) { number in
                                try await Self.ask(number + 1, api, guest)
                            }
                        }
                        try await eventually("a hold for each call", within: .seconds(60)) {
                            try await server.api.balance(of: guest).held == Int64(Self.crowd)
                        }
                        first.cancel()
                        let error = await #expect(throws: (any Error).self) {
                            try await first.finished()
                        }
                        #expect(!(error is WaitTimeout))
                        gate.open()
                        let answers = try await others.finished("the rest", within: .seconds(60))
                        let outputs = try answers.map {
                            try $0.decode(FunctionResult<String>.self).output
                        }
                        #expect(outputs == Array(repeating: "Sure.", count: Self.crowd - 1))
                        #expect(upstream.requests.value.count == 1)
                        // The first call ran to its end, and its answer is stored.
                        let again = try await api.end { try await Self.ask(0, api, guest) }
                        #expect(again.header("Idempotency-Replayed") == "true")
                        let balance = try await api.balance(of: guest)
                        #expect((balance.available, balance.held) == (9_000, 0))
                        #expect(try await server.audit().differences.isEmpty)
                    }
                }
            }
        }
    }
}
