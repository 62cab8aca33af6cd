import Simulation
import Testing

@Suite struct SimulationTests {
    @Test(arguments: 1...200 as ClosedRange<UInt64>)
    func `whatever fails, the guarantees hold and all devices end alike`(seed: UInt64) {
        let violation = World.violation(seed: seed)
        #expect(violation == nil, "\(String(describing: violation))")
    }

    @Test(arguments: PlantedBug.allCases)
    func `a planted bug is found within a hundred seeds`(bug: PlantedBug) {
        let found = (1...100).lazy.compactMap { World.violation(seed: $0, bug: bug) }.first
        #expect(found != nil, "No seed shows \(bug.rawValue): the simulation is blind to it.")
    }
}
