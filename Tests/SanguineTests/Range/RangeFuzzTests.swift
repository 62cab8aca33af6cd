import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import Sanguine

/// Plays random interleavings of events against ranges, from seeds.
///
/// A failure names the seed that replays it, and the command.
@Suite("Range simulation", .bounded(.seconds(300)))
struct RangeFuzzTests {
    @Test(arguments: Fuzz.seeds(1...20))
    func `fresh values are true, and every reader gets the range it requested`(
        seed: UInt64
    ) {
        var game = RangeGame(seed: seed)
        let events = Fuzz.events(50_000)
        for event in 1...events {
            game.step()
            guard let fault = game.fault else { continue }
            Issue.record(
                Fuzz.replay(Self.self, seed: seed, "event \(event) (\(game.lastEvent)): \(fault)")
            )
            return
        }
        game.rest()

        #expect(game.fault == nil, Fuzz.replay(Self.self, seed: seed))
        #expect(events < 1_000 || game.answered > events / 20, "The seed covers too little.")
        #expect(events < 1_000 || game.shared > events / 200, "The seed shares too few fetches.")
    }

    @Test(arguments: Fuzz.seeds(101...110))
    func `the coverage never exceeds its limit, and the most recently read part is kept`(
        seed: UInt64
    ) {
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

            #expect(coverage.count <= 100, Fuzz.replay(Self.self, seed: seed))
            #expect(kept.union(forgotten) == all && kept.isDisjoint(forgotten))
            #expect(all.intersection(wanted).isSubset(of: kept), Fuzz.replay(Self.self, seed: seed))
            #expect(before.count + range.count >= full.count)
        }
    }
}
