import Simulation
import Testing

@Suite("Simulation", .timeLimit(.minutes(15)))
struct SimulationTests {
    @Test(arguments: 1...60 as ClosedRange<UInt64>)
    func `whatever fails, the guarantees hold and all devices end alike`(seed: UInt64) async {
        let found = await violation(seed: seed)
        #expect(found == nil, "\(String(describing: found))")
    }

    @Test(arguments: 1...20 as ClosedRange<UInt64>)
    func `devices cannot tell the authority from the model of its contract`(seed: UInt64) async {
        let found = await violation(seed: seed, authority: .model)
        #expect(found == nil, "\(String(describing: found))")
    }

    @Test(arguments: PlantedBug.allCases)
    func `a planted bug is found within a hundred seeds`(bug: PlantedBug) async {
        var seed: UInt64 = 1
        while seed <= 100, await violation(seed: seed, bug: bug) == nil { seed += 1 }
        #expect(seed <= 100, "No seed shows \(bug.rawValue): the simulation is blind to it.")
    }
}
