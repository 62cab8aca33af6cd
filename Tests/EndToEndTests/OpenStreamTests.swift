import AsyncHTTPClient
import Foundation
import HostileUpstream
import NIOCore
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

extension EndToEnd {
    /// Concurrent streams, 128 per core, together with readers that read nothing.
    @Suite("Open streams", .bounded(.seconds(180)))
    struct OpenStreamTests {
        private static let open = 128 * ProcessInfo.processInfo.activeProcessorCount
        private static let stalled = 4
        private static let guests = 4
        private static let words = 40
        /// More than the buffers of a connection hold.
        private static let manyWords = 20_000
        /// The memory that the server may gain between two rounds.
        private static let slack = 32 << 20

        private static let configuration = """
            accounts:
              grant: 1000000
            functions:
              ask:
                kind: upstream
                price: 1
                maxOutputTokens: 100000
            """

        /// Limits for these streams and the stalled readers, with little to spare.
        ///
        /// An address may use half of the calls, runs and readers.
        private static var environment: [String: String] {
            [
                "SANGUINE_LOG_ACCESS": "false", "SANGUINE_LIMITS_QUEUED_CALLS": "0",
                "SANGUINE_LIMITS_FUNCTION_CALLS": "\(2 * (open + stalled + 2))",
            ]
        }

        @Test func `all streams get whole answers despite stalled readers, and free their memory`()
            async throws
        {
            let http = HTTPClient(
                eventLoopGroupProvider: .singleton,
                configuration: API.configuration(connections: Self.open + 16)
            )
            do {
                try await TemporaryFolder.with { folder in
                    let file = folder.appending(path: "sanguine.yaml")
                    try Data(Self.configuration.utf8).write(to: file)
                    try await HostileUpstream.with { upstream in
                        try await ServeProcess.with(
                            data: folder.appending(path: "data"),
                            arguments: ["--upstream", upstream.url, "--config", file.path],
                            environment: Self.environment
                        ) { server in
                            try await Self.check(server, upstream, http)
                        }
                    }
                }
            } catch {
                try? await http.shutdown()
                throw error
            }
            try await http.shutdown()
        }

        private static func check(
            _ server: ServeProcess,
            _ upstream: HostileUpstream,
            _ http: HTTPClient
        ) async throws {
            let api = API(port: server.port, http: http)
            let guests = try await concurrently(Self.guests) { number in
                try await api.guest("a-device-of-guest-\(number)")
            }
            // The second round fits only if the first one has released its calls and readers.
            var memory: [Double] = []
            for round in 1...3 {
                try await openAll(round, server, api, guests, upstream)
                try await eventually("no call is running", within: TestingLimits.longestWait) {
                    try await server.metric("function_calls_running") == 0
                }
                memory.append(try #require(await server.metric("process_resident_memory_bytes")))
            }
            #expect(memory[2] < memory[1] + Double(slack), "\(memory)")
            let mebibytes = memory.map { Int($0) >> 20 }
            print(
                "open streams: \(open) at once and \(stalled) stalled; MiB after: \(mebibytes)"
            )
        }

        private static func openAll(
            _ round: Int,
            _ server: ServeProcess,
            _ api: API,
            _ guests: [API.Guest],
            _ upstream: HostileUpstream
        ) async throws {
            let (long, begun) = ("long-\(round)", Watched(0))
            // One reader reads all of the stream, and the others read nothing.
            async let whole = read(long, "words=\(manyWords)", api, guests[0], begun)
            try await begun.when("the long stream") { $0 == 1 }
            let unread = try await concurrently(stalled) { _ in
                try await stall(long, server.port, guests[0])
            }
            async let all = concurrently(open) { number in
                let id = "open-\(round)-\(number)"
                let question = "words=\(words) ahead=4"
                return try await read(id, question, api, guests[number % Self.guests], begun) {
                    upstream.acknowledge($0.parts, of: id)
                }
            }
            try await begun.reach(open + 1, "open streams") { $0 }
            #expect(try await whole.parts == manyWords)
            for seen in try await all { #expect(seen.parts == words && seen.ends == 1) }
            for connection in unread { await connection.close() }
        }

        /// Reads a stream to its end, but reads past its first part only once all streams have
        /// theirs.
        private static func read(
            _ id: String,
            _ question: String,
            _ api: API,
            _ guest: API.Guest,
            _ begun: Watched<Int>,
            onPart: @Sendable (SeenStream) -> Void = { _ in }
        ) async throws -> SeenStream {
            let request = try api.streamed("ask", "id=\(id) \(question)", key: id, as: guest)
            var seen = SeenStream()
            let hasBegun = Watched(false)
            let status = await api.read(request, into: &seen) { seen in
                guard seen.parts > 0 else { return true }
                if !hasBegun.value {
                    hasBegun.update { $0 = true }
                    begun.update { $0 += 1 }
                    if id.hasPrefix("open") {
                        try? await begun.reach(open + 1, "open streams") { $0 }
                    }
                }
                onPart(seen)
                return true
            }
            #expect(status == 200 && seen.ends == 1, "\(id)")
            #expect(seen.end?["output"]?.string == seen.answer, "\(id)")
            return seen
        }

        /// Requests a stream and never reads it.
        private static func stall(
            _ key: String,
            _ port: Int,
            _ guest: API.Guest
        ) async throws -> PlainConnection {
            let reader = try await PlainConnection.open(port, reads: false)
            try await reader.send(
                """
                GET /v1/calls/\(key) HTTP/1.1\r\nHost: a\r\nAccept: text/event-stream\r\n\
                Authorization: Bearer \(guest.token)\r\n\r\n
                """
            )
            return reader
        }
    }
}
