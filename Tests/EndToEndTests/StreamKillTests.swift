import AsyncHTTPClient
import Foundation
import HostileUpstream
import NIOCore
import NIOHTTP1
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

extension EndToEnd {
    /// `kill -9` of the real server while it streams answers, at moments that a seed chooses.
    @Suite("Streams and deaths", .bounded(.seconds(900)))
    struct StreamKillTests {
        /// Deaths that are played: `KILLS` of the environment, or 10.
        private static let kills = environmentNumber("KILLS", or: 10)
        private static let streams = 6
        private static let grant: Int64 = 1_000_000

        /// A token for each of the upstream's words, and none for the prompt.
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

        /// What a reader has of a stream: its events by their ids, and its end.
        private struct Seen: Hashable, Sendable {
            var events: [String] = []
            var ends = 0

            var charged: Int64? {
                guard let data = events.last?.firstRange(of: "data: ") else { return nil }
                let text = events[events.count - 1][data.upperBound...]
                let json = try? JSONDecoder().decode(JSONValue.self, from: Data(text.utf8))
                return json?["charged"]?.integer ?? 0
            }

            init(_ text: String) {
                for block in text.components(separatedBy: "\n\n").dropLast()
                where !block.hasPrefix(":") {
                    events.append(block)
                    if block.contains("\nevent: result") || block.contains("\nevent: problem") {
                        ends += 1
                    }
                }
            }
        }

        @Test func `killed in mid-stream, every key has one end, and every charge is made once`()
            async throws
        {
            try await TemporaryFolder.with { folder in
                let file = folder.appending(path: "sanguine.yaml")
                try Data(Self.configuration.utf8).write(to: file)
                let data = folder.appending(path: "data")
                try await HostileUpstream.with({ _ in .slow(.milliseconds(1)) }) { upstream in
                    var random = SplitMix64(seed: 20_261)
                    var earlier: [String: Seen] = [:]
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
                    // What was charged was made, and what was billed in full was charged.
                    #expect(charges <= Int64(upstream.total.completionTokens))
                    #expect(charges > 0)
                }
            }
        }

        /// Reads streams until the upstream has written so many words more; then the server dies.
        private static func storm(
            _ round: Int,
            _ words: Int,
            _ server: ServeProcess,
            _ guest: API.Guest,
            _ upstream: HostileUpstream
        ) async throws -> [String: Seen] {
            let before = upstream.total.completionTokens
            return try await withThrowingTaskGroup(of: (String, Seen).self) { group in
                for number in 0..<streams {
                    let key = "stream-\(round)-\(number)"
                    group.addTask { (key, await read(key, server.api, guest)) }
                }
                try await upstream.state.when("the upstream has written \(words) words") { state in
                    let all = state.invoice.values.reduce(0) { $0 + $1.completionTokens }
                    return all - before >= words
                }
                server.tool.signal(SIGKILL)
                var seen: [String: Seen] = [:]
                for try await (key, stream) in group { seen[key] = stream }
                #expect(try await server.tool.ended().status == -SIGKILL)
                return seen
            }
        }

        /// Reads a stream until it ends or breaks.
        private static func read(_ key: String, _ api: API, _ guest: API.Guest) async -> Seen {
            var request = HTTPClientRequest(url: api.base + "/v1/functions/ask")
            request.method = .POST
            request.headers.add(name: "Authorization", value: "Bearer \(guest.token)")
            request.headers.add(name: "Idempotency-Key", value: key)
            request.headers.add(name: "Accept", value: "text/event-stream")
            request.headers.add(name: "Content-Type", value: "application/json")
            let body = #"{"input":{"question":"id=\#(key) words=50"}}"#
            request.body = .bytes(ByteBuffer(string: body))
            var text = ""
            do {
                let response = try await api.http.execute(request, timeout: .seconds(30))
                // The server's death is the bound.
                for try await part in response.body {  // tidy: allow unbounded-wait: see above.
                    text += String(buffer: part)
                }
            } catch {
                // The server has died.
            }
            return Seen(text)
        }

        /// Finds the streams again, and returns what they were charged.
        private static func check(
            _ earlier: [String: Seen],
            _ api: API,
            _ guest: API.Guest
        ) async throws -> Int64 {
            var sum: Int64 = 0
            for (key, before) in earlier {
                let answer = try await api.send(
                    .GET,
                    "/v1/calls/\(key)",
                    token: guest.token,
                    headers: [("Accept", "text/event-stream")]
                )
                guard answer.status == 200 else {
                    // It was never accepted, or never left: whoever asks again makes a new call.
                    #expect(answer.status == 404, "\(key)")
                    #expect(before.events.isEmpty, "\(key)")
                    continue
                }
                let after = Seen(answer.text)
                #expect(after.ends == 1, "\(key): \(answer.text)")
                let ids = after.events.map { String($0.prefix { $0 != "\n" }) }
                #expect(ids == after.events.indices.map { "id: \($0)" }, "\(key)")
                let parts = min(before.events.count - before.ends, after.events.count - 1)
                #expect(before.events.prefix(parts) == after.events.prefix(parts), "\(key)")
                if before.ends > 0 { #expect(before == after, "\(key)") }
                let charged = try #require(after.charged)
                #expect(charged >= Int64(after.events.count - 1), "\(key)")
                #expect(charged <= 60, "\(key)")
                sum += charged
            }
            return sum
        }
    }
}
