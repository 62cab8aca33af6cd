import Foundation
import SanguineAuthority
import SanguineModel
import SanguineServer
import SanguineTesting
import TestSupport
import Testing

extension EndToEnd {
    /// `kill -9` of the real server, at moments that a seed chooses.
    @Suite("Crashes", .bounded(.seconds(300)))
    struct CrashTests {
        private static let accounts = 4
        private static let grant: Int64 = 100_000
        private static let environment = [
            "SANGUINE_LOG_ACCESS": "false", "SANGUINE_ACCOUNTS_GRANT": "\(grant)",
        ]

        /// A spend.
        ///
        /// Its number determines everything else, so that it can be sent again.
        private struct Spend: Hashable, Sendable {
            let round: Int
            let number: Int
            var key: String { "spend-\(round)-\(number)" }
            var account: Int { number % CrashTests.accounts }
            var amount: Int64 { Int64(1 + number % 3) }
        }

        private static func guests(_ api: API) async throws -> [API.Guest] {
            try await concurrently(accounts) { try await api.guest("a-device-that-survives-\($0)") }
        }

        @Test(arguments: [11, 12] as [UInt64])
        func `a server killed during many spends loses none and repeats none`(
            seed: UInt64
        ) async throws {
            try await TemporaryFolder.with { data in
                var random = SplitMix64(seed: seed)
                var answered: [Spend: API.Answer] = [:]
                var all: [Spend] = []
                for round in 0..<3 {
                    let spends = (0..<240).map { Spend(round: round, number: $0) }
                    let limit = Int.random(in: 5...200, using: &random)
                    let storm = try await Self.storm(spends, data: data, killAfter: limit)
                    #expect(storm.count >= limit)
                    all += spends
                    answered.merge(storm) { first, _ in first }
                    let verified = try await Tool.run("ledger", "verify", "--data", data.path)
                    #expect(verified.status == 0, "After the kill: \(verified.output)")
                }
                try await Self.expectNothingLost(all, answered, data: data)
            }
        }

        /// Sends all spends at once, and kills the server after the given number of responses.
        private static func storm(
            _ spends: [Spend],
            data: URL,
            killAfter limit: Int
        ) async throws -> [Spend: API.Answer] {
            try await ServeProcess.with(data: data, environment: environment) { server in
                let guests = try await guests(server.api)
                let answered = Watched<[Spend: API.Answer]>([:])
                await withTaskGroup(of: Void.self) { group in
                    for spend in spends {
                        group.addTask {
                            // A spend without a response was cut off by the kill.
                            guard let answer = try? await send(spend, guests, server.api)
                            else { return }
                            let count = answered.update { answered in
                                answered[spend] = answer
                                return answered.count
                            }
                            if count == limit { server.tool.signal(SIGKILL) }
                        }
                    }
                }
                #expect(try await server.tool.ended().status == -SIGKILL)
                return answered.value
            }
        }

        private static func send(
            _ spend: Spend,
            _ guests: [API.Guest],
            _ api: API
        ) async throws -> API.Answer {
            try await api.spend(spend.amount, spend.key, key: spend.key, as: guests[spend.account])
        }

        private static func expectNothingLost(
            _ all: [Spend],
            _ answered: [Spend: API.Answer],
            data: URL
        ) async throws {
            try await ServeProcess.with(data: data, environment: environment) { server in
                let guests = try await guests(server.api)
                let replays = try await concurrently(all.count) { number in
                    try await send(all[number], guests, server.api)
                }
                for (spend, replay) in zip(all, replays) {
                    #expect(replay.status == 200)
                    guard let first = answered[spend] else { continue }
                    #expect(first.status == 200)
                    #expect(replay.isReplayed, "\(spend.key) was answered and then lost.")
                    #expect(replay.body == first.body)
                }
                for (number, guest) in guests.enumerated() {
                    let mine = all.filter { $0.account == number }
                    let balance = try await server.api.balance(of: guest)
                    let ledger = try await server.api.ledger(of: guest)
                    #expect(balance.available == grant - mine.map(\.amount).reduce(0, +))
                    #expect(ledger.map(\.amount).reduce(0, +) == balance.available)
                    let reasons = ledger.dropFirst().map(\.reason)
                    #expect(reasons.sorted() == mine.map(\.key).sorted())
                }
                let beside = try await Tool.run("ledger", "verify", "--data", data.path)
                #expect(beside.status == 0, "With the server running: \(beside.output)")
                #expect(try await server.stop().status == 0)
            }
            let report = try await Tool.run("ledger", "verify", "--json", "--data", data.path)
            #expect(report.status == 0)
            #expect(report.output.contains(#""differences":[]"#))
            #expect(report.output.contains(#""transfers":\#(all.count + accounts)"#))
        }

        @Test
        func `after a kill during a call, a sent call is charged and an unsent one is free`()
            async throws
        {
            try await TemporaryFolder.with { data in
                try await ScriptedUpstream.with { _ in
                    .silence
                } _: { upstream in
                    try await Self.killInMidCall(data: data, upstream: upstream)
                    try await Self.expectCharged(data: data, upstream: upstream)
                }
            }
        }

        private static let question = "Is anybody there?"

        private static func killInMidCall(data: URL, upstream: ScriptedUpstream) async throws {
            let arguments = ["--upstream", upstream.url]
            try await ServeProcess.with(data: data, arguments: arguments) { server in
                let api = server.api
                let guest = try await api.guest()
                await withTaskGroup(of: ProblemCode?.self) { group in
                    group.addTask {
                        _ = try? await api.ask(question, key: "sent", as: guest)
                        return nil
                    }
                    for _ in 0..<2 {
                        group.addTask {
                            let answer = try? await api.echo(
                                "…",
                                delayMs: 60_000,
                                key: "unsent",
                                as: guest
                            )
                            return answer?.code
                        }
                    }
                    // One of the two is refused because the other one runs, so that one was
                    // accepted.
                    #expect(await group.next() == .operationInProgress)
                    try? await upstream.requests.when { !$0.isEmpty }
                    server.tool.signal(SIGKILL)
                    await group.waitForAll()
                }
                #expect(try await server.tool.ended().status == -SIGKILL)
            }
        }

        /// Starts a server on the data, with clocks that advance only when told to.
        private static func expectCharged(data: URL, upstream: ScriptedUpstream) async throws {
            let clock = ManualWallClock(SystemWallClock().now())
            let delay = ManualClock()
            var settings = ServerSettings()
            settings.upstream.url = upstream.url
            try await LocalServer.with(
                folder: data,
                settings: settings,
                clock: clock,
                delay: delay
            ) { server in
                let api = server.api
                let guest = try await api.guest()
                try await delay.waitForSleepers(1)
                let charged = try await api.balance(of: guest)
                #expect(charged.held == 0, "The start of the server ends both calls.")
                #expect(charged.available == 95, "Only the sent call is charged.")

                // The unsent call may be repeated under the same key.
                async let again = api.echo("…", delayMs: 60_000, key: "unsent", as: guest)
                try await delay.waitForSleepers(2)
                delay.advance(by: .seconds(60))
                let echoed = try await again
                #expect(echoed.status == 200)
                #expect(!echoed.isReplayed)

                let ended = try await api.ask(question, key: "sent", as: guest)
                #expect(ended.status == 502)
                #expect(ended.code == .interrupted)
                #expect(ended.isReplayed)
                let replay = try await api.ask(question, key: "sent", as: guest)
                #expect(replay.body == ended.body)

                let balance = try await api.balance(of: guest)
                #expect(balance.available == 95 - 1)
                #expect(balance.held == 0)
                #expect(upstream.requests.value.count == 1, "The call was sent exactly once.")
                #expect(try await server.audit().differences.isEmpty)
            }
        }
    }
}
