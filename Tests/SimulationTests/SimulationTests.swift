import SanguineModel
import Simulation
import TestSupport
import Testing

@Suite("Simulation", .bounded(.seconds(300)))
struct SimulationTests {
    @Test(arguments: 1...60 as ClosedRange<UInt64>)
    func `the guarantees hold under all faults, and all devices converge`(seed: UInt64) async {
        let found = await violation(seed: seed)
        #expect(found == nil, "\(String(describing: found))")
    }

    @Test(arguments: 1...20 as ClosedRange<UInt64>)
    func `devices cannot distinguish the authority from the model of its contract`(
        seed: UInt64
    ) async {
        let found = await violation(seed: seed, authority: .both)
        #expect(found == nil, "\(String(describing: found))")
    }

    @Test func `an authority that differs from its model is detected`() async throws {
        var twins = TwinAuthority(schema: SimulatedApp.server, ofModel: .standard)
        let account = try await twins.account(0)
        let operation = PushedOperation(
            id: Identifier(at: Timestamp(millisecondsSince1970: 1)),
            sequence: 1,
            lane: "main",
            mutator: "mark",
            arguments: ["counter": .string(SimulatedApp.counters[0].id.text), "lane": "main"]
        )
        let request = PushRequest(device: "a-device-of-the-simulation", operations: [operation])
        await #expect(throws: TwinAuthority.Difference.self) {
            try await twins.push(request, account: account)
        }
    }

    @Test func `a hundred seeds cover all turns`() async {
        var missing = Set(WorldTurn.allCases)
        var seed: UInt64 = 1
        while seed <= 100, !missing.isEmpty {
            missing.subtract(await playWorld(seed: seed).tally.keys)
            seed += 1
        }
        #expect(missing.isEmpty, "The simulation proves nothing about \(missing).")
    }

    @Test(arguments: PlantedBug.allCases)
    func `a planted bug is found within a hundred seeds`(bug: PlantedBug) async {
        var seed: UInt64 = 1
        while seed <= 100, await violation(seed: seed, bug: bug) == nil { seed += 1 }
        #expect(seed <= 100, "No seed shows \(bug.rawValue): the simulation is blind to it.")
    }
}
