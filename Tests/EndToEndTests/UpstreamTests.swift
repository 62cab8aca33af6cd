import AsyncHTTPClient
import Foundation
import SanguineAuthority
import SanguineModel
import SanguineServer
import SanguineTesting
import TestSupport
import Testing

extension EndToEnd {
    /// Upstreams and callers that misbehave, seen on the wire (traps 26 and 31).
    @Suite("Upstream", .bounded(.seconds(120)))
    struct UpstreamTests {
        /// What an upstream does, and what the caller must see of it.
        struct Misdeed: Sendable, CustomTestStringConvertible {
            let testDescription: String
            let reply: ScriptedUpstream.Reply
            let status: Int
            var code: ProblemCode?
            var charged: Int64 = 0
        }

        private static let half = "HTTP/1.1 200 OK\r\nContent-Length: 90\r\n\r\n{\"choices\""
        private static let nonsense = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"

        private static func usage(_ prompt: String, _ completion: String) -> String {
            #"{"prompt_tokens":\#(prompt),"completion_tokens":\#(completion)}"#
        }

        // A short question to `ask` holds 5; an answer of 5 bytes costs 1 by its length.
        static let misdeeds = [
            Misdeed(testDescription: "is honest", reply: .answer("Sure."), status: 200, charged: 3),
            Misdeed(
                testDescription: "never answers",
                reply: .silence,
                status: 504,
                code: .upstreamTimeout
            ),
            Misdeed(
                testDescription: "fails",
                reply: .status(500),
                status: 502,
                code: .upstreamFailed
            ),
            Misdeed(
                testDescription: "has enough of us",
                reply: .status(429),
                status: 502,
                code: .upstreamFailed
            ),
            Misdeed(
                testDescription: "hangs up at once",
                reply: .bytesThenHangUp(""),
                status: 502,
                code: .upstreamFailed
            ),
            Misdeed(
                testDescription: "hangs up half-way",
                reply: .bytesThenHangUp(half),
                status: 502,
                code: .upstreamFailed
            ),
            Misdeed(
                testDescription: "talks nonsense",
                reply: .bytesThenHangUp(nonsense),
                status: 502,
                code: .upstreamFailed
            ),
            Misdeed(
                testDescription: "claims to have used a billion tokens",
                reply: .answer("Sure.", usage: usage("1000000000", "1000000000")),
                status: 200,
                charged: 5
            ),
            Misdeed(
                testDescription: "claims to have used less than nothing",
                reply: .answer("Sure.", usage: usage("-5", "-5")),
                status: 200,
                charged: 1
            ),
            Misdeed(
                testDescription: "claims to have used nothing",
                reply: .answer("Sure.", usage: usage("0", "0")),
                status: 200,
                charged: 1
            ),
            Misdeed(
                testDescription: "does not say what it has used",
                reply: .answer("Sure.", usage: nil),
                status: 200,
                charged: 1
            ),
        ]

        private static func settings(upstream url: String) -> ServerSettings {
            var settings = ServerSettings()
            settings.upstream.url = url
            settings.upstream.timeout = .milliseconds(500)
            return settings
        }

        @Test(arguments: misdeeds)
        func `a call is settled by what the upstream did, once`(misdeed: Misdeed) async throws {
            try await ScriptedUpstream.with { _ in
                misdeed.reply
            } _: { upstream in
                try await LocalServer.with(settings: Self.settings(upstream: upstream.url)) {
                    server in
                    let api = server.api
                    let guest = try await api.guest()
                    let answer = try await api.ask("Is it late?", key: "a-key", as: guest)
                    #expect(answer.status == misdeed.status)
                    #expect(answer.code == misdeed.code)
                    #expect(!answer.isReplayed)
                    let balance = try await api.balance(of: guest)
                    #expect(balance.available == 100 - misdeed.charged)
                    #expect(balance.held == 0)
                    #expect(answer.header("Sanguine-Head") == "\(balance.head)")
                    if misdeed.status == 200 {
                        let result = try answer.decode(FunctionResult<String>.self)
                        #expect(result.output == "Sure.")
                        #expect(result.charged == misdeed.charged)
                        #expect(result.tokensRemaining == balance.available)
                        #expect(result.head == balance.head)
                    }
                    let replay = try await api.ask("Is it late?", key: "a-key", as: guest)
                    #expect(replay.status == answer.status)
                    #expect(replay.body == answer.body)
                    #expect(replay.isReplayed)
                    #expect(upstream.requests.value.count == 1)
                    let ledger = try await api.ledger(of: guest)
                    #expect(ledger.map(\.amount).reduce(0, +) == balance.available)
                    #expect(ledger.contains { $0.kind == .hold && $0.amount == -5 })
                    #expect(try await server.audit().differences.isEmpty)
                }
            }
        }

        @Test func `an upstream that is not there costs nothing`() async throws {
            try await LocalServer.with(settings: Self.settings(upstream: "http://127.0.0.1:1")) {
                server in
                let guest = try await server.api.guest()
                let answer = try await server.api.ask("Hello?", key: "a-key", as: guest)
                #expect(answer.status == 502)
                #expect(answer.code == .upstreamFailed)
                let balance = try await server.api.balance(of: guest)
                #expect(balance.available == 100)
                #expect(balance.held == 0)
            }
        }

        @Test func `calls at once are taken up to what their holds can cost`() async throws {
            let gate = Gate()
            try await ScriptedUpstream.with { _ in
                await gate.wait()
                return .answer("Sure.")
            } _: { upstream in
                var settings = ServerSettings()
                settings.upstream.url = upstream.url
                try await LocalServer.with(settings: settings) { server in
                    let api = server.api
                    let guest = try await api.guest()
                    let refused = Watched(0)
                    async let answers = concurrently(25) { number in
                        let answer = try await api.ask("Is it late?", key: "\(number)", as: guest)
                        if answer.status == 402 { refused.update { $0 += 1 } }
                        return answer
                    }
                    try await upstream.requests.when { $0.count == 20 }
                    try await refused.when { $0 == 5 }
                    let full = try await api.balance(of: guest)
                    #expect(full.available == 0)
                    #expect(full.held == 100)
                    gate.open()
                    let all = try await answers
                    #expect(all.count { $0.status == 200 } == 20)
                    let problems = try all.filter { $0.status != 200 }
                        .map { try $0.decode(Problem.self) }
                    #expect(problems.allSatisfy { $0.code == .insufficientTokens })
                    #expect(problems.allSatisfy { $0.required == 5 && $0.available ?? 5 < 5 })
                    let balance = try await api.balance(of: guest)
                    #expect(balance.available == 100 - 20 * 3)
                    #expect(balance.held == 0)
                }
            }
        }

        @Test func `a caller who hangs up is charged for what the upstream makes`() async throws {
            let gate = Gate()
            try await ScriptedUpstream.with { _ in
                await gate.wait()
                return .answer("Sure.")
            } _: { upstream in
                var settings = ServerSettings()
                settings.upstream.url = upstream.url
                try await LocalServer.with(settings: settings) { server in
                    let api = server.api
                    let guest = try await api.guest()
                    let call = Task { try await api.ask("Is it late?", key: "a-key", as: guest) }
                    try await upstream.requests.when { $0.count == 1 }
                    call.cancel()
                    let error = await #expect(throws: (any Error).self) {
                        try await call.finished()
                    }
                    #expect(!(error is VainWait))
                    let held = try await api.balance(of: guest)
                    #expect(held.available == 95)
                    #expect(held.held == 5)

                    gate.open()
                    let end = try await api.end {
                        try await api.ask("Is it late?", key: "a-key", as: guest)
                    }
                    #expect(end.status == 200)
                    #expect(end.isReplayed)
                    #expect(try end.decode(FunctionResult<String>.self).charged == 3)
                    let settled = try await api.balance(of: guest)
                    #expect(settled.available == 97)
                    #expect(settled.held == 0)
                    #expect(upstream.requests.value.count == 1)
                }
            }
        }

        @Test func `an answer that comes too late reaches nobody`() async throws {
            let late = Gate()
            try await ScriptedUpstream.with { request in
                if request.question == "first" { await late.wait() }
                return .answer("to \(request.question)")
            } _: { upstream in
                try await LocalServer.with(settings: Self.settings(upstream: upstream.url)) {
                    server in
                    let api = server.api
                    let guest = try await api.guest()
                    let first = try await api.ask("first", key: "first", as: guest)
                    #expect(first.code == .upstreamTimeout)
                    late.open()
                    for number in 0..<20 {
                        let question = "question \(number)"
                        let answer = try await api.ask(question, key: "q\(number)", as: guest)
                        let output = try answer.decode(FunctionResult<String>.self).output
                        #expect(output == "to \(question)")
                    }
                    let again = try await api.ask("first", key: "first", as: guest)
                    #expect(again.body == first.body)
                }
            }
        }

        /// For the whole process: to shut it down is not what is tested.
        private static let sixteenConnections = HTTPClient(
            eventLoopGroupProvider: .singleton,
            configuration: API.configuration(connections: 16)
        )

        @Test(arguments: [5, 6] as [UInt64])
        func `cancelled calls leave no reply for the next user of a connection`(
            seed: UInt64
        )
            async throws
        {
            let gate = Gate()
            try await ScriptedUpstream.with { request in
                await gate.wait()
                return .answer("to \(request.question)")
            } _: { upstream in
                var settings = ServerSettings()
                settings.upstream.url = upstream.url
                settings.accounts.grant = 10_000
                try await LocalServer.with(settings: settings) { server in
                    let guest = try await server.api.guest()
                    let api = API(port: server.port, http: Self.sixteenConnections)
                    var random = SplitMix64(seed: seed)
                    let calls = (0..<16).map { number in
                        Task { try await api.ask("early \(number)", key: "e\(number)", as: guest) }
                    }
                    try await upstream.requests.when { $0.count == 16 }
                    let given = Set((0..<16).shuffled(using: &random).prefix(8))
                    for number in given { calls[number].cancel() }
                    gate.open()
                    let later = try await concurrently(64) { number in
                        try await api.ask("later \(number)", key: "l\(number)", as: guest)
                            .decode(FunctionResult<String>.self).output
                    }
                    #expect(later == (0..<64).map { "to later \($0)" })
                    for number in 0..<16 where !given.contains(number) {
                        let output = try await calls[number].finished()
                            .decode(FunctionResult<String>.self).output
                        #expect(output == "to early \(number)")
                    }
                }
            }
        }
    }
}
