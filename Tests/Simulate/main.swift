import Simulation
import SanguineModel

let arguments = CommandLine.arguments.dropFirst()
let range = arguments.first?.split(separator: ".").compactMap { UInt64($0) } ?? []
let bug = arguments.dropFirst().first.flatMap(PlantedBug.init)
let first = range.first ?? 1
let last = range.last ?? 100
var failed = 0
for seed in first...last {
    var world = World(
        seed: seed,
        authority: ModelAuthority(schema: SimulatedApp.server),
        bug: bug
    )
    do {
        try world.run(events: 200)
    } catch {
        failed += 1
        print(error)
        if failed >= 5 { break }
    }
}
print("\(first)...\(last): \(failed) failed")
