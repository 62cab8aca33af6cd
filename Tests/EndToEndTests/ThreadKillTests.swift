import Foundation
import HostileUpstream
import Sanguine
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

extension EndToEnd {
    /// `kill -9` of the real server and of real clients during calls in threads, at moments that a
    /// seed chooses.
    ///
    /// `KILLS=200 SEED=7 swift test --filter ThreadKillTests` plays 200 moments of another seed.
    @Suite("Threads and kills", .bounded(.seconds(1_800)))
    struct ThreadKillTests {
        /// The number of kills: `KILLS` of the environment, or 8.
        private static let kills = environmentNumber("KILLS", or: 8)
        private static let seed: UInt64 = environmentNumber("SEED", or: 20_265)

        @Test
        func `after kills of server and clients, each charge has one message on each device`()
            async throws
        {
            try await TemporaryFolder.with { folder in
                do {
                    try await Self.expectMessagesOfCharges(in: folder)
                } catch {
                    throw Unexpected("SEED=\(Self.seed) KILLS=\(Self.kills): \(error)")
                }
            }
        }

        private static func expectMessagesOfCharges(in folder: URL) async throws {
            try FileManager.default.createDirectory(
                at: folder,
                withIntermediateDirectories: true
            )
            try await HostileUpstream.with({ request in
                request.id.hasPrefix("failing")
                    ? .refuses(status: 400) : .slow(.milliseconds(5))
            }) { upstream in
                var game = try await ThreadKillGame(in: folder, seed: seed, upstream: upstream)
                for kill in 1...max(1, kills) {
                    try await game.kill()
                    try await verify(game.data, "after kill \(kill)")
                }
                try await expectHoldsEnded(game)
                try await expectNothingLost(&game)
                try await verify(game.data, "at the end")
            }
        }

        private static func verify(_ data: URL, _ moment: String) async throws {
            let verified = try await Tool.run("ledger", "verify", "--data", data.path)
            #expect(verified.status == 0, "SEED=\(seed), \(moment): \(verified.output)")
        }

        /// Checks that the expiry of all holds has ended all messages.
        private static func expectHoldsEnded(_ game: ThreadKillGame) async throws {
            let clock = ManualWallClock(SystemWallClock().now())
            clock.advance(by: .seconds(3_600))
            let identity = game.device(0)
            try await LocalServer.with(folder: game.data, clock: clock) { server in
                let guest = try await server.api.guest(of: identity)
                try await eventually(
                    "the holds of lost calls have expired",
                    within: TestingLimits.longestWait
                ) {
                    try await server.api.balance(of: guest).held == 0
                }
                let found = try await ServerThreads(of: guest, server.api)
                let faults = found.faults(grant: ThreadKillGame.grant)
                #expect(faults.isEmpty, "SEED=\(seed), after all holds: \(faults)")
            }
        }

        /// Repeats all calls, and compares the devices with the server.
        private static func expectNothingLost(_ game: inout ThreadKillGame) async throws {
            let cut = game.calls.count { $0.answer == nil }
            let killed = game.asked.count { !$0.isAnswered }
            print(
                """
                Seed \(seed): \(kills) kills, \(game.kills[.server] ?? 0) of the server, cut \
                \(cut) of \(game.calls.count) calls and \(killed) of \(game.asked.count) commands.
                """
            )
            #expect(cut + killed > 0, "SEED=\(seed): no call was cut off.")
            let played = game
            game = try await played.withServer { server in
                var game = played
                let differences = try await game.repeatAll(on: server)
                #expect(differences.isEmpty, "SEED=\(seed): \(differences.prefix(10))")
                let guest = try await server.api.guest(of: game.device(0))
                let found = try await ServerThreads(of: guest, server.api)
                let faults = found.faults(grant: ThreadKillGame.grant)
                #expect(faults.isEmpty, "SEED=\(seed), at the end: \(faults.prefix(10))")
                check(game, found)
                // The last one is a new device.
                for number in 0...ThreadKillGame.devices {
                    try await check(game.device(number), number, server.port, found)
                }
                #expect(try await server.stop().status == 0)
                return game
            }
        }

        /// Checks that each answer that arrived is in its thread, as it arrived.
        private static func check(_ game: ThreadKillGame, _ found: ServerThreads) {
            let calls = found.calls
            for (call, answer) in game.calls {
                guard let answer, let message = calls[call.key]?.last else {
                    Issue.record("SEED=\(seed): '\(call.question)' has no message.")
                    continue
                }
                let (state, charged) = (message.state, message.charged)
                #expect(charged == answer.charged, "SEED=\(seed): \(call.question)")
                #expect((state == .complete) == (answer.status == 200), "\(call): \(state)")
                #expect(message.thread == RecordID(call.thread), "SEED=\(seed): \(call.question)")
                // A server that died during such a call does not know that it failed.
                if call.kind == .failing { #expect(state != .complete, "\(call)") }
                if state == .failed { #expect(charged == 0, "\(call)") }
                if call.kind == .free { #expect(charged == 0) }
            }
            let questions = Dictionary(grouping: found.all.filter { $0.role == .user }, by: \.text)
            for asked in game.asked {
                let messages = questions[asked.question] ?? []
                #expect(messages.count <= 1, "SEED=\(seed): '\(asked.question)' was stored twice.")
                guard asked.isAnswered else { continue }
                let answer = messages.first?.call.flatMap { calls[$0]?.last }
                #expect(answer?.state == .complete, "SEED=\(seed): '\(asked.question)' is lost.")
            }
        }

        /// Checks that a device, whose processes were killed, shows what the server has.
        private static func check(
            _ folder: URL,
            _ number: Int,
            _ port: Int,
            _ found: ServerThreads
        ) async throws {
            let client = try SanguineClient(.of(port: port, folder: folder))
            defer { client.close() }
            do {
                try await eventually(
                    "device \(number) shows the threads of the server",
                    within: TestingLimits.longestWait
                ) {
                    _ = try await client.refresh(.balance)
                    try await client.synchronize()
                    return difference(client, found) == nil
                }
            } catch {
                let difference = difference(client, found) ?? "\(error)"
                Issue.record("SEED=\(seed), device \(number): \(difference)")
            }
        }

        /// Returns how a device's threads differ from the server's; `nil` if they are the same.
        private static func difference(
            _ client: SanguineClient,
            _ found: ServerThreads
        ) -> String? {
            let newest = found.threads.values.sorted {
                ($1.lastMessageAt, $1.id) < ($0.lastMessageAt, $0.id)
            }
            let shown = client.threads.list()
            if shown != newest { return "\(shown.count) threads, and not \(newest.count)" }
            let limit = MessageLimits.window
            for thread in newest {
                let kept = (found.messages[thread.id] ?? []).suffix(limit)
                let shown = client.threads.messages(of: thread.id, limit: limit)
                let records = shown.map(\.record)
                for (record, message) in zip(records, kept) where record != message {
                    return "\(record), and not \(message)"
                }
                if records.count != kept.count {
                    return "\(records.count) messages of a thread, and not \(kept.count)"
                }
            }
            return nil
        }
    }
}
