import AsyncHTTPClient
import Foundation
import NIOHTTP1
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

extension EndToEnd {
    /// SIGTERM while calls run that do not end.
    @Suite("Bounded shutdown", .bounded(.seconds(120)))
    struct StopTests {
        /// The longest time that a stop may take after the grace period of 2 seconds.
        ///
        /// The last responses have 2 seconds to be written, the upstream's connections 5 seconds to
        /// be closed, and the log one second.
        private static let bound = Duration.seconds(2 + 2 + 5 + 1)

        private static let environment = [
            "SANGUINE_LOG_ACCESS": "false", "SANGUINE_LIMITS_SHUTDOWN_GRACE": "2s",
            "SANGUINE_LIMITS_FUNCTION_CALLS": "4000", "SANGUINE_ACCOUNTS_GRANT": "100000",
        ]

        /// Stops the server, and returns its result and the time it took.
        private static func stop(_ server: ServeProcess) async throws -> (Tool.Ended, Duration) {
            let clock = ContinuousClock()
            let start = clock.now
            let ended = try await server.stop()
            return (ended, start.duration(to: clock.now))
        }

        /// The number of concurrent calls: `STOP_CALLS`, or 1,000 by default.
        ///
        /// With a sanitizer, a machine cannot respond to so many in time.
        private static let manyCalls =
            ProcessInfo.processInfo.environment["STOP_CALLS"].flatMap { Int($0) } ?? 1_000

        @Test(arguments: [1, manyCalls])
        func `calls to an upstream that hangs get a response, and each key gets an end`(
            calls: Int
        ) async throws {
            try await API.withClient(connections: calls) { http in
                try await TemporaryFolder.with { data in
                    try await Self.stopAndRepeat(calls, data, http)
                    let verified = try await Tool.run("ledger", "verify", "--data", data.path)
                    #expect(verified.status == 0, "\(verified.output)")
                }
            }
        }

        private static func stopAndRepeat(
            _ calls: Int,
            _ data: URL,
            _ http: HTTPClient
        ) async throws {
            let isHanging = Watched(true)
            try await ScriptedUpstream.with { _ in
                isHanging.value ? .silence : .answer("Sure.")
            } _: { upstream in
                let arguments = ["--upstream", upstream.url]
                try await ServeProcess.with(
                    data: data,
                    arguments: arguments,
                    environment: Self.environment
                ) { server in
                    try await Self.stopWithCalls(calls, server, upstream, http)
                }
                isHanging.update { $0 = false }
                let verified = try await Tool.run("ledger", "verify", "--data", data.path)
                #expect(verified.status == 0, "\(verified.output)")
                try await ServeProcess.with(
                    data: data,
                    arguments: arguments,
                    environment: Self.environment
                ) { server in
                    try await Self.repeatCalls(calls, server)
                    #expect(try await server.stop().status == 0)
                }
                // Each call reached the upstream once before the stop, and once after it.
                #expect(upstream.requests.value.count == 2 * calls)
            }
        }

        private static func guest(_ number: Int, _ api: API) async throws -> API.Guest {
            try await api.guest("a-device-of-guest-\(number % 10)")
        }

        private static func stopWithCalls(
            _ calls: Int,
            _ server: ServeProcess,
            _ upstream: ScriptedUpstream,
            _ http: HTTPClient
        ) async throws {
            let api = API(port: server.port, http: http)
            let guests = try await concurrently(10) { try await guest($0, api) }
            async let answers = concurrently(calls) { number in
                try await api.ask("Is it late?", key: "\(number)", as: guests[number % 10])
            }
            try await upstream.requests.reach(calls, "calls at the upstream") { $0.count }
            let (ended, time) = try await stop(server)
            #expect(ended.status == 0, "\(ended.errors)")
            #expect(time < Self.bound, "It took \(time).")
            for answer in try await answers {
                #expect(answer.status == 409)
                #expect(answer.code == .operationInProgress)
                #expect(answer.header("Retry-After") == "1")
            }
        }

        private static func repeatCalls(_ calls: Int, _ server: ServeProcess) async throws {
            let guests = try await concurrently(10) { try await guest($0, server.api) }
            let answers = try await concurrently(calls) { number in
                try await server.api.ask("Is it late?", key: "\(number)", as: guests[number % 10])
            }
            // Each call was cut and cost nothing, so it runs again under its key.
            var codes: [String: Int] = [:]
            for answer in answers { codes[answer.code?.rawValue ?? "none", default: 0] += 1 }
            #expect(codes == ["none": calls])
            for (place, guest) in guests.enumerated() {
                let own = answers.enumerated().filter { $0.offset % 10 == place }
                let charged = try own.map {
                    try $0.element.decode(FunctionResult<String>.self).charged
                }
                let balance = try await server.api.balance(of: guest)
                #expect(balance.available == 100_000 - charged.reduce(0, +))
                #expect(balance.held == 0)
            }
        }

        @Test func `requests that never end are cut after the grace period, and the status is 0`()
            async throws
        {
            try await TemporaryFolder.with { data in
                try await ServeProcess.with(data: data, environment: Self.environment) { server in
                    let half = try await PlainConnection.open(server.port)
                    try await half.askIfAlive()
                    try await half.send(
                        """
                        POST /v1/accounts/guest HTTP/1.1\r\nHost: a\r\n\
                        Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{
                        """
                    )
                    let guest = try await server.api.guest()
                    let live = try await PlainConnection.open(server.port)
                    try await live.send(
                        """
                        GET /v1/live HTTP/1.1\r\nHost: a\r\n\
                        Authorization: Bearer \(guest.token)\r\n\r\n
                        """
                    )
                    let (ended, time) = try await Self.stop(server)
                    #expect(ended.status == 0, "\(ended.errors)")
                    #expect(time < Self.bound, "It took \(time).")
                }
            }
        }

        @Test func `a stopped stand-in does not wait for a delayed answer`()
            async throws
        {
            let arguments = ["stand-in", "--port", "0", "--latency-ms", "600000"]
            try await Tool.with(arguments) { standIn in
                let port = try await standIn.listeningPort()
                let body = #"{"model":"any","messages":[{"role":"user","content":"Late?"}]}"#
                let asked = try await PlainConnection.open(port)
                try await asked.send(
                    """
                    POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\n\
                    Content-Length: \(body.utf8.count)\r\n\r\n\(body)
                    """
                )
                #expect(try await API(port: port).send(.GET, "/v1/models").status == 200)
                standIn.signal(SIGTERM)
                #expect(try await standIn.ended().status == 0)
                await asked.close()
            }
        }
    }
}
