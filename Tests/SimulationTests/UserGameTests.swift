import Foundation
import Sanguine
import Simulation
import TestSupport
import Testing

/// Plays users who share a device, see ``userLeak(seed:steps:fault:)``.
///
/// `SANGUINE_USER_SEEDS=1..10000` plays those seeds instead of a hundred.
@Suite("User game", .serialized, .bounded(.seconds(120)))
struct UserGameTests {
    private static let seeds: [UInt64] = {
        let text = ProcessInfo.processInfo.environment["SANGUINE_USER_SEEDS"] ?? "1..100"
        let bounds = text.components(separatedBy: "..").compactMap { UInt64($0) }
        guard let first = bounds.first, let last = bounds.last, first <= last else { return [] }
        return Array(first...last)
    }()

    @Test(arguments: seeds)
    func `no user sees another user's data, and none is left after a sign-out`(seed: UInt64) async {
        let leak = await userLeak(seed: seed).leak
        #expect(leak == nil, "\(leak.map(\.description) ?? "")")
    }

    @Test(arguments: PlantedFault.ofUsers)
    func `a planted fault is found within twenty seeds`(fault: PlantedFault) async {
        var found: UserLeak?
        for seed in 1...20 as ClosedRange<UInt64> where found == nil {
            found = await userLeak(seed: seed, fault: fault).leak
        }
        let detail = found?.detail ?? "nothing"
        #expect(detail.contains(#/ is in | sees | still shows /#), "What was found: \(detail)")
    }

    @Test func `forty seeds cover all turns`() async {
        var missing = Set(UserGameTurn.allCases)
        for seed in 1...40 as ClosedRange<UInt64> where !missing.isEmpty {
            let (leak, tally) = await userLeak(seed: seed)
            #expect(leak == nil)
            missing.subtract(tally.keys)
        }
        #expect(missing.isEmpty, "These never happened: \(missing.map(\.rawValue))")
    }

    @Test func `the game has seeds to play`() { #expect(!Self.seeds.isEmpty) }
}
