import Foundation
import HostileUpstream
import ReadingsApp
import ReadingsModel
import Sanguine
import SanguineServer
import SanguineTesting
import TestSupport
import Testing

/// Three readings a day.
@Suite("Quota of Readings", .bounded(.seconds(120)))
struct QuotaTests {
    /// Half past eleven in the evening in Istanbul.
    private static let evening = Timestamp("2026-11-27T20:30:00Z")

    @Test func `the fourth reading of a day is refused until midnight, or until a plan lifts it`()
        async throws
    {
        try await ReadingsWorld.with(at: Self.evening) { world in
            let network = RecordedNetwork()
            let client = try world.client { $0.transport = network }
            let screen = await world.screen(client)
            for _ in 1...3 { try await screen.readWhole(world.photo) }
            #expect(await screen.quota?.remaining == 0)

            // The photo of the fourth is not even uploaded.
            let sent = network.requests.count { $0.line == "POST /v1/blobs" }
            let early = await #expect(throws: SanguineError.self) {
                try await screen.read(world.photo, .face, .indian)
            }
            #expect(early?.code == "quota_exhausted")
            #expect(network.requests.count { $0.line == "POST /v1/blobs" } == sent)
            let midnight = Timestamp("2026-11-27T21:00:00Z")
            try await eventually("the paywall") { await screen.paywall.isExhausted }
            let (limit, reset, lifts) = await MainActor.run {
                (screen.paywall.limit, screen.paywall.resetsAt, screen.paywall.lifts)
            }
            #expect(limit == 3 && reset == midnight && lifts == [.premium])

            // The server refuses it, too.
            let photo = try #require(await screen.history.first?.photo)
            let input = ReadPhoto.Input(.face, .indian, language: "tr")
            let refusal = await #expect(throws: SanguineError.self) {
                try await client.call(ReadPhoto(input, of: photo))
            }
            guard case .problem(let problem) = refusal else { return }
            #expect(problem.status == 402 && problem.code == .quotaExhausted)
            #expect(problem.resetsAt == midnight && problem.lifts == ["premium"])
            #expect(problem.retryAfter == 30 * 60)

            world.clock.advance(by: .seconds(30 * 60))
            try await screen.refresh()
            #expect(await screen.quota?.remaining == 3)
            try await eventually("no paywall") { await !screen.paywall.isExhausted }
            // The photo is still chosen.
            await screen.resume()
            try await screen.settled()
            #expect(await screen.history.first?.kind == .face)
            #expect(await screen.quota?.remaining == 2)
            printFigure(
                "G4",
                ours: """
                    \(limit ?? 0) readings, the next one refused for \
                    \((problem.retryAfter ?? 0) / 60) minutes, or until \
                    \(problem.lifts ?? [])
                    """
            )
            client.close()
        }
    }

    @Test func `premium users read without a limit, and see it at once`() async throws {
        try await ReadingsWorld.with { world in
            let client = try world.client()
            let screen = await world.screen(client)
            for _ in 1...3 { try await screen.readWhole(world.photo) }
            let id = try #require(client.accountId)
            let set = try await world.administer(
                "PUT",
                "accounts/\(id)/plan",
                #"{"plan":"premium","reason":"a test"}"#
            )
            #expect(set.status == 200)
            try await eventually("the plan") {
                try await client.refresh(.quotas)
                return await screen.quota?.unlimited == true
            }
            try await eventually("no paywall") { await screen.paywall.isLifted }
            for _ in 1...2 { try await screen.readWhole(world.photo) }
            #expect(await screen.history.count == 5)
            client.close()
        }
    }

    @Test func `travelling grants no second quota, and the new zone's midnight counts`()
        async throws
    {
        try await ReadingsWorld.with(at: Self.evening) { world in
            let client = try world.client()
            let (screen, account) = await (world.screen(client), AccountScreen(client))
            for _ in 1...3 { try await screen.readWhole(world.photo) }

            // It is tomorrow in Auckland and still today in Los Angeles.
            for zone in ["Pacific/Auckland", "America/Los_Angeles"] {
                try await account.setTimeZone(zone)
                try await client.synchronize()
                try await screen.refresh()
                #expect(await screen.quota?.remaining == 0, "\(zone)")
            }
            // Midnight in Istanbul is noon in Los Angeles.
            world.clock.advance(by: .hours(1))
            try await screen.refresh()
            #expect(await screen.quota?.remaining == 0)
            let midnight = Timestamp("2026-11-28T08:00:00Z")
            #expect(await screen.quota?.resetsAt == midnight)
            world.clock.advance(by: .hours(11))
            try await screen.refresh()
            #expect(await screen.quota?.remaining == 3)
            client.close()
        }
    }
}
