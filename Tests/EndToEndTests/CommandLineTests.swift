import Foundation
import GRDB
import NIOHTTP1
import SanguineModel
import TestSupport
import Testing

extension EndToEnd {
    /// Other parts of the command line: the terminal client, support, wrong usage, the
    /// demonstration.
    @Suite("Command line", .bounded(.seconds(120)))
    struct CommandLineTests {
        @Test func `the terminal client works online and shows its last values offline`()
            async throws
        {
            try await TemporaryFolder.with { folder in
                let data = folder.appending(path: "data")
                let phone = folder.appending(path: "phone").path
                let port = try await Tool.with(["stand-in", "--port", "0"]) { standIn in
                    let upstream = "http://127.0.0.1:\(try await standIn.listeningPort())"
                    let arguments = ["--upstream", upstream]
                    return try await ServeProcess.with(data: data, arguments: arguments) { server in
                        try await Self.useOnline(phone, port: server.port)
                        #expect(try await server.stop().status == 0)
                        return server.port
                    }
                }
                try await Self.useOffline(phone, folder.appending(path: "new").path, port: port)
            }
        }

        private static func run(
            _ command: String...,
            folder: String,
            port: Int
        ) async throws -> Tool.Ended {
            let options = ["--folder", folder, "--server", "http://127.0.0.1:\(port)"]
            return try await Tool.with(command + options) { try await $0.ended() }
        }

        private static func useOnline(_ phone: String, port: Int) async throws {
            let asked = try await run("ask", "Is it late?", "--json", folder: phone, port: port)
            #expect(asked.status == 0, "\(asked.errors)")
            let answer = try asked.decode(JSONValue.self)
            let charged = try #require(answer["charged"]?.integer)
            #expect(charged > 0)
            #expect(answer["output"]?.string?.contains("Is it late") == true)
            #expect(answer["tokensRemaining"]?.integer == 100 - charged)

            let printed = try await run("ask", "Is it late?", folder: phone, port: port)
            #expect(printed.status == 0)
            #expect(printed.output == "\(answer["output"]?.string ?? "")\n")
            #expect(printed.errors == "\(charged) charged, \(100 - 2 * charged) left\n")

            let balance = try await run("balance", "--json", folder: phone, port: port)
                .decode(JSONValue.self)
            #expect(balance["available"]?.integer == 100 - 2 * charged)
            #expect(balance["held"] == 0)
            #expect(balance["unit"] == "tokens")
            #expect(balance["error"] == nil)
            let plain = try await run("balance", folder: phone, port: port)
            #expect(plain.output == "\(100 - 2 * charged) tokens\n")

            let quota = try await run("quota", "--json", folder: phone, port: port)
            let readings = try #require(try quota.decode([Quota].self).first)
            #expect(readings.name == "readings")
            #expect(readings.remaining == 3)
        }

        private static func useOffline(_ phone: String, _ new: String, port: Int) async throws {
            // A device without data and one with data.
            async let nothing = run("balance", folder: new, port: port)
            let balance = try await run("balance", "--json", folder: phone, port: port)
            #expect(balance.status == 0)
            let shown = try balance.decode(JSONValue.self)
            #expect(shown["available"]?.integer ?? 0 > 0)
            #expect(shown["ageSeconds"]?.integer ?? -1 >= 0)
            #expect(shown["error"] == "offline")
            #expect(try await nothing.status == 1)
            #expect(try await nothing.output.isEmpty)
            #expect(try await nothing.errors.contains("cannot be reached"))

            async let asked = run("ask", "Is it late?", "--json", folder: new, port: port)
            let quota = try await run("quota", "--json", folder: phone, port: port)
            #expect(quota.status == 0)
            #expect(try quota.decode([Quota].self).first?.remaining == 3)
            #expect(quota.errors.hasPrefix("As of "))
            #expect(try await asked.status == 1)
            #expect(try await asked.output.isEmpty)
            #expect(try await asked.errors.contains("cannot be reached"))
        }

        @Test func `support finds an account by its id and by its device`() async throws {
            try await TemporaryFolder.with { data in
                let guest = try await LocalServer.with(folder: data) { server in
                    let guest = try await server.api.guest("the-device-of-a-customer")
                    _ = try await server.api.spend(4, "tea", key: "a", as: guest)
                    return guest
                }
                let names = [
                    ["--id", guest.account.description], ["--device", "the-device-of-a-customer"],
                ]
                for name in names {
                    let command = ["account", "show", "--json", "--data", data.path] + name
                    let shown = try await Tool.with(command) { try await $0.ended() }
                    #expect(shown.status == 0, "\(shown.errors)")
                    let account = try shown.decode(JSONValue.self)
                    #expect(account["account"]?["id"]?.string == guest.account.description)
                    #expect(account["available"] == 96 && account["logins"] == .array([]))
                    guard case .array(let ledger) = account["ledger"] else {
                        throw Unexpected("The ledger is missing: \(shown.output)")
                    }
                    #expect(ledger.first?["reason"] == "tea")
                    #expect(!shown.output.contains("AAAA"), "A secret is shown.")
                }
                let unknown = try await Tool.run(
                    "account",
                    "show",
                    "--data",
                    data.path,
                    "--device",
                    "nobody-has-this-one"
                )
                #expect(unknown.status == 1)
                #expect(unknown.output.isEmpty)
            }
        }

        @Test func `a balance that differs from the sum of its entries is found`() async throws {
            try await TemporaryFolder.with { data in
                let guests = try await LocalServer.with(folder: data) { server in
                    try await concurrently(2) {
                        try await server.api.guest("a-device-with-books-\($0)")
                    }
                }
                let clean = try await Tool.run("ledger", "verify", "--data", data.path)
                #expect(clean.status == 0)

                let victim = guests[1].account
                let path = data.appending(path: "sanguine.sqlite").path
                let queue = try DatabaseQueue(path: path)
                try await queue.write { database in
                    try database.execute(
                        sql: "UPDATE balances SET available = available + 1 WHERE account = ?",
                        arguments: [Data(victim.bytes)]
                    )
                }
                try queue.close()

                let found = try await Tool.run("ledger", "verify", "--data", data.path)
                #expect(found.status == 1)
                #expect(found.output.contains("\(victim): "))
                #expect(!found.output.contains("\(guests[0].account)"))
                let json = try await Tool.run("ledger", "verify", "--json", "--data", data.path)
                #expect(json.status == 1)
                guard case .array(let list) = try json.decode(JSONValue.self)["differences"] else {
                    throw Unexpected("The differences are missing: \(json.output)")
                }
                #expect(list.map { $0["account"]?.string } == [victim.description])
            }
        }

        @Test func `verifying a missing folder fails and creates nothing`() async throws {
            try await TemporaryFolder.with { folder in
                let missing = folder.appending(path: "missing")
                let verified = try await Tool.run("ledger", "verify", "--data", missing.path)
                #expect(verified.status == 1)
                #expect(verified.errors.contains("There is no data at \(missing.path)"))
                #expect(!FileManager.default.fileExists(atPath: missing.path))
            }
        }

        @Test func `support grants tokens and units through the running server`() async throws {
            try await TemporaryFolder.with { data in
                try await ServeProcess.with(data: data, arguments: []) { server in
                    let guest = try await server.api.guest()
                    func give(_ command: [String]) async throws -> Tool.Ended {
                        let options = [
                            "--id", guest.account.description, "--reason", "an outage", "--data",
                            data.path, "--admin-port", "\(server.adminPort)",
                        ]
                        return try await Tool.with(["account"] + command + options) {
                            try await $0.ended()
                        }
                    }
                    let granted = try await give(["grant", "--amount", "5", "--key", "k"])
                    #expect(granted.output == "balance   105 tokens\n", "\(granted.errors)")
                    let again = try await give(["grant", "--amount", "5", "--key", "k"])
                    #expect(again.output == granted.output)
                    let giveBack = ["give-back", "--quota", "readings", "--amount"]
                    let unused = try await give(giveBack + ["1"])
                    #expect(unused.status == 1 && unused.errors.contains("Give back at most 0"))
                    for key in ["q1", "q2"] {
                        let path = "/v1/quotas/readings/consume"
                        let used = try await server.api.send(
                            .POST,
                            path,
                            token: guest.token,
                            key: key,
                            json: ConsumeRequest()
                        )
                        #expect(used.status == 200, "\(used.text)")
                    }
                    let returned = try await give(giveBack + ["1", "--key", "g"])
                    #expect(returned.output == "quota     readings: 2 of 3 left\n")
                    let repeated = try await give(giveBack + ["1", "--key", "g"])
                    #expect(repeated.output == returned.output)
                    let quotas = try await server.api.send(.GET, "/v1/quotas", token: guest.token)
                    let left = try quotas.decode(Items<Quota>.self).items.map(\.remaining)
                    #expect(left == [2])
                    let tooMany = try await give(giveBack + ["2"])
                    #expect(tooMany.status == 1 && tooMany.errors.contains("Give back at most 1"))
                    let unknown = try await give(["give-back", "--quota", "a/b", "--amount", "1"])
                    #expect(unknown.status == 1 && unknown.errors.contains("not_found"))
                }
            }
        }

        @Test func `support sets the spending limit of an account, and restores the server's`()
            async throws
        {
            try await TemporaryFolder.with { data in
                try await ServeProcess.with(data: data, arguments: []) { server in
                    let guest = try await server.api.guest()
                    let id = guest.account.description
                    func limit(_ options: [String]) async throws -> Tool.Ended {
                        let common = [
                            "account", "limit", "--id", id, "--reason", "a fraud", "--data",
                            data.path, "--admin-port", "\(server.adminPort)",
                        ]
                        return try await Tool.with(common + options) { try await $0.ended() }
                    }
                    func spend(_ amount: Int64, _ key: String) async throws -> Int {
                        let request = SpendRequest(amount: amount, reason: "a reading")
                        return try await server.api.send(
                            .POST,
                            "/v1/spend",
                            token: guest.token,
                            key: key,
                            json: request
                        ).status
                    }
                    let set = try await limit(["--per-day", "5"])
                    #expect(set.output == "limit     5 tokens per day\n", "\(set.errors)")
                    #expect(try await spend(6, "a") == 402)
                    #expect(try await spend(5, "b") == 200)
                    let arguments = ["account", "show", "--id", id, "--data", data.path]
                    let shown = try await Tool.with(arguments) { try await $0.ended() }
                    #expect(shown.output.contains("limit     5 tokens per day\n"))

                    let restored = try await limit(["--default"])
                    #expect(restored.output == "limit     that of the server\n")
                    #expect(try await spend(6, "c") == 200)
                    let gone = try await Tool.with(arguments) { try await $0.ended() }
                    #expect(!gone.output.contains("limit  "))
                    let both = try await limit(["--per-day", "5", "--default"])
                    #expect(both.status == 2 && both.errors.contains("'--per-day' or '--default'"))
                    let neither = try await limit([])
                    #expect(neither.status == 2)
                }
            }
        }

        @Test(arguments: [
            ["nonsense"], ["serve", "--nonsense"], ["serve", "--port"],
            ["serve", "--port", "abc"], ["stand-in", "--port", "70000"], ["account", "show"],
            ["account", "show", "--id", "1"], ["demo", "--latency-ms", "1"], ["ask"],
            ["balance", "--server", "ftp://nowhere"], ["balance", "--folder", ""],
            ["serve", "--data", ""], ["ledger", "verify", "--data", ""],
            ["account", "show", "--device", "a-device-of-a-guest", "--data", ""],
            ["account", "grant", "--id", "1", "--amount", "1", "--reason", "a"],
            ["account", "limit", "--id", "1", "--per-day", "1", "--reason", "a"],
            ["switches", "set", "a.json"], ["switches", "clear", "--reason", ""],
        ])
        func `wrong usage exits with 2 and prints an error to standard error`(
            arguments: [String]
        )
            async throws
        {
            let ended = try await Tool.with(arguments) { try await $0.ended() }
            #expect(ended.status == 2)
            #expect(ended.output.isEmpty)
            #expect(ended.errors.contains("Error: "))
        }

        @Test func `the demonstration ends without losses or errors`() async throws {
            let demo = try await Tool.run("demo", "--latency-ms", "50")
            #expect(demo.status == 0, "\(demo.output) \(demo.errors)")
            #expect(demo.output.contains("Nothing was lost"))
            #expect(demo.errors.isEmpty)
        }
    }
}
