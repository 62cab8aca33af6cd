import Foundation
import TestSupport
import Testing

/// The list under every interleaving that a seed can think of.
///
/// A failure names seed and event; `SANGUINE_FUZZ_SEED` replays that seed alone.
@Suite("Pages, simulated", .bounded(.seconds(300)))
struct PagesFuzzTests {
    private static let environment = ProcessInfo.processInfo.environment

    static let seeds: [UInt64] =
        environment["SANGUINE_FUZZ_SEED"].flatMap(UInt64.init).map { [$0] } ?? Array(1...100)

    /// Events per seed, a million in all; `SANGUINE_FUZZ_EVENTS` sets more for a long run.
    static let events = environment["SANGUINE_FUZZ_EVENTS"].flatMap(Int.init) ?? 10_000

    @Test(arguments: seeds)
    func `no row doubles, vanishes or stands in the wrong place, whatever the server does`(
        seed: UInt64
    ) async {
        var simulation = PagesSimulation(seed: seed)
        for event in 1...Self.events {
            simulation.step()
            if event % 250 == 0 {
                await Task.yield()  // tidy: allow busy-wait: others need the thread, too.
            }
            if event % 2_000 == 0 { simulation.settle() }
            if let fault = simulation.fault {
                Issue.record("Seed \(seed), event \(event): \(fault)")
                return
            }
        }
        #expect(simulation.landings > Self.events / 20, "The seed exercises nothing.")
    }

    @Test func `the seeds reach expired cursors, second looks and readers further down`() {
        var recoveries = 0
        var stays = 0
        var reviews = 0
        for seed in UInt64(1)...5 {
            var simulation = PagesSimulation(seed: seed)
            for _ in 1...1_000 { simulation.step() }
            recoveries += simulation.recoveries
            reviews += simulation.reviews
            stays += simulation.stays
        }
        #expect(recoveries > 0)
        #expect(reviews > 0)
        #expect(stays > 0)
    }
}
