import AssistantApp
import AssistantModel
import Foundation
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
        try await TemporaryFolder.with { root in
            let data = root.appending(path: "server")
            try await ToolDevice.serving("Assistant", data) { address, server in
                let app = root.appending(path: "app")
                let device = ToolDevice("Assistant", server: address, folder: app)
                let asked = try await device.run(["Why is the sky blue?"])
                let lines = asked.output.split(separator: "\n").map(String.init)
                #expect(lines.first == "97 tokens, 3 held" && lines.last == "99 tokens")
                #expect(lines.count == 4 && lines[1].contains("sky blue"))
                let known = try await device.run(["balance"])
                #expect(known.output.hasPrefix("99 tokens, 0 held\n"))

                let prefix = "administration on "
                let said = try await server.output.first("the port for administration") { said in
                    said.lines.first { $0.hasPrefix(prefix) }
                }
                let admin = try #require(URL(string: String(said.dropFirst(prefix.count))))
                let requests = try AdminRequests(to: admin, data: data)
                let id = try DeviceIdentityFile(in: app).deviceID
                let account = try await requests.account(ofDevice: id).id
                let path = "accounts/\(account)/grants"
                let gift = #"{"amount":50,"reason":"a gift"}"#
                #expect(try await requests.send("POST", path, gift).status == 200)
                let richer = try await device.run(["balance"])
                #expect(richer.output.hasPrefix("149 tokens, 0 held\n"))

                let photo = root.appending(path: "photo.jpg")
                try Data(SampleFile.jpeg.bytes()).write(to: photo)
                let seen = try await device.run(["What is it?", "--image", photo.path])
                #expect(seen.output.contains("I have looked at 1 attached"))
                let gone = try await device.run(["What is it?", "--image", "gone.jpg"])
                #expect(gone.status != 0 && gone.errors.contains("gone.jpg"))
            }
        }
    }
}
