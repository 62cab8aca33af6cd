import Foundation
import NIOHTTP1
import SanguineServer
import SanguineTesting
import TestSupport
import Testing

extension EndToEnd {
    /// The real server with a low limit of open files.
    @Suite("Few file descriptors", .bounded(.seconds(120)))
    struct DescriptorTests {
        private static let warning = "Fewer connections than 'limits.connections' are accepted"

        @Test func `with a limit of 1,024 files the server works and logs the reduced limit once`()
            async throws
        {
            try await TemporaryFolder.with { data in
                let shell = #"ulimit -n 1024; exec "$@""#
                try await ServeProcess.with(data: data, shell: shell) { server in
                    let guest = try await server.api.guest()
                    #expect(try await server.api.balance(of: guest).available == 100)
                    let ended = try await server.stop()
                    #expect(ended.status == 0)
                    #expect(ended.errors.ranges(of: Self.warning).count == 1)
                    let connections = 1_024 - Descriptors.reserve
                    #expect(ended.errors.contains("\"connections\":\"\(connections)\""))
                }
            }
        }

        @Test func `with all connections in use, health checks, metrics and shutdown still work`()
            async throws
        {
            try await TemporaryFolder.with { data in
                let shell = "ulimit -n \(Descriptors.reserve + 64); exec \"$@\""
                try await ServeProcess.with(data: data, shell: shell) { server in
                    // 64 connections are served, and an address may use half of them. The others
                    // wait.
                    var held: [PlainConnection] = []
                    for address in 2...6 {
                        for _ in 1...32 {
                            held.append(try await .open(server.port, from: address))
                        }
                    }
                    for connection in held.prefix(64) { try await connection.askIfAlive() }
                    try await held[159].send("GET /health/live HTTP/1.1\r\nHost: a\r\n\r\n")

                    #expect(try await server.admin.send(.GET, "/health/live").status == 200)
                    #expect(try await server.admin.send(.GET, "/health/ready").status == 200)
                    let files = try #require(try await server.metric("process_open_fds"))
                    #expect(files < Double(Descriptors.reserve + 64))
                    #expect(try await server.metric("accept_failures_total") ?? 0 == 0.0)
                    try await held[0].askIfAlive()
                    try await held[63].askIfAlive()

                    // A waiting connection is served when others close.
                    for connection in held.prefix(128) { await connection.close() }
                    try await held[159].answered()
                    try await held[128].askIfAlive()

                    let ended = try await server.stop()
                    #expect(ended.status == 0)
                    #expect(ended.errors.ranges(of: Self.warning).count == 1)
                    #expect(ended.errors.contains("\"connections\":\"64\""))
                }
            }
        }

        #if os(Linux)
        @Test func `a lack of descriptors is logged once, and connections wait for one`()
            async throws
        {
            try await TemporaryFolder.with { data in
                try await ServeProcess.with(data: data) { server in
                    let first = try await PlainConnection.open(server.port)
                    try await first.askIfAlive()
                    let used = try await server.metric("process_open_fds") ?? 0
                    try Self.limit(server.tool.process, to: Int(used))
                    var held: [PlainConnection] = []
                    for _ in 1...16 { held.append(try await .open(server.port)) }
                    for connection in held {
                        try await connection.send("GET /health/live HTTP/1.1\r\nHost: a\r\n\r\n")
                    }
                    let reported = "Connections cannot be accepted"
                    try await server.tool.errors.when { $0.text.contains(reported) }
                    try await first.askIfAlive()

                    try Self.limit(server.tool.process, to: 1_024)
                    for connection in held { try await connection.answered() }
                    #expect(try await server.metric("accept_failures_total") ?? 0 > 0.0)
                    let ended = try await server.stop()
                    #expect(ended.status == 0)
                    #expect(ended.errors.ranges(of: reported).count == 1)
                }
            }
        }

        /// Changes the soft limit of a running process.
        private static func limit(_ number: Int32, to count: Int) throws {
            guard Shell.succeeds("prlimit --pid \(number) --nofile=\(count):") else {
                throw Unexpected("The limit could not be changed.")
            }
        }
        #endif

        @Test func `with too low a limit the server does not start and names the required number`()
            async throws
        {
            try await TemporaryFolder.with { data in
                let ended = try await Tool.with(
                    ["serve", "--data", data.path, "--port", "0"],
                    shell: #"ulimit -n 128; exec "$@""#
                ) { try await $0.ended() }
                #expect(ended.status == 1)
                #expect(ended.output.isEmpty)
                #expect(ended.errors.contains("\(Descriptors.reserve + 16) or more"))
            }
        }
    }
}
