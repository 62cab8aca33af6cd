import Foundation
import HostileUpstream
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

extension EndToEnd {
    /// `kill -9` of the real server while it streams answers, at moments that a seed chooses.
    @Suite("Streams and kills", .bounded(.seconds(900)))
    struct StreamKillTests {
        /// The number of kills: `KILLS` of the environment, or 10.
        private static let kills = environmentNumber("KILLS", or: 10)
        private static let streams = 6
        private static let grant: Int64 = 1_000_000

        /// One token for each word of the upstream, and none for the prompt.
        private static let configuration = """
            accounts:
              grant: \(grant)
            functions:
              ask:
                kind: upstream
                perMillionInput: 0
                perMillionOutput: 1000000
                maxOutputTokens: 60
            """

        @Test
        func `after kills during streams, every key has one end and every charge is made once`()
            async throws
        {
            try await TemporaryFolder.with { folder in
                let file = folder.appending(path: "sanguine.yaml")
                try Data(Self.configuration.utf8).write(to: file)
                let data = folder.appending(path: "data")
                try await HostileUpstream.with({ _ in .slow(.milliseconds(1)) }) { upstream in
                    var random = SplitMix64(seed: 20_261)
                    var earlier: [String: SeenStream] = [:]
                    var charges: Int64 = 0
                    for round in 0...Self.kills {
                        let arguments = ["--upstream", upstream.url, "--config", file.path]
                        let words = Int.random(in: 0...200, using: &random)
                        let known = earlier
                        (earlier, charges) = try await ServeProcess.with(
                            data: data,
                            arguments: arguments
                        ) { [charges] server in
                            let guest = try await server.api.guest()
                            let sum = try await Self.check(known, server.api, guest) + charges
                            let balance = try await server.api.balance(of: guest)
                            #expect(balance.held == 0, "round \(round)")
                            #expect(balance.available == Self.grant - sum, "round \(round)")
                            guard round < Self.kills else { return ([:], sum) }
                            let seen = try await Self.storm(round, words, server, guest, upstream)
                            return (seen, sum)
                        }
                        let verified = try await Tool.run("ledger", "verify", "--data", data.path)
                        #expect(verified.status == 0, "round \(round): \(verified.output)")
                    }
                    // Only output that was produced is charged.
                    #expect(charges <= Int64(upstream.total.completionTokens))
                    #expect(charges > 0)
                }
            }
        }

        /// Reads streams until the upstream has written the given number of words, then kills the
        /// server.
        private static func storm(
            _ round: Int,
            _ words: Int,
            _ server: ServeProcess,
            _ guest: API.Guest,
            _ upstream: HostileUpstream
        ) async throws -> [String: SeenStream] {
            let before = upstream.total.completionTokens
            return try await withThrowingTaskGroup(of: (String, SeenStream).self) { group in
                for number in 0..<streams {
                    let key = "stream-\(round)-\(number)"
                    group.addTask { (key, try await read(key, server.api, guest)) }
                }
                try await upstream.state.when("the upstream has written \(words) words") { state in
                    let all = state.invoice.values.reduce(0) { $0 + $1.completionTokens }
                    return all - before >= words
                }
                server.tool.signal(SIGKILL)
                var seen: [String: SeenStream] = [:]
                for try await (key, stream) in group { seen[key] = stream }
                #expect(try await server.tool.ended().status == -SIGKILL)
                return seen
            }
        }

        /// Reads a stream until it ends or breaks.
        private static func read(
            _ key: String,
            _ api: API,
            _ guest: API.Guest
        ) async throws -> SeenStream {
            var seen = SeenStream()
            let question = "id=\(key) words=50"
            let request = try api.streamed("ask", question, key: key, as: guest)
            await api.read(request, into: &seen)
            seen.cut()
            return seen
        }

        /// Reads the streams again, and returns the sum of their charges.
        private static func check(
            _ earlier: [String: SeenStream],
            _ api: API,
            _ guest: API.Guest
        ) async throws -> Int64 {
            var sum: Int64 = 0
            for (key, before) in earlier {
                var after = SeenStream()
                let status = await api.read(api.streamed(key: key, as: guest), into: &after)
                guard status == 200 else {
                    // The call was never accepted or never sent, so a repetition is a new call.
                    #expect(status == 404, "\(key)")
                    #expect(before.events.isEmpty, "\(key)")
                    continue
                }
                #expect(after.ends == 1, "\(key): \(after.text)")
                #expect(after.ids == after.events.indices.map { "\($0)" }, "\(key)")
                let parts = min(before.parts, after.parts)
                #expect(before.events.prefix(parts) == after.events.prefix(parts), "\(key)")
                if before.ends > 0 { #expect(before == after, "\(key)") }
                let charged = after.charged
                #expect(charged >= Int64(after.parts), "\(key)")
                #expect(charged <= 60, "\(key)")
                sum += charged
            }
            return sum
        }
    }
}
