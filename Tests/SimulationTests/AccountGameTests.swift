import Sanguine
import Simulation
import TestSupport
import Testing

/// Plays registered users on two devices, see ``accountLeak(seed:steps:fault:)``.
///
/// `make leaks` plays many more seeds.
@Suite("Account game", .serialized, .bounded(.seconds(120)))
struct AccountGameTests {
    @Test(arguments: 1...12 as ClosedRange<UInt64>)
    func `no account's data is on a device of another one`(seed: UInt64) async {
        let leak = await accountLeak(seed: seed).leak
        #expect(leak == nil, "\(leak.map(\.description) ?? "")")
    }

    @Test(arguments: PlantedFault.ofAccounts)
    func `a planted fault is found within thirty seeds`(fault: PlantedFault) async {
        var found: UserLeak?
        for seed in 1...30 as ClosedRange<UInt64> where found == nil {
            found = await accountLeak(seed: seed, fault: fault).leak
        }
        let detail = found?.detail ?? "nothing"
        let leaks = #/ is in | sees | has another user unasked/#
        #expect(detail.contains(leaks), "What was found: \(detail)")
    }

    @Test func `twenty seeds cover all turns`() async {
        var missing = Set(AccountGameTurn.allCases)
        for seed in 1...20 as ClosedRange<UInt64> where !missing.isEmpty {
            let (leak, tally) = await accountLeak(seed: seed)
            #expect(leak == nil)
            missing.subtract(tally.keys)
        }
        #expect(missing.isEmpty, "These never happened: \(missing.map(\.rawValue))")
    }
}
