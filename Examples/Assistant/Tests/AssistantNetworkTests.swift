import AssistantApp
import AssistantModel
import Foundation
import RegexBuilder
import Sanguine
import SanguineTesting
import TestSupport
import Testing

/// The assistant with a network that loses, duplicates, delays and breaks off.
@MainActor
@Suite("Assistant on a bad network", .bounded(.seconds(120)))
struct AssistantNetworkTests {
    @Test(arguments: [UInt64(1), 2, 3])
    func `questions over a bad network are charged once and end with the server's balance`(
        seed: UInt64
    ) async throws {
        try await AssistantWorld.with { world in
            let delay = ManualClock()
            let network = FaultyNetwork(URLSessionTransport.patient, seed: seed, clock: delay)
            let client = try world.client { ($0.transport, $0.delay) = (network, delay) }
            let screen = await AssistantScreen(client)
            _ = try await delay.advancing { try await client.value(of: .balance) }
            network.faults = .rough

            var charged: [String: Int64?] = [:]
            for round in 0..<4 {
                let answers = try await MainActor.run {
                    try (0..<5).map { try screen.ask("Question \(seed), \(round), \($0)?") }
                }
                for answer in answers {
                    let end = try await delay.advancing(within: .seconds(30)) {
                        try await eventually("an end, \(network)", within: .seconds(30)) {
                            let phase = await answer.phase
                            return phase == .done || phase == .failed
                        }
                        return await MainActor.run { answer.result }
                    }
                    charged[await answer.key] = .some(end?.charged)
                }
            }
            network.faults = .none
            try await delay.advancing(within: .seconds(30)) {
                try await eventually("the server's balance, \(network)", within: .seconds(30)) {
                    let server = try await world.balance()
                    // The balance is unknown while calls are running.
                    let shown = try? await client.refresh(.balance)
                    return server.held == 0 && shown?.held == 0
                        && shown?.available == server.available
                }
            }
            #expect(charged.count == 20)
            #expect(network.count(of: .answerLost) + network.count(of: .doubled) > 0)
            var all: [Int64] = []
            for (key, shown) in charged {
                // A call without an answer may still have been made.
                let charge = try await world.charge(ofCall: key)
                if let shown { #expect(shown == charge && charge > 0, "\(key), \(network)") }
                all.append(charge)
            }
            #expect(try await world.charges().sorted() == all.filter { $0 > 0 }.sorted())
            client.close()
        }
    }

    @Test
    func `an app closed during an answer resumes it at its next start and pays once`()
        async throws
    {
        try await AssistantWorld.with(latency: AssistantWorld.latency) { world in
            let former = try world.client()
            _ = try await former.value(of: .balance)
            let stream = try former.stream(AskText("Why is the sky blue?"))
            try await world.modelClock.waitForSleepers(1)
            try await eventually("the call to be stored") {
                former.openCalls.map(\.key) == [stream.key]
            }
            former.close()

            let client = try world.client()
            let screen = await AssistantScreen(client)
            await screen.resume()
            let turn = try #require(await screen.turns.first)
            #expect(turn.question == "Why is the sky blue?")
            let answer = turn.answer
            world.modelClock.advance(by: AssistantWorld.latency)
            let result = try await answer.whole()
            #expect(await answer.text == result.output)
            #expect(await answer.key == stream.key)
            #expect(try await world.balance().available == 100 - result.charged)
            #expect(try await world.charges() == [result.charged])
            client.close()
        }
    }
}

/// The real executable, as a user runs it.
@Suite("Assistant in a terminal", .bounded(.seconds(120)))
struct AssistantToolTests {
    @Test func `a question is answered, charged and remembered`() async throws {
        let root = FileManager.default.temporaryDirectory.appending(path: "assistant-\(UUID())")
        defer { try? FileManager.default.removeItem(at: root) }
        let serve = ["serve", "--port", "0", "--data", root.appending(path: "server").path]
        try await Tool.with(serve, of: "Assistant") { server in
            let options = [
                "--server", "http://127.0.0.1:\(try await server.listeningPort())", "--folder",
                root.appending(path: "app").path,
            ]
            let asked = try await Self.run(["Why is the sky blue?"] + options)
            let lines = asked.output.split(separator: "\n").map(String.init)
            #expect(lines.first == "97 tokens, 3 held" && lines.last == "99 tokens")
            #expect(lines.count == 4 && lines[1].contains("sky blue"))
            let known = try await Self.run(["balance"] + options)
            #expect(known.output.hasPrefix("99 tokens, 0 held\n"))

            let said = try await server.output.first("the port for administration") { said in
                said.lines.first { $0.hasPrefix("administration on ") }
            }
            let admin = try #require(
                URL(string: String(said.dropFirst("administration on ".count)))
            )
            let granted = try await Self.grant(50, on: admin, root)
            #expect(granted == 200)
            let richer = try await Self.run(["balance"] + options)
            #expect(richer.output.hasPrefix("149 tokens, 0 held\n"))

            let photo = root.appending(path: "photo.jpg")
            try Data(SampleFile.jpeg.bytes()).write(to: photo)
            let seen = try await Self.run(["What is it?", "--image", photo.path] + options)
            #expect(seen.output.contains("I have looked at 1 attached"))
            let gone = try await Self.run(["What is it?", "--image", "gone.jpg"] + options)
            #expect(gone.status != 0 && gone.errors.contains("gone.jpg"))
            server.signal(SIGTERM)
            #expect(try await server.ended().status == 0)
        }
    }

    /// Grants tokens to the app's user, with the token and the identity in the folders of server
    /// and app.
    private static func grant(_ amount: Int, on server: URL, _ root: URL) async throws -> Int {
        let token = try String(
            contentsOf: root.appending(path: "server/admin-token"),
            encoding: .utf8
        )
        let identity = try JSONDecoder().decode(
            [String: String].self,
            from: Data(contentsOf: root.appending(path: "app/device-identity.json"))
        )
        let transport = URLSessionTransport()
        let path = "admin/v1/accounts"
        let device = URLQueryItem(name: "deviceId", value: identity["deviceId"])
        var find = TransportRequest(
            url: server.appending(path: path).appending(queryItems: [device])
        )
        find.headers = [
            "Authorization": "Bearer \(token.trimmingCharacters(in: .whitespacesAndNewlines))"
        ]
        let found = try await transport.send(find)
        struct Found: Decodable { let id: String }
        let id = try JSONDecoder().decode(Found.self, from: found.body).id
        var grant = TransportRequest(url: server.appending(path: "\(path)/\(id)/grants"))
        (grant.method, grant.headers) = ("POST", find.headers)
        grant.headers["Idempotency-Key"] = "1"
        grant.headers["Content-Type"] = "application/json"
        grant.body = Data(#"{"amount":\#(amount),"reason":"a gift"}"#.utf8)
        return try await transport.send(grant).status
    }

    private static func run(_ arguments: [String]) async throws -> Tool.Ended {
        try await Tool.with(arguments, of: "Assistant") { try await $0.ended() }
    }
}

/// The README's statements about the tests.
@Suite("Assistant's README", .bounded)
struct AssistantReadmeTests {
    @Test func `the README names the test of each row, and the test prints its figure`() throws {
        let folder = URL(filePath: #filePath).appending(path: "../..").standardized
        let tests = folder.appending(path: "Tests/AssistantTests.swift")
        let source = try String(contentsOf: tests, encoding: .utf8)
        let readme = try String(contentsOf: folder.appending(path: "README.md"), encoding: .utf8)
        let row = Regex {
            Anchor.startOfLine
            "| "
            Capture {
                "T"
                OneOrMore(.digit)
            }
            " | "
            Capture { OneOrMore(.any, .reluctant) }
            " | "
        }
        let found = readme.matches(of: row).map { (row: $0.output.1, test: $0.output.2) }
        #expect(found.map(\.row) == (1...12).map { "T\($0)" })
        for (row, test) in found {
            let parts = source.components(separatedBy: "func `\(test)`(")
            #expect(parts.count == 2, "\(test)")
            let body = parts.last?.components(separatedBy: "@Test").first ?? ""
            #expect(body.contains("\"\(row)\""), "\(row)")
        }
    }
}
