import AsyncHTTPClient
import Foundation
import SanguineAuthority
import SanguineModel
import SanguineServer
import SanguineTesting
import TestSupport
import Testing

extension EndToEnd {
    /// Upstreams that are unreachable or late, and callers that disconnect (traps 26 and 31).
    @Suite("Upstream", .bounded(.seconds(120)))
    struct UpstreamTests {
        private static func settings(upstream url: String) -> ServerSettings {
            var settings = ServerSettings()
            settings.upstream.url = url
            settings.upstream.timeout = .milliseconds(500)
            return settings
        }

        @Test func `an unreachable upstream costs nothing`() async throws {
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

        @Test func `concurrent calls are accepted up to what their holds can cost`() async throws {
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
                    try await upstream.requests.reach(20, "calls at the upstream") { $0.count }
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

        @Test func `a caller that disconnects is charged for the upstream's output`() async throws {
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
                    #expect(!(error is WaitTimeout))
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

        @Test func `a late answer does not reach another call`() async throws {
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
                    // The call cost nothing, so it runs again under its key and gets its own
                    // answer.
                    let output = try again.decode(FunctionResult<String>.self).output
                    #expect(output == "to first")
                }
            }
        }

        /// Shared by the whole process, because the tests do not cover shutting it down.
        private static let sixteenConnections = HTTPClient(
            eventLoopGroupProvider: .singleton,
            configuration: API.configuration(connections: 16)
        )

        @Test(arguments: [5, 6] as [UInt64])
        func `cancelled calls leave no response for the next user of a connection`(
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
                    try await upstream.requests.reach(16, "calls at the upstream") { $0.count }
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
