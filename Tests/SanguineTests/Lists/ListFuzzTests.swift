import TestSupport
import Testing

/// Plays random interleavings of events against a list, from seeds.
///
/// `SANGUINE_FUZZ_EVENTS=10000 swift test --filter ListFuzzTests` plays a million events.
@Suite("List simulation", .bounded(.seconds(300)))
struct ListFuzzTests {
    private static let events = Fuzz.events(1_000)

    @Test(arguments: Fuzz.seeds(1...100))
    func `rows are never duplicated, lost or out of order with any server behavior`(
        seed: UInt64
    ) {
        var simulation = ListSimulation(seed: seed)
        for event in 1...Self.events where simulation.fault == nil {
            simulation.step()
            if event % 2_000 == 0 || event == Self.events { simulation.settle() }
        }
        let replay = Fuzz.replay(Self.self, seed: seed, simulation.fault ?? "")
        #expect(simulation.fault == nil, replay)
        #expect(simulation.excused <= 1 + Self.events / 5_000, replay)
        #expect(simulation.completions > Self.events / 20, "The seed covers too little.")
    }

    @Test func `the seeds cover expired cursors, reviews and readers further down`() {
        var recoveries = 0
        var stays = 0
        var reviews = 0
        var late = 0
        for seed in UInt64(1)...5 {
            var simulation = ListSimulation(seed: seed)
            for _ in 1...1_000 { simulation.step() }
            recoveries += simulation.recoveries
            reviews += simulation.reviews
            stays += simulation.stays
            late += simulation.late
        }
        #expect(recoveries > 0)
        #expect(reviews > 0)
        #expect(stays > 0)
        #expect(late > 0)
    }
}
