import Foundation
import Sanguine
import SanguineTesting
import TestSupport
import Testing

/// `kill -9` of the real app during an answer.
@Suite("An assistant that is killed", .bounded(.seconds(120)))
struct AssistantKillTests {
    @Test(arguments: [1, 3, 8])
    func `an app killed during an answer reads all of it at its next start and pays once`(
        words: Int
    ) async throws {
        try await AssistantWorld.with(wordInterval: .seconds(1)) { world in
            let folder = world.root.appending(path: "phone").path
            let options = ["--server", world.server.absoluteString, "--folder", folder]
            let question = ["ask", "Why is the sky blue?"] + options
            let seen = try await Tool.with(question, of: "Assistant") { tool in
                let count = { @Sendable (said: Tool.Said) -> Int in
                    said.lines.isEmpty ? 0 : said.text.split(separator: " ").count
                }
                let before = try await tool.output.first("the balance") { said in
                    said.lines.isEmpty ? nil : count(said)
                }
                for _ in 1...words {
                    try await world.modelClock.waitForSleepers(1)
                    world.modelClock.advance(by: .seconds(1))
                }
                try await tool.output.wait(for: "\(words) words") { count($0) > before }
                tool.signal(SIGKILL)
                let ended = try await tool.ended()
                #expect(ended.status == -SIGKILL, "\(ended.errors)")
                return ended.output.split(separator: "\n").last.map { String($0) } ?? ""
            }
            #expect(!seen.isEmpty)

            let resume = { @Sendable in
                try await Tool.with(["resume"] + options, of: "Assistant") { try await $0.ended() }
            }
            let resumed = try await world.modelClock.advancing { try await resume() }
            #expect(resumed.status == 0, "\(resumed.errors)")
            let lines = resumed.output.split(separator: "\n")
            #expect(lines.count == 2 && lines[0].hasPrefix(seen), "\(seen) … \(resumed.output)")
            let amount = lines.last?.split(separator: " ").first
            let charged = try #require(amount.flatMap { Int64($0) })
            let balance = try await world.balance()
            #expect(charged > 0 && balance.available == 100 - charged && balance.held == 0)
            #expect(try await world.charges() == [charged])

            // No call is still open.
            let again = try await resume()
            #expect(again.status == 0 && again.output.isEmpty)
        }
    }
}
