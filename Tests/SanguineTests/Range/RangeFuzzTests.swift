import Foundation
import SanguineModel
import SanguineTesting
import Testing

@testable import Sanguine

/// Ranges under every interleaving that a seed can think of.
///
/// A failure names seed and event; the same seed replays it.
@Suite("Ranges, simulated")
struct RangeFuzzTests {
    /// Events per seed; `SANGUINE_FUZZ_EVENTS` sets more for a long run.
    static let events =
        ProcessInfo.processInfo.environment["SANGUINE_FUZZ_EVENTS"].flatMap(Int.init) ?? 5_000

    @Test(arguments: UInt64(1)...20)
    func `what counts as fresh is the truth, and every reader gets what it asked for`(
        seed: UInt64
    ) {
        var game = RangeGame(seed: seed)
        for event in 1...Self.events {
            game.step()
            if let fault = game.fault {
                Issue.record("Seed \(seed), event \(event) (\(game.lastEvent)): \(fault)")
                return
            }
        }
        game.rest()

        #expect(game.fault == nil, "Seed \(seed)")
        #expect(game.answered > Self.events / 20, "Seed \(seed) exercises nothing.")
        #expect(game.shared > Self.events / 200, "Seed \(seed) shares nothing.")
    }

    @Test(arguments: UInt64(101)...110)
    func `what is known never exceeds its limit, and what was read last stays`(seed: UInt64) {
        var random = SplitMix64(seed: seed)
        var coverage = RangeCoverage()
        for round in 1...200 {
            let from = Int.random(in: 0..<500, using: &random)
            let range = from..<from + Int.random(in: 1...30, using: &random)
            let recent = (0..<3).map { _ in
                let from = Int.random(in: 0..<500, using: &random)
                return from..<from + 10
            }
            let before = coverage
            coverage.insert(
                RangeSet(range),
                asOf: Timestamp(millisecondsSince1970: Int64(round)),
                isStale: Bool.random(using: &random)
            )
            let full = coverage
            let forgotten = coverage.trim(to: 100, keeping: [range] + recent)
            let kept = coverage.positions(in: 0..<1_000) { _ in true }
            let wanted = ([range] + recent).reduce(into: RangeSet<Int>()) {
                $0.insert(contentsOf: $1)
            }
            let all = full.positions(in: 0..<1_000) { _ in true }

            #expect(coverage.count <= 100, "Seed \(seed), round \(round)")
            #expect(kept.union(forgotten) == all && kept.isDisjoint(forgotten))
            #expect(all.intersection(wanted).isSubset(of: kept), "Seed \(seed), round \(round)")
            #expect(before.count + range.count >= full.count)
        }
    }
}
