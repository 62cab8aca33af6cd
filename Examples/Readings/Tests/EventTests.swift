import Foundation
import ReadingsApp
import ReadingsModel
import Sanguine
import SanguineTesting
import TestSupport
import Testing

/// Events for analytics.
@Suite("Events of Readings", .bounded(.seconds(120)))
struct EventTests {
    @Test func `analytics receive a guest, an upgrade and an exhausted quota, nothing personal`()
        async throws
    {
        try await ReadingsWorld.with(events: "events.jsonl") { world in
            let client = try world.client()
            let screen = await world.screen(client)
            for _ in 1...3 { try await screen.readWhole(world.photo) }
            let identity = await IdentityScreen(client)
            let email = "someone-personal@example.org"
            try await identity.register(email: email, password: "a long password")
            try await identity.verify(world.code())

            let file = world.root.appending(path: "events.jsonl")
            let read = { @Sendable in (try? String(contentsOf: file, encoding: .utf8)) ?? "" }
            let kinds = ["account.created", "account.upgraded", "quota.exhausted"]
            try await eventually("three events", within: .seconds(30)) {
                kinds.allSatisfy { read().contains($0) }
            }
            struct Event: Decodable { let type: String }
            let lines = read().split(separator: "\n")
            let events = try lines.map { try JSONDecoder().decode(Event.self, from: Data($0.utf8)) }
            let counts = kinds.map { kind in events.count { $0.type.hasSuffix(kind) } }
            #expect(counts == [1, 1, 1], "\(events)")
            let account = try #require(client.accountId).description
            let personal = [email, account, try world.deviceID(), "Istanbul"]
            let leaks = personal.count { read().contains($0) }
            #expect(leaks == 0)
            printFigure(
                "G8",
                ours: """
                    \(events.count) events of \(kinds.count) kinds, \(leaks) of \
                    \(personal.count) personal facts in them
                    """
            )
            client.close()
        }
    }
}
