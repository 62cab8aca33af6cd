import Foundation
import Sanguine
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

extension EndToEnd {
    /// Switches of a real server, set by the command, and the apps that receive them.
    @Suite("Switches", .bounded(.seconds(120)))
    struct SwitchLifeTests {
        /// Runs `sanguine switches` for a server.
        private static func switches(
            _ command: [String],
            of server: ServeProcess,
            in data: URL
        ) async throws -> Tool.Ended {
            let options = ["--data", data.path, "--admin-port", "\(server.adminPort)"]
            return try await Tool.with(["switches"] + command + options) { try await $0.ended() }
        }

        /// Returns how many requests two reads of the account cause.
        private static func requests(
            _ client: SanguineClient,
            _ network: RecordedNetwork
        ) async throws -> Int {
            func count() -> Int {
                network.requests.count { $0.method == "GET" && $0.url.path() == "/v1/account" }
            }
            let before = count()
            for _ in 1...2 { _ = try await client.value(of: .account) }
            return count() - before
        }

        @Test func `a switch set by the command changes the policy of a running client`()
            async throws
        {
            try await TemporaryFolder.with { root in
                let data = root.appending(path: "data")
                let file = root.appending(path: "switches.json")
                try Data(#"{"queries": {"$account": {"freshness": 0}}}"#.utf8).write(to: file)
                try await ServeProcess.with(data: data) { server in
                    let network = RecordedNetwork()
                    var configuration = SanguineClient.Configuration.of(port: server.port)
                    configuration.transport = network
                    let client = try SanguineClient(configuration)
                    defer { client.close() }
                    let following = client.observe(.balance) { _ in }
                    _ = try await client.value(of: .account)
                    #expect(try await Self.requests(client, network) == 0)

                    let command = ["set", file.path, "--reason", "stale accounts"]
                    let set = try await Self.switches(command, of: server, in: data)
                    #expect(set.status == 0, "\(set.errors)")
                    #expect(set.output.hasPrefix("revision  1, "))
                    #expect(set.output.contains("query $account: freshness 0 s\n"))
                    try await eventually("the switch in the running client") {
                        client.matrix()["$account"]?.switched == ["freshness"]
                    }
                    #expect(client.matrix()["$account"]?.client.fresh == "never")
                    #expect(try await Self.requests(client, network) == 2)

                    let clear = ["clear", "--reason", "a new release"]
                    let cleared = try await Self.switches(clear, of: server, in: data)
                    #expect(cleared.status == 0, "\(cleared.errors)")
                    try await eventually("the declared policy in the running client") {
                        client.matrix().switches == nil
                    }
                    #expect(try await Self.requests(client, network) == 0)
                    withExtendedLifetime(following) {}
                }
            }
        }

        @Test func `a client that was not running receives the switch when it starts`()
            async throws
        {
            try await TemporaryFolder.with { root in
                let data = root.appending(path: "data")
                let phone = root.appending(path: "phone")
                let file = root.appending(path: "switches.json")
                try Data(#"{"functions": {"ask": {"timeout": 120}}}"#.utf8).write(to: file)
                try await ServeProcess.with(data: data) { server in
                    let first = try SanguineClient(.of(port: server.port, folder: phone))
                    _ = try await first.value(of: .balance)
                    try await first.waitUntilIdle()
                    first.close()
                    let command = ["set", file.path, "--reason", "slow answers"]
                    let set = try await Self.switches(command, of: server, in: data)
                    #expect(set.status == 0, "\(set.errors)")
                    let second = try SanguineClient(.of(port: server.port, folder: phone))
                    defer { second.close() }
                    let following = second.observe(.balance) { _ in }
                    try await eventually("the switch in the new client") {
                        second.matrix().switches == ["function ask: timeout 120 s"]
                    }
                    withExtendedLifetime(following) {}
                }
            }
        }

        @Test func `switches stay on the device, also after a sign-out, as their cells say`()
            async throws
        {
            try await TemporaryFolder.with { root in
                let data = root.appending(path: "data")
                let phone = root.appending(path: "phone")
                let file = root.appending(path: "switches.json")
                try Data(#"{"functions": {"ask": {"timeout": 120}}}"#.utf8).write(to: file)
                let lines = ["function ask: timeout 120 s"]
                try await ServeProcess.with(data: data) { server in
                    let command = ["set", file.path, "--reason", "slow answers"]
                    let set = try await Self.switches(command, of: server, in: data)
                    #expect(set.status == 0, "\(set.errors)")
                    let first = try SanguineClient(.of(port: server.port, folder: phone))
                    let following = first.observe(.balance) { _ in }
                    try await eventually("the switches") { first.matrix().switches == lines }
                    try await first.waitUntilIdle()
                    withExtendedLifetime(following) {}
                    first.close()

                    let network = RecordedNetwork()
                    network.disconnect()
                    var configuration = SanguineClient.Configuration.of(
                        port: server.port,
                        folder: phone
                    )
                    configuration.transport = network
                    let second = try SanguineClient(configuration)
                    defer { second.close() }
                    let matrix = try PrintedMatrix(second.matrix())
                    #expect(try matrix.cell("$config", "tier") == "onDisk")
                    #expect(second.matrix().switches == lines)
                    #expect(try matrix.cell("$config", "client for") == "device")
                    await second.signOut()
                    #expect(second.matrix().switches == lines)
                }
            }
        }

        @Test func `switches that another administrator has replaced since are not undone`()
            async throws
        {
            try await TemporaryFolder.with { root in
                let data = root.appending(path: "data")
                let file = root.appending(path: "switches.json")
                let plain = root.appending(path: "plain.json")
                try Data(#"{"functions": {"ask": {"timeout": 120}}}"#.utf8).write(to: plain)
                try await ServeProcess.with(data: data) { server in
                    func set(_ file: URL) async throws -> Tool.Ended {
                        let command = ["set", file.path, "--reason", "slow answers"]
                        return try await Self.switches(command, of: server, in: data)
                    }
                    let read = try await Self.switches(["show", "--json"], of: server, in: data)
                    try Data(read.output.utf8).write(to: file)
                    #expect(try await set(plain).status == 0)

                    let late = try await set(file)
                    #expect(late.status == 1 && late.output.isEmpty)
                    #expect(late.errors.contains("revision 0, but the server has revision 1"))
                    #expect(late.errors.contains("switches show --json"))
                    let again = try await Self.switches(["show", "--json"], of: server, in: data)
                    try Data(again.output.utf8).write(to: file)
                    let repeated = try await set(file)
                    #expect(repeated.status == 0, "\(repeated.errors)")
                    #expect(repeated.output.hasPrefix("revision  2, "))
                    #expect(repeated.output.contains("function ask: timeout 120 s\n"))
                }
            }
        }

        @Test func `switches are sent with the tag of those that they replace`() async throws {
            try await TemporaryFolder.with { data in
                try Data("secret".utf8).write(to: data.appending(path: "admin-token"))
                let read = #"{"revision":4,"switches":{}}"#
                let answer = """
                    HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nETag: "four"\r\n\
                    Connection: close\r\nContent-Length: \(read.utf8.count)\r\n\r\n\(read)
                    """
                try await ScriptedUpstream.with { request in
                    request.head.hasPrefix("GET ") ? .bytesThenHangUp(answer) : .status(412)
                } _: { server in
                    let command = ["switches", "clear", "--reason", "a release"]
                    let options = ["--data", data.path, "--admin-port", "\(server.port)"]
                    let ended = try await Tool.with(command + options) { try await $0.ended() }
                    #expect(ended.status == 1 && ended.output.isEmpty)
                    #expect(ended.errors.contains("Another administrator has just replaced"))
                    #expect(ended.errors.contains("switches show --json"))
                    let heads = server.requests.value.map(\.head)
                    #expect(heads.count == 2)
                    #expect(heads.last?.contains("If-Match: \"four\"") == true)
                }
            }
        }

        @Test func `switches of unknown functions, and files that are no JSON, change nothing`()
            async throws
        {
            try await TemporaryFolder.with { root in
                let data = root.appending(path: "data")
                let file = root.appending(path: "switches.json")
                try await ServeProcess.with(data: data) { server in
                    for text in [#"{"functions": {"aks": {"timeout": 120}}}"#, "{"] {
                        try Data(text.utf8).write(to: file)
                        let command = ["set", file.path, "--reason", "a typing error"]
                        let set = try await Self.switches(command, of: server, in: data)
                        #expect(set.status == 1 && set.output.isEmpty)
                        #expect(set.errors.contains("ask") || set.errors.contains("JSON"))
                    }
                    let shown = try await Self.switches(["show"], of: server, in: data)
                    #expect(shown.output == "revision  0\n", "\(shown.errors)")
                }
            }
        }
    }
}
